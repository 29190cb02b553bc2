"""The viewer: runs, groups and samples in a browser."""

from assay.view.bundle import write_bundle
from assay.view.server import create_app, serve

__all__ = ["create_app", "serve", "write_bundle"]
