"""A local model that is loaded when it is first asked something.

What a run needs to know before that (fingerprint, names, sizes) is kept from the last time the same files were loaded
with the same words and package versions. A run that the store can answer whole then never loads the model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from assay.errors import ModelError
from assay.instance import Instance, RequestType
from assay.models.base import LM, Answer, Message, StreamingLM, Usage
from assay.models.catalog import resolve
from assay.paths import assay_home

LOCAL_BACKENDS = frozenset({"hf", "hf-auto", "huggingface"})
_FACTS = ("tokenizer_name", "max_length", "num_parameters")


def spec_key(name: str, args: Mapping[str, Any], offered: Mapping[str, Any]) -> str | None:
    """Changes whenever the loaded model could differ; None where that cannot be told from files (hub names, servers)."""
    if name not in LOCAL_BACKENDS or "pretrained" not in args:
        return None
    files: list[tuple[str, int, int]] = []
    for word in ("pretrained", "tokenizer", "peft"):
        if args.get(word) is None:
            continue
        found = resolve(str(args[word])) or Path(str(args[word])).expanduser()
        if not found.exists():
            return None
        paths = sorted(found.rglob("*")) if found.is_dir() else [found]
        files += [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths if path.is_file()]
    facts = [
        name,
        dict(args),
        dict(offered),
        files,
        [_version(package) for package in ("assay", "torch", "transformers")],
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


class LazyLM(StreamingLM):
    """Stands for the model; `load` gives the real one."""

    def __init__(self, key: str, load: Callable[[], LM]) -> None:
        self._path = assay_home() / "known-models" / f"{key}.json"
        self._load = load
        self._real: LM | None = None
        self._known = self._read()
        self.should_stop: Callable[[], bool] = lambda: False

    @property
    def real(self) -> LM:
        """The model itself, loaded now if it was not."""
        if self._real is None:
            self._real = self._load()
            found = self._facts(self._real)
            if self._known is not None and self._known["fingerprint"] != found["fingerprint"]:
                self._path.unlink(missing_ok=True)
                raise ModelError("the model's files changed while the run went on", hint="Run the same command again.")
            if self._known != found:
                self._known = found
                self._write(found)
        if hasattr(self._real, "should_stop"):
            self._real.should_stop = self.should_stop
        return self._real

    @property
    def known(self) -> dict[str, Any]:
        if self._known is None:
            _ = self.real
        assert self._known is not None
        return self._known

    def fingerprint(self) -> str:
        return str(self.known["fingerprint"])

    @property
    def tokenizer_name(self) -> str:
        return str(self.known["tokenizer_name"])

    @property
    def max_length(self) -> int | None:
        found: int | None = self.known["max_length"]
        return found

    @property
    def num_parameters(self) -> int | None:
        found: int | None = self.known["num_parameters"]
        return found

    def get_model_info(self) -> dict[str, Any]:
        return dict(self.known["info"])

    @property
    def usage(self) -> Usage | None:
        return None if self._real is None else self._real.usage

    def stream(
        self, request_type: RequestType, instances: Sequence[Instance], draws: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]:
        return self.real.stream(request_type, instances, draws)

    def apply_chat_template(self, messages: list[Message], add_generation_prompt: bool = True) -> str:
        return self.real.apply_chat_template(messages, add_generation_prompt)

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return self.real.chat_template(name)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()

    @staticmethod
    def _facts(lm: LM) -> dict[str, Any]:
        info = getattr(lm, "get_model_info", None)
        facts = {name: getattr(lm, name, None) for name in _FACTS}
        return {**facts, "fingerprint": lm.fingerprint(), "info": info() if callable(info) else {}}

    def _read(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or damaged: then the model is loaded and it is written anew
            return None
        return found if isinstance(found, dict) and {"fingerprint", "info", *_FACTS} <= found.keys() else None

    def _write(self, facts: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(json.dumps(facts), encoding="utf-8")
        os.replace(partial, self._path)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
