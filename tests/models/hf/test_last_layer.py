"""Leaving out what nobody reads changes nothing that somebody does."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.models.hf.attention import last_mlp, only_at


class Stack(nn.Module):
    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleDict({"mlp": nn.Linear(4, 4)}) for _ in range(layers)])


class Routed(nn.Module):
    def forward(self, states: Any) -> tuple[Any, str]:
        return states + 1, "routes"


def test_tokens_at_the_places_are_computed_and_the_others_are_zero() -> None:
    mlp, states, places = nn.Linear(4, 4), torch.randn(1, 6, 4), torch.tensor([1, 5])
    whole = mlp(states)
    with torch.inference_mode(), only_at(mlp, places):
        found = mlp(states)
    assert torch.allclose(found[:, places], whole[:, places])
    assert not found[:, [0, 2, 3, 4]].any()
    assert torch.equal(mlp(states), whole)


def test_what_comes_beside_the_states_is_kept() -> None:
    mlp, states = Routed(), torch.zeros(1, 3, 4)
    with only_at(mlp, torch.tensor([2])):
        found, routes = mlp(states)
    assert (found.sum().item(), routes) == (4.0, "routes")


def test_the_last_layer_is_found_where_there_is_one_stack() -> None:
    model = Stack()
    assert last_mlp(model, 3) is model.layers[-1].mlp
    assert last_mlp(model, 2) is None
    assert last_mlp(nn.ModuleList([model, Stack()]), 3) is None
    assert last_mlp(nn.ModuleList([nn.Linear(4, 4)]), 1) is None
