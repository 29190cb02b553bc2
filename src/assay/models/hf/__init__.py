"""Local models through transformers: hub names, directories and GGUF files, each token computed once."""

from assay.models.hf.model import HFLM

__all__ = ["HFLM"]
