"""The goldens of lm-evaluation-harness: where they are, and what each one asks for."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.parity import fake_model

from assay.tasks import RequestOptions, Task, TaskManager

PARITY = Path(__file__).resolve().parents[3] / "shared" / "parity"
TASKS_VARIABLE = "ASSAY_TEST_LM_EVAL_TASKS"


def golden_paths() -> list[Path]:
    return sorted((PARITY / "goldens").glob("*.json.gz"))


def tasks_directory() -> Path | None:
    """The task files of lm-evaluation-harness: where the environment says, else those of an installed one."""
    if named := os.environ.get(TASKS_VARIABLE):
        return Path(named)
    spec = find_spec("lm_eval")
    return (
        Path(next(iter(spec.submodule_search_locations))) / "tasks"
        if spec and spec.submodule_search_locations
        else None
    )


def require_parity_data() -> None:
    """Goldens or task files that are not there fail in CI and skip elsewhere."""
    missing = []
    if not golden_paths():
        missing.append(f"no goldens under {PARITY}")
    if tasks_directory() is None:
        missing.append(
            "no lm-evaluation-harness task files: pip install --no-deps lm-eval==0.4.13, or set ASSAY_LM_EVAL_TASKS"
        )
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("; ".join(missing))


def load_golden(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
        golden: dict[str, Any] = json.load(file)
    return golden


@lru_cache(maxsize=1)
def manager() -> TaskManager:
    return TaskManager(include_path=[PARITY / "groups"], lm_eval=tasks_directory())


@cache
def _load(name: str) -> dict[str, Task]:
    return manager().load([name], data_dir=PARITY / "hub").tasks


_built: dict[tuple[str, str], Task] = {}


def tasks_of(golden: dict[str, Any], folder: Path) -> dict[str, Task]:
    """The tasks of a golden. Goldens of one task share the object, so that its docs are read once."""
    override = golden["settings"]["override"]
    if override:
        base = manager().entries[golden["name"]].path
        path = folder / f"{golden['name']}.yaml"
        path.write_text(json.dumps({"include": str(base), "task": golden["name"], **override}))
        return manager().load([str(path)], data_dir=PARITY / "hub").tasks
    return {name: _built.setdefault((name, repr(task.config)), task) for name, task in _load(golden["name"]).items()}


def options_of(golden: dict[str, Any]) -> RequestOptions:
    settings = golden["settings"]
    return RequestOptions(
        num_fewshot=settings["num_fewshot"],
        limit=settings["limit"],
        system_instruction=settings["system_instruction"],
        apply_chat_template=settings["apply_chat_template"],
        fewshot_as_multiturn=settings["fewshot_as_multiturn"],
        chat_template=fake_model.chat if settings["apply_chat_template"] else None,
        fewshot_seed=settings["seeds"]["fewshot"],
        gen_kwargs=_words(settings["gen_kwargs"]),
    )


def _words(text: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for part in (text or "").split(","):
        if part:
            key, _, value = part.partition("=")
            values[key] = value == "true" if value in ("true", "false") else float(value)
    return values


def plain(value: Any) -> Any:
    """As the goldens are written: JSON types only."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return value.tolist() if hasattr(value, "tolist") else str(value)
