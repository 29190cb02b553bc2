"""The tokenizer that a model's arguments name, by itself: for docs that are made to a length in tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from assay.data import hub_or_cache
from assay.errors import ConfigError, ModelError
from assay.models.catalog import resolve
from assay.models.hf.loading import Source, load_tokenizer

_NAMED_BY = ("tokenizer", "pretrained", "model")


class TokenCounter:
    """Counts the tokens of a text, special ones included."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer, self.name = tokenizer, name
        if self("A text of several words.") == 0:
            raise ModelError(
                f"the tokenizer of {name} gives no tokens for a text",
                hint="Name another: --metadata tokenizer=<directory or hub name>.",
            )

    def __call__(self, text: str) -> int:
        return len(self._tokenizer(text)["input_ids"])

    @property
    def fingerprint(self) -> str:
        """Of its content: the same under another name."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        words = backend.to_str() if backend is not None else json.dumps(sorted(self._tokenizer.get_vocab().items()))
        return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


def token_counter(arguments: Mapping[str, Any]) -> TokenCounter:
    """By the `tokenizer` among a model's arguments, else by the model's own name."""
    named = next((key for key in _NAMED_BY if isinstance(arguments.get(key), str) and arguments[key]), None)
    if named is None:
        raise ConfigError(
            "this task is made to a length in tokens, and nothing names a tokenizer",
            hint="Add --metadata tokenizer=<directory or hub name>.",
        )
    name = str(arguments[named])
    trusted = bool(arguments.get("trust_remote_code"))
    if named == "pretrained":
        chosen = {key: arguments[key] for key in ("revision", "subfolder", "gguf_file") if arguments.get(key)}
        source = Source.find(name, trust_remote_code=trusted, **chosen)
    else:
        source = Source(name, tokenizer=str(resolve(name) or name), trust_remote_code=trusted)
    with nullcontext() if Path(source.tokenizer or source.pretrained).exists() else hub_or_cache():
        return TokenCounter(load_tokenizer(source), name)
