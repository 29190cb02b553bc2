"""The run directory: what is on disk of one evaluation. Files appear whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import finalize

from assay.config import RunConfig
from assay.errors import DISTRIBUTION, ConfigError, StoreError
from assay.paths import parse_json, short_name, try_lock
from assay.scratch import scratch_directory
from assay.secret_texts import mask, without_secrets

LAYOUT = 1
"""Version of the layout. A directory with a larger number was written by a newer Assay."""


class RunDirectory:
    """`run.json`, `results.json`, `samples/<task>.parquet`, and while the run goes on, `progress.json`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, config: RunConfig, model_name: str) -> RunDirectory | None:
        """Where this run is kept: `run_dir` exactly, or a new directory below `output_path`; None if neither is set."""
        if config.run_dir is not None:
            path = Path(config.run_dir)
        elif config.output_path is not None:
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
            path = Path(config.output_path) / sanitize(model_name) / stamp
        else:
            return None
        directory = cls(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(exist_ok=True, mode=0o700)  # answers and docs are their owner's alone, unless he says otherwise
            directory.samples.mkdir(exist_ok=True)
            probe = path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigError(
                f"cannot write to {path}: {error.strerror or error}",
                hint="Use another --output_path or --run_dir, or make the directory writable.",
            ) from error
        return directory

    @classmethod
    def temporary(cls) -> RunDirectory:
        """One that is removed with the last of those who hold it."""
        held = ExitStack()
        directory = cls(held.enter_context(scratch_directory("run")))
        directory.samples.mkdir()
        finalize(directory, held.close)
        return directory

    @classmethod
    def open(cls, path: Path | str) -> RunDirectory:
        """An existing run directory; a clear error if it is not one or is too new to read."""
        directory = cls(path)
        about = directory.read_json("run.json")
        if about is None:
            raise ConfigError(
                f"{path} is not a run directory: it has no run.json",
                hint="Use the directory that `assay run` printed; `assay export FILES --to assay` makes one of another harness's run.",
            )
        if about.get("format", 0) > LAYOUT:
            raise ConfigError(
                f"{path} was written by a newer Assay (layout {about['format']}; this one reads up to {LAYOUT})",
                hint="Open it with that version: `assay --version` tells which one is installed, run.json which one wrote it.",
            )
        return directory

    def require_same_run(self, config: RunConfig, model_name: str) -> None:
        """Refuse to put a run where another one is; the same config goes on with it, and `fresh` starts over."""
        try:
            about = self.read_json("run.json")
        except StoreError:  # damaged: there is nothing to lose
            return
        if about is None or config.fresh:
            return
        other = differences(about.get("config") or {}, config)
        earlier = (about.get("model") or {}).get("name", model_name)
        if earlier != model_name:
            other.insert(0, f"the model was {earlier} and is now {model_name}")
        if other:
            raise ConfigError(
                f"{self.path} contains another run: {'; '.join(other)}",
                hint="Use another --run_dir, or --fresh to ask everything again here. Or remove the directory; answers are in the store.",
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the directory: two runs that write into one would take each other's files away. The lock is on the
        directory itself, so that nothing is left behind."""
        if os.name == "nt":  # directories cannot be opened there
            yield
            return
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not try_lock(descriptor):
                raise ConfigError(
                    f"another run is active in {self.path}", hint="Wait for it, stop it, or use another --run_dir."
                )
            yield
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Remove what an earlier run left here: old numbers beside a new config would be taken for its results."""
        left = [*self.path.glob(".*.part"), *self.samples.glob(".*.part"), *self.samples.glob(".*.narrow")]
        if (self.path / "run.json").is_file():
            left += [self.path / name for name in ("results.json", "progress.json", "report.html")]
            left += [
                *self.path.glob("samples_*.jsonl"),
                *self.samples.glob("*.parquet"),
                *self.path.glob("engine*.log"),
            ]
        try:
            for path in left:
                if not path.is_dir():
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot remove {path}: {error.strerror or error}", hint="Use another --run_dir."
            ) from error

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    def sample_file(self, task: str) -> Path:
        return self.samples / f"{short_name(quote(task, safe=' '))}.parquet"

    def read_json(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        if not path.is_file():
            return None
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path} cannot be read: {error}",
                hint="The file is damaged. Run the evaluation again; answers are in the store.",
            ) from error
        if not isinstance(content, dict):
            raise StoreError(f"{path} is not a JSON object")
        return content

    def write_json(self, name: str, data: Any) -> None:
        text = json.dumps(data, ensure_ascii=False, indent=2, default=plain, allow_nan=True)
        self.write_text(name, text + "\n")

    def keep_logs(self, logs: Sequence[Path]) -> None:
        """What the engines behind a model wrote, beside the results: `engine.log`, or one for each of several."""
        for number, log in enumerate(logs):
            name = "engine.log" if len(logs) == 1 else f"engine-{number}.log"
            if log.is_file():
                self.write_text(name, log.read_text(encoding="utf-8", errors="replace"))

    def write_text(self, name: str, text: str) -> None:
        write_whole(self.path / name, mask(text).encode("utf-8", "surrogatepass"))


def write_whole(path: Path, data: bytes) -> None:
    """Write, fsync, rename: a reader sees the old file or the new one, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "wb") as file:
            file.write(data)
        sync(partial)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}",
            hint="Nothing is lost; answers are in the store. Free some space or use another directory, and run again.",
        ) from error


def sync(path: Path) -> None:
    """Return when the file is on disk, so that a rename that follows cannot be there before the content is."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sanitize(name: str) -> str:
    """A model name as one path component.

    >>> sanitize("EleutherAI/pythia-70m")
    'EleutherAI__pythia-70m'
    """
    return re.sub(r"[^\w.\-=]+", "__", name).strip("_") or "model"


def plain(value: Any) -> Any:
    """JSON types for what configs and docs may hold: numpy values, paths, functions, sets, dates, images."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return str(value)


CANNOT_CHANGE_SCORES = frozenset(
    [
        "run_dir",
        "output_path",
        "store",
        "fresh",
        "reuse",
        "offline",
        "executor",
        "ray_address",
        "replicas",
        "gpus_per_replica",
        "cpus_per_replica",
        "device",
        "batch_size",
        "loggers",
        "log_samples",
        "write_out",
        "dry_run",
    ]
)
"""Settings that say where, how fast and what else to write."""


def recorded(config: RunConfig) -> dict[str, Any]:
    """The config as JSON types, for `run.json`."""
    shown: dict[str, Any] = without_secrets(config.model_dump(mode="json"))
    return shown


def shown_settings(config: RunConfig) -> dict[str, Any]:
    """The settings that a results file shows: two runs of the same evaluation write the same, wherever they are kept."""
    hidden = CANNOT_CHANGE_SCORES - {"device", "batch_size"}
    return {name: value for name, value in recorded(config).items() if name not in hidden}


def differences(before: Mapping[str, Any], config: RunConfig) -> list[str]:
    """Which settings that decide about scores differ from a recorded config, in words."""
    defaults = recorded(RunConfig())
    return [
        f"{key} was {_short(before.get(key, defaults[key]))} and is now {_short(value)}"
        for key, value in recorded(config).items()
        if key not in CANNOT_CHANGE_SCORES and before.get(key, defaults[key]) != value
    ]


def _short(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


@cache
def assay_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a source tree on the path, never installed
        return "unknown"
