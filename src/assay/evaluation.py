"""The front door: `assay.evaluate` and `assay run` both come through here."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from assay.config import RunConfig, RunKwargs
from assay.errors import ConfigError
from assay.finished import link_as_lm_eval, write_sample_files
from assay.results import LAYOUT, RunDirectory, RunResult, recorded
from assay.run import Progress, execute, manager_for, require_sound, rescore
from assay.show import NotebookProgress, in_notebook, run_findings
from assay.stats import StoppingRule
from assay.trackers import ReadyLogger, log_results, ready_loggers

if TYPE_CHECKING:
    from assay.models import LM
    from assay.store import ResponseStore
    from assay.tasks import Loaded, TaskManager


def evaluate(
    config: RunConfig | None = None,
    *,
    model: str | LM | object | None = None,
    progress: Progress | None = None,
    manager: TaskManager | None = None,
    store: ResponseStore | str | None = None,
    keep_samples: bool = True,
    **kwargs: Unpack[RunKwargs],
) -> RunResult:
    """Evaluate a model on tasks.

    Give a `RunConfig`, its fields as keyword arguments, or both; `model` may also be a ready model, and `tasks` may hold
    `Task` objects, Python task classes and mappings (`{"task": "arc_easy", "num_fewshot": 5}`) beside names; `overrides` are
    fields by the name of a task or group. Without `output_path` or `run_dir`, nothing stays on disk but the response store: samples
    lie in a temporary directory for as long as the result is held, so that it can be compared and read (`keep_samples=False`
    spares that). In a notebook progress is shown, elsewhere nothing is printed.

        result = assay.evaluate(model="hf", model_args={"pretrained": "smollm2-135m"}, tasks=["demo"])
        print(result.table())
        result["demo"]["acc"].low
    """
    fields: dict[str, Any] = {**kwargs}
    if isinstance(model, str):
        fields["model"], model = model, None
    if isinstance(store, str):
        fields["store"], store = store, None
    fields, ready = split_tasks(fields, manager)
    if config is None or fields:
        before = {} if config is None else {name: getattr(config, name) for name in config.model_fields_set}
        config = RunConfig(**{**before, **fields})
    loggers = check_first(config)
    existing = existing_outputs(config)
    has_own = config.run_dir is not None or config.output_path is not None
    scratch = RunDirectory.temporary() if keep_samples and not has_own else None
    with shown_progress(progress) as progress:
        result = execute(
            config, model=model, progress=progress, manager=manager, store=store, ready=ready, scratch=scratch
        )
    if scratch is not None:
        result = replace(result, path=None, scratch=scratch)
        result.save(scratch.path)
    if result.path is not None:
        # Before anything that may fail: a full disk or a tracker must not cost the scores.
        result.save(result.path)
        if config.log_samples or config.predict_only or existing.samples:
            write_sample_files(RunDirectory(result.path), list(result.tasks))
        if config.run_dir is None:
            link_as_lm_eval(result.path)
        if existing.report:
            directory = RunDirectory(result.path)
            directory.write_text("report.html", run_findings(result, directory.read_json("run.json")).to_html())
    log_results(result, loggers)
    return result


@contextmanager
def shown_progress(given: Progress | None) -> Iterator[Progress | None]:
    """What was given; in a notebook a line that is gone when the result is there."""
    if given is not None or not in_notebook():
        yield given
        return
    progress = NotebookProgress()
    with warnings.catch_warnings():
        # Libraries that draw bars of their own miss a widget; ours needs none.
        warnings.filterwarnings("ignore", message="IProgress not found")
        try:
            yield progress
        finally:
            progress.done()


def with_signature(function: Callable[..., RunResult]) -> Callable[..., RunResult]:
    """For `help` and for completion in a notebook: the fields of a config in place of `**kwargs`."""
    first = list(inspect.signature(function).parameters.values())[:-1]
    taken = {parameter.name for parameter in first}
    fields = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default_of(name),
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in RunKwargs.__annotations__.items()
        if name not in taken
    ]
    function.__signature__ = inspect.Signature([*first, *fields], return_annotation="RunResult")  # type: ignore[attr-defined]
    return function


def default_of(name: str) -> Any:
    field = RunConfig.model_fields.get(name)
    return None if field is None else field.get_default(call_default_factory=True)


with_signature(evaluate)


def split_tasks(kwargs: dict[str, Any], manager: TaskManager | None = None) -> tuple[dict[str, Any], Loaded | None]:
    """The kwargs with names only among their tasks, and those tasks that came as objects, classes or mappings.

    With `overrides`, all tasks are made here: a name no longer says what its task is.
    """
    from assay.tasks import Loaded, tasks_of

    overrides = kwargs.pop("overrides", None)
    given = kwargs.get("tasks")
    listed = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else []
    if not overrides and all(isinstance(each, str) for each in listed):
        return kwargs, None
    ready = Loaded({}, {}, [])
    written = [each for each in listed if isinstance(each, Mapping) or (isinstance(each, str) and overrides)]
    if written:
        manager = manager or manager_for(RunConfig(**{key: value for key, value in kwargs.items() if key != "tasks"}))
        data_dir = Path(kwargs["data_dir"]) if kwargs.get("data_dir") else None
        require_sound(manager, written, data_dir, overrides=overrides)
        ready = manager.load(written, data_dir, overrides=overrides)
    names: list[str] = []
    waiting = [*ready.roots]
    for each in listed:
        if isinstance(each, str) and not overrides:
            names.append(each)
            continue
        if isinstance(each, str | Mapping):  # those that were written stand together, where the first of them was
            names += waiting
            waiting = []
            continue
        tasks, groups = tasks_of(each, kwargs.get("data_dir"))
        ready.tasks.update({task.task_name: task for task in tasks})
        ready.groups.update({group.name: group for group in groups})
        roots = [group.name for group in groups] or [task.task_name for task in tasks]
        ready.roots.extend(roots)
        names += roots
    if twice := [name for name in ready.roots if names.count(name) > 1]:
        raise ConfigError(f"there are two tasks named {twice[0]!r}", hint="Rename the object: Task(config, name=…).")
    return {**kwargs, "tasks": names}, ready


class ExistingOutputs(NamedTuple):
    """What people had made of a run before the same command was given again: it is made anew with the new numbers."""

    report: bool = False
    samples: bool = False


def existing_outputs(config: RunConfig) -> ExistingOutputs:
    place = Path(config.run_dir or "")
    if config.run_dir is None or config.fresh or not (place / "run.json").is_file():
        return ExistingOutputs()
    return ExistingOutputs((place / "report.html").is_file(), any(place.glob("samples_*.jsonl")))


def score_again(
    run: str | Path,
    changes: dict[str, Any] | None = None,
    *,
    run_dir: str | Path | None = None,
    log_samples: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Score a run directory again; `changes` are fields of its config to replace. Stored in `run_dir` if one is given.

    Judges are asked what is new. With `roles` among the changes they are asked, or looked up in the store, for all.
    """
    source = RunDirectory.open(run)
    run_file = source.read_json("run.json") or {}
    stored = run_file.get("config")
    if not isinstance(stored, dict):
        raise ConfigError(
            f"{source.path}/run.json does not say how the run was made", hint="Name a run made by `assay run`."
        )
    try:
        config = RunConfig(**{**stored, "run_dir": None, "output_path": None, "predict_only": False, **(changes or {})})
    except ConfigError as error:
        raise error.reworded(f"{source.path}/run.json: {error.message}") from error
    target = None
    if run_dir is not None:
        if Path(run_dir).resolve() == source.path.resolve():
            raise ConfigError("--run_dir is the run itself", hint="Use another directory; a run is never overwritten.")
        target = RunDirectory.create(config.model_copy(update={"run_dir": str(run_dir)}), "")
    kept_roles = () if "roles" in (changes or {}) else tuple(config.roles)
    result, asked = rescore(source, config, target=target, progress=progress, kept_roles=kept_roles)
    if target is not None:
        about = {"format": LAYOUT, "config": recorded(config), "date": time.time(), "rescored_from": str(source.path)}
        about["roles"] = {**(run_file.get("roles", {}) if kept_roles else {}), **asked}
        target.write_json("run.json", {**run_file, **about})
        result.save(target.path)
        if log_samples:
            write_sample_files(target, list(result.tasks))
    return result


def check_first(config: RunConfig) -> list[ReadyLogger]:
    """What can be wrong with a config and would be found out only after hours: trackers, `until`, `control`."""
    rule = StoppingRule.parse(config.until) if config.until else None
    for earlier in (config.control, rule and rule.baseline):
        if earlier:
            RunDirectory.open(earlier)
    return ready_loggers(config.loggers)
