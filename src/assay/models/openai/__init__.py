"""Any server that speaks the OpenAI protocol: completions (generation and likelihoods) and chat (generation)."""

from assay.models.openai.chat import LocalChat, OpenAIChat
from assay.models.openai.completions import LocalCompletions, OpenAICompletions

__all__ = ["LocalChat", "LocalCompletions", "OpenAIChat", "OpenAICompletions"]
