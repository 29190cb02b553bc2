"""WikiText keeps its tokens apart by spaces; models are asked about ordinary text, and counts are of the original."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_REPLACED = (
    ("s '", "s'"),
    (" @-@ ", "-"),
    (" @,@ ", ","),
    (" @.@ ", "."),
    (" : ", ": "),
    (" ; ", "; "),
    (" . ", ". "),
    (" ! ", "! "),
    (" ? ", "? "),
    (" , ", ", "),
)
_PAIRS = (
    (r"\(\s*([^\)]*?)\s*\)", r"(\1)"),
    (r"\[\s*([^\]]*?)\s*\]", r"[\1]"),
    (r"{\s*([^}]*?)\s*}", r"{\1}"),
    (r"\"\s*([^\"]*?)\s*\"", r'"\1"'),
    (r"'\s*([^']*?)\s*'", r"'\1'"),
)
_REPLACED_LAST = (
    ("= = = =", "===="),
    ("= = =", "==="),
    ("= =", "=="),
    (" ° ", "°"),
    (" \n", "\n"),
    ("\n ", "\n"),
    (" N ", " 1 "),
    (" 's", "'s"),
)


def text(doc: dict[str, Any]) -> str:
    """
    >>> text({"page": "= Valkyria = \\n The game 's plot ( in 2011 ) cost 3 @,@ 000 yen ."})
    "= Valkyria =\\nThe game's plot (in 2011) cost 3,000 yen ."
    """
    page: str = doc["page"]
    for before, after in _REPLACED:
        page = page.replace(before, after)
    for pattern, kept in _PAIRS:
        page = re.sub(pattern, kept, page)
    for before, after in _REPLACED_LAST:
        page = page.replace(before, after)
    return page


def process_results(doc: dict[str, Any], results: Sequence[float]) -> dict[str, tuple[float, int]]:
    words, size = len(re.split(r"\s+", doc["page"])), len(doc["page"].encode())
    per_byte = (results[0], size)
    return {"word_perplexity": (results[0], words), "byte_perplexity": per_byte, "bits_per_byte": per_byte}
