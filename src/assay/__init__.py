"""Assay: measure language models and say what the scores are worth."""
