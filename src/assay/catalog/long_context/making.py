"""What all tasks of this folder share: how long their prompts are, who counts, from which random state, and the score."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.data import DataSource, generated_docs, mirror_dir
from assay.errors import ConfigError, DataError
from assay.models import token_counter
from assay.paths import read_regular

Doc = dict[str, Any]
FORM = 1
"""Counts up when the same settings make other docs."""
DEFAULT_LENGTHS = (4096,)
DEFAULT_DOCS = 500
_AIR = 1.15
"""How much denser than the last one that was counted a text may be."""
MOST_BYTES = 512 << 20
_FILES = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


@dataclass(frozen=True)
class WantedDocs:
    """What a run asks of the docs, by the keys of `--metadata` and `--model_args`."""

    tokens: Callable[[str], int]
    tokenizer: str
    """The hash of its content."""
    lengths: tuple[int, ...]
    docs: int
    """Of each length."""
    seed: int
    numpy_seed: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> WantedDocs:
        lengths = given.get("max_seq_lengths", DEFAULT_LENGTHS)
        lengths = tuple(lengths) if isinstance(lengths, Sequence) and not isinstance(lengths, str) else (lengths,)
        docs = given.get("docs_per_length", DEFAULT_DOCS)
        numbers = {"max_seq_lengths": lengths, "docs_per_length": (docs,)}
        for name, values in numbers.items():
            if not values or not all(isinstance(each, int) and each > 0 for each in values):
                raise ConfigError(
                    f"--metadata {name}: {given[name]!r} is no number of {'tokens' if name[0] == 'm' else 'docs'}",
                    hint=f"Write {name}=8192{', or max_seq_lengths=[4096,8192]' if name[0] == 'm' else ''}.",
                )
        tokens = token_counter(given)
        # The seeds that lm-evaluation-harness begins a run with.
        seeds = int(given.get("data_seed", 0)), int(given.get("numpy_seed", 1234))
        return cls(tokens, tokens.fingerprint, lengths, docs, *seeds)

    def made(self, make: Callable[[], Iterable[Doc]], **facts: Any) -> dict[str, Any]:
        """The splits of a task; made once for the same facts."""
        own = {"form": FORM, "tokenizer": self.tokenizer, "lengths": self.lengths, "docs": self.docs}
        return {"test": generated_docs({**own, "seeds": (self.seed, self.numpy_seed), **facts}, make)}


def grow(
    text_of: Callable[[int], str],
    tokens: Callable[[str], int],
    room: int,
    step: int,
    *,
    start: int,
    most: int | None = None,
) -> int:
    """How many pieces make a text of `room` tokens, found by adding `step` at a time as RULER does.

    Every text is made, for the next ones depend on it; tokens are counted where a text has twice the characters of the last
    one that was counted, or comes near the end.

    >>> grow(lambda pieces: "a" * pieces, len, 35, 10, start=10)
    30
    >>> grow(lambda pieces: "a" * pieces, len, 35, 10, start=10, most=25)
    25
    """
    pieces, taken, counted, density = start, 0, 0, 0.0
    while taken < room:
        text = text_of(pieces)
        taken = int(_AIR * density * len(text))
        if taken >= room or len(text) > 2 * counted:
            taken, counted = tokens(text), len(text)
            density = taken / counted
        if taken > room:
            return pieces - step
        if most is not None and pieces + step > most:
            return most
        pieces += step
        if pieces > 100 * max(room, step):
            raise DataError(
                f"a text of {pieces:,} pieces has {taken:,} tokens, and {room:,} are wanted: the tokenizer miscounts",
                hint="Name another: --metadata tokenizer=<directory or hub name>.",
            )
    return pieces


def each_length(wanted: WantedDocs, docs_of: Callable[[int], Iterable[Doc | None]]) -> Iterator[Doc]:
    """The docs of every length, each from the same random state, so that they do not depend on the lengths before. One that
    fits in no form is left out, and it is an error where none fits."""
    for length in wanted.lengths:
        found = [doc for doc in docs_of(length) if doc is not None]
        if not found:
            raise DataError(
                f"no prompt of this task fits {length:,} tokens", hint="Raise --metadata max_seq_lengths=…."
            )
        yield from found


def text_hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def read_texts(named: str, what: str, key: str) -> list[str]:
    """Texts that the user names: a text file, a file with a column `text`, or a dataset of the hub with one."""
    if not named:
        raise DataError(
            f"this task needs {what}, which do not come with it",
            hint=f"Name them: --metadata {key}=FILE (text, or JSON lines or Parquet with a column text) or {key}=DATASET.",
        )
    path = Path(named).expanduser()
    if path.suffix == ".txt":
        try:
            return [read_regular(path, MOST_BYTES).decode()]
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {error}", hint=f"Name {what}: --metadata {key}=FILE.") from None
    is_file = path.suffix in _FILES
    if is_file and path.exists() and not path.is_file():
        raise DataError(f"{path} is not a regular file", hint=f"Name {what}: --metadata {key}=FILE.")
    kwargs = {"data_files": {"train": str(path)}} if is_file else {}
    source = DataSource(_FILES[path.suffix] if is_file else named, kwargs=kwargs, data_dir=mirror_dir())
    texts = [doc.get("text") for doc in source["train"]]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{named} has no texts in a column `text`", hint=f"Name {what}: --metadata {key}=FILE.")
    return [str(text) for text in texts]


def contained(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """The share of the expected words that the answer has, whatever their case."""
    answer = results[0].lower()
    return {"string_match": sum(each.lower() in answer for each in doc["outputs"]) / len(doc["outputs"])}


def any_contained(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Whether the answer has one of the right ones."""
    answer = results[0].lower()
    return {"string_match": float(any(each.lower() in answer for each in doc["outputs"]))}
