"""The viewer: runs, groups and samples in a browser."""

from assay.view.analysis_pages import PAGES, AnalysisPage
from assay.view.bundle import write_bundle
from assay.view.gold_items import draw_gold_items, read_chances
from assay.view.labelling import LabelBook, create_label_app, draw_items, serve_labels
from assay.view.server import LINKS, create_app, serve

__all__ = [
    "LINKS",
    "PAGES",
    "AnalysisPage",
    "LabelBook",
    "create_app",
    "create_label_app",
    "draw_gold_items",
    "draw_items",
    "read_chances",
    "serve",
    "serve_labels",
    "write_bundle",
]
