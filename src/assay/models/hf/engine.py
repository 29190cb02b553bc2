"""What scoring and generation share: the model, its tokens, its limits, and the count of what was spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay.models.hf.budget import TokenBudget, is_out_of_memory
from assay.models.hf.state import StateRunner
from assay.models.hf.tokenization import TextEncoder
from assay.models.hf.tree import TreeRunner
from assay.models.info import Usage


@dataclass(frozen=True, slots=True)
class HFEngine:
    model: Any
    encoder: TextEncoder
    runner: TreeRunner | None
    """None where the prefix tree does not fit the model."""
    states: StateRunner | None
    """Where it does not, and rows can be decoded together behind the model's own cache."""
    budget: TokenBudget
    usage: Usage
    max_length: int
    tree_length: int
    """Longer sequences are computed plainly: the model treats them otherwise when they are alone."""

    @property
    def seq2seq(self) -> bool:
        return bool(self.model.config.is_encoder_decoder)

    def recover(self, error: Exception) -> None:
        """After running out of memory: drop what is cached and halve the budget. Any other error goes on its way."""
        if not is_out_of_memory(error):
            raise error
        if self.runner is not None:
            self.runner.path.clear()
        self.budget.halve(error)
