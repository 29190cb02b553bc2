"""Local models through transformers: hub names, directories and GGUF files, each token computed once."""

from assay.models.hf.processor import limit_instructions

limit_instructions()

from assay.models.hf.model import HFLM  # noqa: E402

__all__ = ["HFLM"]
