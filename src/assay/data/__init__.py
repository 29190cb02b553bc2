"""Dataset reference to docs: the `datasets` library, local files, a local mirror of the hub, `custom_dataset`."""

from assay.data.docs import (
    NUMPY_SEED,
    RANDOM_SEED,
    CorrectedDoc,
    Docs,
    as_dataset,
    columns_of,
    doc_hash,
    iter_docs,
    seeded_globals,
)
from assay.data.finding import DatasetNeed, FoundDataset, find_dataset, find_model, need_of_task
from assay.data.generated import generated_docs
from assay.data.hub import HubClient
from assay.data.mirror import FetchProgress, check_mirror, fill_mirror
from assay.data.source import DataSource, hub_or_cache, mirror_dir, why_out_of_reach

__all__ = [
    "NUMPY_SEED",
    "RANDOM_SEED",
    "CorrectedDoc",
    "DataSource",
    "DatasetNeed",
    "Docs",
    "FetchProgress",
    "FoundDataset",
    "HubClient",
    "as_dataset",
    "check_mirror",
    "columns_of",
    "doc_hash",
    "fill_mirror",
    "find_dataset",
    "find_model",
    "generated_docs",
    "hub_or_cache",
    "iter_docs",
    "mirror_dir",
    "need_of_task",
    "seeded_globals",
    "why_out_of_reach",
]
