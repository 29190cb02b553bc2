"""Dataset reference to docs: the `datasets` library, local files, a local mirror of the hub, `custom_dataset`."""

from assay.data.docs import NUMPY_SEED, RANDOM_SEED, Docs, columns_of, doc_hash, iter_docs, seeded_globals
from assay.data.source import DataSource, hub_or_cache, mirror_dir

__all__ = [
    "NUMPY_SEED",
    "RANDOM_SEED",
    "DataSource",
    "Docs",
    "columns_of",
    "doc_hash",
    "hub_or_cache",
    "iter_docs",
    "mirror_dir",
    "seeded_globals",
]
