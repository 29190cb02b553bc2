"""A byte n-gram model trained on the text beside it: tiny, real, exact, and ready in milliseconds."""

from assay.models.ngram.model import NgramLM

__all__ = ["NgramLM"]
