"""What a run writes down about itself while it goes on: `run.json`, `progress.json`, how long each part took, and what it stood on.

Machine, versions and model stand beside the scores, because scores move with them.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from assay.config import RunConfig
from assay.errors import DISTRIBUTION, AssayError
from assay.models import DEFAULT_TOKS, LM
from assay.results import LAYOUT, RunDirectory, recorded
from assay.run.progress import Counts, Interrupted
from assay.secret_texts import without_secrets

PROGRESS_SECONDS = 1.0


class Journal:
    """One run's notes. Without a directory it only keeps time."""

    def __init__(self, config: RunConfig, counts: Counts) -> None:
        self.config, self.counts = config, counts
        self.directory: RunDirectory | None = None
        self.model: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}
        self.began = time.time()
        self.seconds: dict[str, float] = {}
        self._mark = time.perf_counter()
        self._showed_progress = 0.0

    def lap(self, name: str) -> None:
        """The time since the last lap was spent on this."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._mark
        self._mark = now

    @property
    def is_due(self) -> bool:
        """Whether a second has passed since progress was last shown."""
        return time.monotonic() - self._showed_progress >= PROGRESS_SECONDS

    def write_progress(self) -> None:
        """At most once a second, however often it is called."""
        if self.is_due:
            self._showed_progress = time.monotonic()
            if self.directory is not None:
                # Copied at once: another thread may be adding to them.
                shown = replace(self.counts, running=self.counts.running.copy(), questions=self.counts.questions.copy())
                self.directory.write_json("progress.json", {**asdict(shown), "updated": time.time()})

    def write_status(self, status: str) -> None:
        if self.directory is None:
            return
        if status != "running":
            (self.directory.path / "progress.json").unlink(missing_ok=True)
        self.directory.write_json(
            "run.json",
            {
                "format": LAYOUT,
                "status": status,
                "config": recorded(self.config),
                "model": self.model,
                "environment": describe_environment(),
                "date": self.began,
                "seconds": self.seconds,
                "counts": asdict(self.counts),
                **self.extra,
            },
        )

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """The status of the run inside the block. The error that ends it early is the one to show."""
        self.write_status("running")
        try:
            yield
            self.write_status("finished")
        except BaseException as error:
            stopped = isinstance(error, Interrupted | KeyboardInterrupt)
            try:
                self.write_status("interrupted" if stopped else "failed")
            except AssayError as second:
                error.add_note(str(second))
            raise


PACKAGES = (
    DISTRIBUTION,
    "torch",
    "transformers",
    "datasets",
    "numpy",
    "jinja2",
    "sacrebleu",
    "scikit-learn",
    "vllm",
    "ray",
)


@cache
def describe_environment() -> dict[str, Any]:
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: found for name in PACKAGES if (found := package_version(name)) is not None},
    }


def package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def describe_model(lm: LM, config: RunConfig, name: str, handed_over: object | None = None) -> dict[str, Any]:
    """The model as the results file shows it; secrets among its arguments are left out.

    Of one that was handed over in Python the config knows nothing: its `backend` is its class.
    """
    info = lm.info()
    kind = type(handed_over)
    given: dict[str, Any] = {"backend": f"{kind.__module__}.{kind.__qualname__}", "is_object": True}
    return {
        "name": name,
        **({"backend": config.model} if handed_over is None else given),
        "args": without_secrets(config.model_args),
        "fingerprint": info.fingerprint,
        "tokenizer": info.tokenizer,
        "max_length": info.max_length,
        "chat_template": lm.chat_template(config.apply_chat_template) if config.apply_chat_template else None,
        **({"max_gen_toks": info.max_gen_toks} if info.max_gen_toks > DEFAULT_TOKS else {}),
        **({} if info.num_parameters is None else {"model_num_parameters": info.num_parameters}),
        **info.details,
    }
