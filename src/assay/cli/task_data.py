"""`assay validate --data`: which tasks can load their data, found out by listing files; and, of tasks that are named and whose data
are here, what they reward without any ability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.cli.fetch import find_all
from assay.cli.output import echo
from assay.errors import AssayError, ScoringError, UnknownName, UntrustedCode
from assay.terminal_text import hanging, one_line

if TYPE_CHECKING:
    from assay.analyses.floors import Floors
    from assay.config import TaskConfig
    from assay.data import DatasetNeed
    from assay.tasks import Resolved, TaskManager


@dataclass
class DataReport:
    """Tasks by where their data are."""

    places: dict[str, list[str]] = field(default_factory=dict)
    """`mirror`, `files`, `hub`, `stand-in`, `code`, `nowhere`."""
    notes: dict[str, list[str]] = field(default_factory=dict)
    """What was taken instead, and the tasks that read it."""
    failures: dict[str, list[str]] = field(default_factory=dict)
    floors: list[dict[str, Any]] = field(default_factory=list)
    """What tasks that were named give to a rule, metric by metric."""

    def add(self, place: str, tasks: list[str]) -> None:
        self.places.setdefault(place, []).extend(tasks)

    def to_dict(self) -> dict[str, Any]:
        counts = {place: len(tasks) for place, tasks in self.places.items()}
        return {"tasks": counts, "notes": self.notes, "failures": self.failures, "floors": self.floors}

    @property
    def at_hand(self) -> list[str]:
        return [name for place in AT_HAND for name in self.places.get(place, ())]


def check_data(manager: TaskManager, names: list[str], data_dir: Path | None) -> DataReport:
    """Mirror and local files first; then the hub, each dataset once for all tasks that read it."""
    from assay.data import need_of_task

    report = DataReport()
    needs: dict[DatasetNeed, list[str]] = {}
    for name, config in _configs(manager, names, report):
        if config.custom_dataset is not None or config.dataset_path is None:
            report.add("code", [name])
        elif place := _at_hand(config, data_dir):
            report.add(place, [name])
        elif (need := need_of_task(config)) is None:
            report.add("nowhere", [name])
            report.failures.setdefault(f"{config.dataset_path}: its files do not exist", []).append(name)
        else:
            needs.setdefault(need, []).append(name)
    _look_on_hub(needs, report)
    return report


def measure_floors(
    names: Sequence[str], manager: TaskManager, data_dir: str | Path | None, *, limit: int | None = None
) -> Floors:
    """The floors of tasks that need no model. Code of theirs is refused unless it is trusted; programs of floors are ours, and run in
    the sandbox all the same."""
    from assay.analyses.floors import measure
    from assay.config import RunConfig
    from assay.tasks import FLOORS

    acts = any(config.agent is not None for name in names for config in manager.resolve(name).tasks.values())
    config = RunConfig(
        tasks=[*names],
        floors=["default", *(name for name in FLOORS if FLOORS[name].of == "agents")],
        apply_chat_template=acts,
        limit=limit,
        data_dir=None if data_dir is None else str(data_dir),
        confirm_run_unsafe_code=True,
        num_fewshot=0,
    )
    for each in config.tasks:
        require_trust(manager.resolve(each))
    return measure(config, manager)


def add_floors(report: DataReport, manager: TaskManager, data_dir: Path | None) -> None:
    """Of each task whose data are at hand; one whose code would have to run, or that is only a file, has none here."""
    for name in report.at_hand:
        try:
            report.floors += measure_floors([name], manager, data_dir).to_dict()
        except (UntrustedCode, UnknownName, ScoringError):
            continue
        except AssayError as error:
            report.failures.setdefault(error.message, []).append(name)


def require_trust(resolved: Resolved) -> None:
    from assay.tasks import functions_in

    for name, config in resolved.tasks.items():
        for location, ref in functions_in(config):
            try:
                ref.require_trust()
            except UntrustedCode as error:
                field = ".".join(map(str, location))
                raise error.reworded(f"task {name!r}: {field}: {error.message}") from error


def _look_on_hub(needs: Mapping[DatasetNeed, list[str]], report: DataReport) -> None:
    from assay.data import HubClient, why_out_of_reach

    if needs and (reason := why_out_of_reach()):
        report.add("nowhere", [name for tasks in needs.values() for name in tasks])
        report.failures[f"the hub cannot be reached ({reason})"] = [name for tasks in needs.values() for name in tasks]
        return
    found, failed = find_all(HubClient(), list(needs))
    for each in found:
        report.add("stand-in" if each.note else "hub", needs[each.need])
        if each.note:
            report.notes.setdefault(each.note, []).extend(needs[each.need])
    for need, error in failed:
        report.add("nowhere", needs[need])
        report.failures.setdefault(f"{need.label}: {error.message}", []).extend(needs[need])


def _configs(manager: TaskManager, names: list[str], report: DataReport) -> list[tuple[str, TaskConfig]]:
    configs: dict[str, TaskConfig] = {}
    for name in names or manager.index.names("task"):
        try:
            configs |= manager.resolve(name).tasks
        except AssayError:  # what is wrong with the file is said by the other checks
            report.add("unread", [name])
    return list(configs.items())


def _at_hand(config: TaskConfig, data_dir: Path | None) -> str | None:
    """`mirror` or `files` where every split that the task reads is on this machine."""
    from assay.data import DataSource, mirror_dir, need_of_task

    if config.dataset_path and Path(config.dataset_path).exists():
        return "files"
    mirror = mirror_dir(data_dir)
    files = DataSource(config.dataset_path, config.dataset_name, config.dataset_kwargs, data_dir=mirror).mirror_files()
    need = need_of_task(config)
    wanted = need.splits if need is not None else ([config.eval_split] if config.eval_split else [])
    if not files or any(split not in files for split in wanted):
        return None
    first = next(iter(files.values()))[0]
    return "mirror" if mirror is not None and first.is_relative_to(mirror) else "files"


AT_HAND = ("mirror", "files")
WORDS = {
    "mirror": "in the mirror",
    "files": "in local files",
    "hub": "on the hub",
    "stand-in": "on the hub, in another form or place",
    "code": "loaded by the task's own code; not looked for",
    "unread": "not looked for, because the task cannot be read",
    "nowhere": "nowhere",
}


def print_data(report: DataReport, *, verbose: bool) -> None:
    for note, tasks in report.notes.items():
        echo(hanging(f"! {one_line(note)}: {_some(tasks, verbose)}"))
    for reason, tasks in report.failures.items():
        echo(hanging(f"✗ {one_line(reason)}: {_some(tasks, verbose)}"))
    for place, words in WORDS.items():
        if found := report.places.get(place):
            echo(f"data of {len(found):,} tasks: {words}")
    for row in report.floors:
        value, chance = row["floors"][row["highest"]]["value"], row["chance"]
        beside = "" if chance is None else f", chance {chance:.2f}"
        echo(f"{row['task']} {row['metric']},{row['filter']}: {row['highest'].replace('_', ' ')} {value:.2f}{beside}")


def _some(tasks: list[str], verbose: bool) -> str:
    shown = tasks if verbose else tasks[:3]
    return ", ".join(shown) + (f" and {len(tasks) - len(shown):,} more" if len(tasks) > len(shown) else "")
