"""MuSR keeps its choices as the text of a Python list."""

from __future__ import annotations

import ast
from typing import Any


def text(doc: dict[str, Any]) -> str:
    """The story, the question and the numbered choices."""
    choices: list[str] = ast.literal_eval(doc["choices"])
    listed = "".join(f"{number} - {choice}\n" for number, choice in enumerate(choices, 1))
    return f"{doc['narrative']}\n\n{doc['question']}\n\n{listed}\nAnswer:"
