"""`assay seal`: a run as one file from which anyone derives every number again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from assay.config import RunConfig
from assay.errors import AssayError, ConfigError
from assay.finished import open_run
from assay.results import RunDirectory, RunResult, assay_version
from assay.run import Progress, manager_for
from assay.scratch import scratch_directory
from assay.sealing.archive import SEAL, describe, seal_id, write_archive
from assay.sealing.rows import write_rows
from assay.sealing.task_files import TaskFiles, code_hash, collect_task_files
from assay.sealing.verifying import FORMAT, PLACES, SEALED_OF_RUN, SealVerification, Sources, verify_bundle
from assay.stats import StoppingRule
from assay.tasks import ASKED_FLOORS, lm_eval_roots


def seal_run(
    run: str | Path,
    output: str | Path | None = None,
    *,
    docs: bool = True,
    progress: Progress | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> tuple[Path, SealVerification]:
    """Write the bundle of a run and verify it; one that could not be verified is removed.

    Without `docs` it holds hashes in place of docs and prompts, and verifying needs the dataset.
    """
    opened = open_run(run)
    if not opened.is_ours:
        raise _refusal(opened.path, f"it was scored by {opened.result.origin}, whose code is not available here")
    directory, result = RunDirectory(opened.path), opened.result
    about = directory.read_json("run.json") or {}
    if not about.get("config"):
        raise _refusal(directory.path, "its run.json does not say what was requested")
    config = RunConfig(**{**about["config"], "run_dir": None, "output_path": None})
    require_sealable(directory, result, config)
    path = Path(output) if output is not None else directory.path / "bundle.zip"
    labels = [Path(each) for task in result.tasks.values() if (each := _judge_settings(task.config).get("labels"))]
    files = collect_task_files(config, manager_for(config), named=labels)
    if unplaced := [each for each in labels if each.resolve() not in files.named]:
        raise _refusal(directory.path, f"{unplaced[0]} is not beside the task file that names it", LABELS)
    reasons: dict[str, str] = {}
    with scratch_directory("seal") as place:
        draft = place / "draft.zip"
        for with_docs, with_files, sources in _ways(config, docs=docs):
            _write(draft, directory, result, about, config, files if with_files else _bare(files), with_docs)
            found = _verified(draft, sources, progress)
            if isinstance(found, SealVerification):
                break
            reasons["docs" if with_docs else "task files"] = found
        else:
            why = f"its numbers cannot be computed again from what it stored ({'; '.join(dict.fromkeys(reasons.values()))})"
            hint = "Did task files or data change since? `assay score RUN --run_dir NEW` scores it with the current ones; seal that run."
            raise _refusal(directory.path, why, hint)
        for part, reason in reasons.items():
            notify(f"The bundle does not carry the {part}; with them alone it could not be verified: {reason}")
        _write(path, directory, result, about, config, files if with_files else _bare(files), with_docs)
    return path, found


def _verified(draft: Path, sources: Sources, progress: Progress | None) -> SealVerification | str:
    """What verifying a bundle found, or why it does not pass."""
    try:
        found = verify_bundle(draft, sources, progress)
    except AssayError as error:
        return error.message
    return found if found.passed else str(found.differences[0])


def _ways(config: RunConfig, *, docs: bool) -> list[tuple[bool, bool, Sources]]:
    """What a bundle may carry, the most complete first: docs and task files, task files alone, or neither.

    In the last two, who verifies needs what we use here: the dataset, and the task files of the run.
    """
    trusted: dict[str, Any] = {"trust": True, "confirm_run_unsafe_code": config.confirm_run_unsafe_code}
    theirs = next(map(str, lm_eval_roots(config.lm_eval or None)), None)
    own: dict[str, Any] = {"include_path": tuple(config.include_path), "lm_eval": theirs}
    data: dict[str, Any] = {**trusted, "docs": "dataset", "data_dir": config.data_dir}
    ways = [(False, True, Sources(**data)), (False, False, Sources(**data, **own))]
    return [(True, True, Sources(**trusted, docs="bundle")), *ways] if docs else ways


def require_sealable(directory: RunDirectory, result: RunResult, config: RunConfig) -> None:
    """Refuse what cannot be derived again from the run alone, with the reason."""
    reason, hint = None, SEALABLE
    if result.origin != "assay":
        reason = f"it was scored by {result.origin}, whose code is not available here"
    elif config.predict_only:
        reason, hint = "it has answers but no scores", "`assay score RUN --run_dir NEW` scores it."
    elif config.control is not None:
        reason, hint = "its numbers also depend on another run (--control)", "Seal a run without --control."
    elif config.until and StoppingRule.parse(config.until).baseline is not None:
        reason, hint = "another run decided when it stopped (--until)", "Seal a run without a baseline."
    elif missing := [
        name for name, task in result.tasks.items() if task.health.docs and not _has_samples(directory, name)
    ]:
        reason = f"samples of {missing[0]} were not stored"
    elif named := [name for name, task in result.tasks.items() if _judge_settings(task.config).get("opponent")]:
        reason = f"the judge of {named[0]} was shown answers of another run"
        hint = "Seal runs that were judged one by one."
    if reason is not None:
        raise _refusal(directory.path, reason, hint)


LABELS = "Put the labels beside the task file, or pass them with --labels."
SEALABLE = "Seal a run of Assay that stored its samples."


def _refusal(path: Path, reason: str, hint: str = SEALABLE) -> ConfigError:
    return ConfigError(f"{path} cannot be sealed: {reason}", hint=hint)


def _judge_settings(task: Mapping[str, Any]) -> dict[str, Any]:
    scorer = task.get("scorer")
    return {**scorer, **(scorer.get("kwargs") or {})} if isinstance(scorer, dict) else {}


def _has_samples(directory: RunDirectory, task: str) -> bool:
    return directory.sample_file(task).is_file()


def _sampled(directory: RunDirectory, result: RunResult) -> list[str]:
    """The tasks with samples, and what was asked for their floors."""
    floors = [f"{name}:{variant}" for name in result.tasks for variant in ASKED_FLOORS.values()]
    return [name for name in dict.fromkeys([*result.tasks, *floors]) if _has_samples(directory, name)]


def _bare(files: TaskFiles) -> TaskFiles:
    return TaskFiles({}, [], files.tasks, files.shipped, files.named)


def _write(
    path: Path,
    directory: RunDirectory,
    result: RunResult,
    about: dict[str, Any],
    config: RunConfig,
    files: TaskFiles,
    docs: bool,
) -> None:
    with scratch_directory("seal") as place:
        members: dict[str, Path | bytes] = dict(files.members)
        sealed = {key: value for key, value in about["config"].items() if key not in PLACES}
        described = {key: about[key] for key in SEALED_OF_RUN if key in about}
        members["run.json"] = _pretty({**described, "config": {**sealed, "tasks": files.tasks}})
        members["results.json"] = (directory.path / "results.json").read_bytes()
        samples = {}
        for number, task in enumerate(_sampled(directory, result)):
            rows = members[f"samples/{number:04d}.jsonl"] = place / f"{number}.jsonl"
            samples[task] = f"samples/{number:04d}.jsonl"
            write_rows(directory.sample_file(task), rows, docs=docs)
        labels = {f"labels/{number:04d}.jsonl": Path(label) for number, label in enumerate(config.labels)}
        overlays = {
            f"overlays/{number:04d}{Path(file).suffix}": Path(file) for number, file in enumerate(config.overlay)
        }
        members |= labels | overlays
        seal: dict[str, Any] = {
            "format": FORMAT,
            "code": {"version": assay_version(), "sha256": code_hash()},
            "model": {key: result.model.get(key) for key in ("name", "backend", "fingerprint")},
            "docs": docs,
            "inputs": {name: task.data for name, task in result.tasks.items()},
            "requests": {name: task.task_hash for name, task in result.tasks.items()},
            "samples": samples,
            "labels": sorted(labels),
            "overlays": sorted(overlays),
            "task_roots": files.roots,
            "shipped_task_files": files.shipped,
            "members": describe(members),
        }
        seal = json.loads(json.dumps(seal, default=str))
        members[SEAL] = _pretty({"seal": seal_id(seal), **seal})
        write_archive(path, members)


def _pretty(data: Any) -> bytes:
    return (json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True, default=str) + "\n").encode(
        "utf-8", "surrogatepass"
    )
