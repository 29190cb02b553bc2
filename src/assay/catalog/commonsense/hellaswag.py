"""HellaSwag as text: half of its passages come from WikiHow and still carry that site's markup."""

from __future__ import annotations

import re
from typing import Any

_MARKUP = re.compile(r"\[.*?\]")


def clean(text: str) -> str:
    """Drop the markup.

    >>> clean("How to bake [title]Mix the flour. [step] Stir.")
    'How to bake. Mix the flour. Stir.'
    """
    return _MARKUP.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def context(doc: dict[str, Any]) -> str:
    return clean(f"{doc['activity_label']}: {doc['ctx_a']} {doc['ctx_b'].capitalize()}")


def endings(doc: dict[str, Any]) -> list[str]:
    return [clean(ending) for ending in doc["endings"]]
