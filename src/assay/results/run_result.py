"""What a run found, from where it is made to where it is read, and `results.json`, which holds it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import ConfigError, DataError, did_you_mean
from assay.registry import load_object
from assay.results import lm_eval_schema
from assay.results.directory import RunDirectory, assay_version, plain, sanitize
from assay.results.field_types import fitting, require_finite_tree
from assay.results.health import Health
from assay.results.nodes import GroupResult, TaskResult
from assay.results.older_files import upgraded
from assay.results.samples import sample_frame, sample_table
from assay.results.scores import GroupScore

if TYPE_CHECKING:
    import pandas

FORMAT = 2
"""Version of the `assay` block. Format 1, in which keys were text, is read too."""

YEAR_5, YEAR_9999 = -62_000_000_000.0, 253_370_764_800.0


@dataclass(frozen=True)
class RunResult:
    """One evaluation. `result["mmlu"]["acc"]` is an `Estimate`; `table()` is text; `to_dict()` is the results file."""

    tasks: dict[str, TaskResult]
    groups: dict[str, GroupResult] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    """What was asked for, in order."""
    model: dict[str, Any] = field(default_factory=dict)
    """Facts about the model: name, backend, args without secrets, fingerprint, …"""
    config: dict[str, Any] = field(default_factory=dict)
    """The run's settings, without secrets and without those that say where things are kept."""
    environment: dict[str, Any] = field(default_factory=dict)
    date: float = 0.0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    origin: str = "assay"
    """The harness that ran it."""
    answers_from: str = field(default="", compare=False)
    """How many answers were computed and how many kept ones reused. In `run.json`: the same evaluation gives the same
    results file whichever they were."""
    path: Path | None = field(default=None, compare=False)
    """The run directory, if there is one."""
    scratch: RunDirectory | None = field(default=None, compare=False, repr=False)
    """Without one: where samples are for as long as somebody holds this result."""

    # In and out

    @classmethod
    def load(cls, path: str | Path) -> RunResult:
        """The results of a run directory."""
        directory = RunDirectory.open(path)
        data = directory.read_json("results.json")
        if data is None:
            raise ConfigError(f"{path} has no results yet", hint="Run the same command again to finish it.")
        return cls.from_dict(data, path=directory.path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, path: Path | None = None) -> RunResult:
        """Read a results file of ours, of any version. Only the `assay` block, `configs` and `date` are looked at."""
        block = data.get("assay")
        if not isinstance(block, Mapping):
            raise DataError("not a results file of Assay: it has no `assay` block")
        try:
            older = block.get("format", 1) < FORMAT
            result = cls._read(upgraded(data) if older else block, data, path).checked()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(f"the `assay` block cannot be read: {type(error).__name__}: {error}") from error
        return result.with_withheld() if older else result

    def checked(self) -> RunResult:
        """The same; a `DataError` where a value is of another type than its field, or the tree of groups has no end. A date
        that no calendar has is none."""
        fitting(self, "results")
        children = {name: [child for child in group.children if child in self] for name, group in self.groups.items()}
        require_finite_tree(children, [*self.roots, *children], lambda name: len(self[name]) if name in self else 0)
        return self if YEAR_5 < self.date < YEAR_9999 else replace(self, date=0.0)

    @classmethod
    def _read(cls, block: Mapping[str, Any], data: Mapping[str, Any], path: Path | None) -> RunResult:
        configs = data.get("configs", {})
        return cls(
            tasks={name: TaskResult.from_json(name, t, configs.get(name, {})) for name, t in block["tasks"].items()},
            groups={name: GroupResult.from_json(name, group) for name, group in block["groups"].items()},
            roots=tuple(block["roots"]),
            model=dict(block["model"]),
            config=dict(block["config"]),
            environment=dict(block["environment"]),
            date=data.get("date", 0.0),
            seconds=float(data.get("total_evaluation_time_seconds") or 0.0),
            notes=tuple(block["notes"]),
            origin=block["origin"],
            path=path,
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema of lm-evaluation-harness, plus an `assay` block. Only dates and times depend on when it ran."""
        lengths = {name: task.sample_len for name, task in self.tasks.items()}
        tasks = {name: lm_eval_schema.task_entry(task) for name, task in self.tasks.items()}
        groups = {
            name: lm_eval_schema.group_entry(group, lengths, [n for n in self.below(name) if n in self.tasks])
            for name, group in self.groups.items()
        }
        with_numbers = {name: entry for name, entry in groups.items() if self.groups[name].has_aggregation}
        template, system = self.model.get("chat_template"), self.config.get("system_instruction")
        return {
            "results": {**tasks, **groups},
            **({"groups": with_numbers} if with_numbers else {}),
            "group_subtasks": {name: list(group.children) for name, group in self.groups.items()},
            "configs": {name: self.tasks[name].config for name in sorted(self.tasks)},
            "versions": dict(sorted((node.name, node.version) for node in self.nodes())),
            "n-shot": lm_eval_schema.shots(self.tasks, self.groups),
            "higher_is_better": lm_eval_schema.directions(self.tasks, self.groups),
            "n-samples": {n: {"original": t.original, "effective": t.sample_len} for n, t in self.tasks.items()},
            "config": lm_eval_schema.config_entry(self.config, self.model),
            "date": self.date,
            "pretty_env_info": "\n".join(f"{key}: {value}" for key, value in self.environment.items()),
            "transformers_version": (self.environment.get("packages") or {}).get("transformers"),
            "model_source": self.config.get("model"),
            "model_name": self.model.get("name"),
            "model_name_sanitized": sanitize(self.model_name),
            "system_instruction": system,
            "system_instruction_sha": lm_eval_schema.sha(system),
            "fewshot_as_multiturn": self._multiturn(),
            "chat_template": template,
            "chat_template_sha": lm_eval_schema.sha(template),
            "max_length": self.model.get("max_length"),
            "task_hashes": {name: task.task_hash for name, task in self.tasks.items()},
            "total_evaluation_time_seconds": str(self.seconds),
            "assay": self._block(),
        }

    def _multiturn(self) -> bool:
        asked = self.config.get("fewshot_as_multiturn")
        return bool(self.config.get("apply_chat_template") if asked is None else asked)

    def _block(self) -> dict[str, Any]:
        """What the other schema has no place for: intervals, how each number was made, health, provenance."""
        return {
            "format": FORMAT,
            "version": assay_version(),
            "origin": self.origin,
            "roots": list(self.roots),
            "tasks": {name: task.to_json() for name, task in self.tasks.items()},
            "groups": {name: group.to_json() for name, group in self.groups.items()},
            "model": self.model,
            "config": self.config,
            "environment": self.environment,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, text: str) -> RunResult:
        return cls.from_dict(json.loads(text))

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2, default=plain)

    def save(self, path: str | Path) -> Path:
        """Write `results.json` into a directory and return its path."""
        directory = RunDirectory(path)
        directory.path.mkdir(parents=True, exist_ok=True)
        directory.write_json("results.json", self.to_dict())
        return directory.path / "results.json"

    # What is in it

    def __getitem__(self, name: str) -> TaskResult | GroupResult:
        if name in self.tasks:
            return self.tasks[name]
        if name in self.groups:
            return self.groups[name]
        known = list(self)
        hint = did_you_mean(name, known) or f"There are: {', '.join(known)}."
        raise ConfigError(f"no task or group {name!r} in these results", hint=hint)

    def __contains__(self, name: object) -> bool:
        return name in self.tasks or name in self.groups

    def __iter__(self) -> Iterator[str]:
        yield from self.tasks
        yield from self.groups

    def nodes(self) -> Iterator[TaskResult | GroupResult]:
        yield from self.tasks.values()
        yield from self.groups.values()

    @property
    def model_name(self) -> str:
        return str(self.model.get("name", ""))

    @property
    def withheld(self) -> list[str]:
        """Tasks whose health was worse than the run allowed."""
        return [name for name, task in self.tasks.items() if task.health.withheld]

    @property
    def unanswered(self) -> list[str]:
        """Tasks with requests that failed, and that the same command again would send."""
        return [
            name
            for name, task in self.tasks.items()
            if task.health.failed and not all(why.startswith(("scoring", "filtering")) for why in task.health.reasons)
        ]

    @property
    def without_values(self) -> list[str]:
        """Metrics that tasks list and that have no number, where docs were answered."""
        return [
            f"{name} {key}"
            for name, task in self.tasks.items()
            for key, score in task.scores.items()
            if (score.estimate.value is None or math.isnan(score.estimate.value)) and score.judge is None
        ]

    @property
    def remarks(self) -> list[str]:
        """What is to be said beside the table: why tasks were stopped, what was left out."""
        stopped = [f"{name}: {task.stop_reason}" for name, task in self.tasks.items() if task.stop_reason]
        return [*stopped, *self.notes, *self._inference_remark()]

    def _inference_remark(self) -> list[str]:
        """Why shared tokens were not computed once, where that is so: the run took longer than it might have."""
        inference = self.model.get("inference") or {}
        if inference.get("way", "tree") == "tree":
            return []
        how = {"state": "shared prefixes were computed once and kept as states"}
        done = how.get(inference["way"], "each request was computed separately, in batches")
        return [f"The prefix tree was not used ({inference.get('reason')}): {done}."]

    def tree(self) -> Iterator[tuple[int, TaskResult | GroupResult]]:
        """(depth, task or group) in the order of a table. What sits in several groups appears under each."""

        def walk(name: str, depth: int) -> Iterator[tuple[int, TaskResult | GroupResult]]:
            if name in self:
                yield depth, (node := self[name])
                for child in _children(node):
                    yield from walk(child, depth + 1)

        for root in self.roots:
            yield from walk(root, 0)

    def below(self, name: str) -> list[str]:
        """All that is in a group, each once, in the order of the table."""
        names: dict[str, None] = {}

        def walk(node: TaskResult | GroupResult) -> None:
            for child in _children(node):
                if child in self and child not in names:
                    names[child] = None
                    walk(self[child])

        walk(self[name])
        return list(names)

    def with_withheld(self) -> RunResult:
        """The same result with every number marked that must not be used.

        A task is withheld as a whole. A group's number is withheld when one of the scores it is made of is: the shares a
        run allows are per task, so nobody has said that a little of a bad score is harmless.
        """
        reasons = {name: task.health.withheld for name, task in self.tasks.items() if task.health.withheld}
        if not reasons:
            return self
        tasks = {
            name: replace(task, scores={k: replace(s, withheld=reasons.get(name)) for k, s in task.scores.items()})
            for name, task in self.tasks.items()
        }
        groups = dict(self.groups)
        spoiled = {(name, key) for name in reasons for key in self.tasks[name].scores}
        for group in reversed(lm_eval_schema.parents_first(self.groups)):
            scores: dict[Any, GroupScore] = {}
            for key, score in group.scores.items():
                # A group's own scorer need not say what it read, so then it is all that is below the group.
                members = [child.name for child in score.children] or self.below(group.name)
                bad = [m for m in members if m in reasons or (m, key) in spoiled]
                scores[key] = replace(score, withheld=f"includes withheld scores: {_some(bad)}") if bad else score
                if bad:
                    spoiled.add((group.name, key))
            groups[group.name] = replace(group, scores=scores)
        return replace(self, tasks=tasks, groups=groups)

    # For people. Tables stand above this folder, so they are found by name.

    def table(self, width: int | None = None) -> str:
        """The table as text."""
        render: Any = load_object("assay.show:result_text")
        return str(render(self, width))

    def to_pandas(self) -> pandas.DataFrame:
        """One row a number."""
        frame: Any = load_object("assay.results.rows:to_pandas")
        return frame(self)

    def plot(self, metric: str | None = None) -> Any:
        """A forest plot of one metric, the first if none is named: a notebook draws it, `.save("plot.svg")` or `.png` keeps it."""
        draw: Any = load_object("assay.show:forest_plot")
        return draw(self, metric)

    @property
    def place(self) -> Path | None:
        """Where the samples are: in the run directory, or in a temporary one."""
        return self.path if self.scratch is None else self.scratch.path

    def samples(self, task: str, *, arrow: bool = False) -> Any:
        """What was asked and answered, one row a doc and filter: a pandas frame, or with `arrow` the table as it is kept.

        In the frame, texts that are JSON in the file (doc, target, arguments, responses) are read.
        """
        if task not in self.tasks:
            self[task]  # the error for a name that there is not
            raise ConfigError(
                f"{task} is a group; its samples are those of its tasks", hint=f"Ask for: {_some(self.below(task))}."
            )
        file = self.tasks[task].sample_file
        if self.place is None or file is None or not (self.place / file).is_file():
            raise ConfigError(
                f"no samples of {task} were kept", hint="Use evaluate(…, run_dir=…); a run directory keeps them."
            )
        return sample_table(self.place / file) if arrow else sample_frame(self.place / file)

    @property
    def health(self) -> HealthByTask:
        """What may be wrong with the scores of each task that their error bars do not show."""
        return HealthByTask({name: task.health for name, task in self.tasks.items()})

    def _repr_html_(self) -> str:
        render: Any = load_object("assay.show:result_html")
        return str(render(self))

    def __repr__(self) -> str:
        """The roots with their first metric, as `RunResult(mmlu: acc,none 0.25 ± 0.01 [0.24, 0.27], …)`."""
        shown = [name for name in self.roots if name in self][:_SHOWN] or list(self)[:_SHOWN]
        numbers = [
            f"{name}: {key} {score.estimate}" for name in shown for key, score in [*self[name].scores.items()][:1]
        ]
        more = f", and {len(self.roots) - _SHOWN} more" if len(self.roots) > _SHOWN else ""
        return f"RunResult({', '.join(numbers or shown)}{more})"


_SHOWN = 5


class HealthByTask(dict[str, Health]):
    """Task to health; a notebook shows what is odd about each."""

    def _repr_html_(self) -> str:
        render: Any = load_object("assay.show:health_html")
        return str(render(self))

    def __repr__(self) -> str:
        odd = [f"{name}: {'; '.join(health.marks()) or 'nothing to note'}" for name, health in self.items()]
        return "\n".join(odd)


def _children(node: TaskResult | GroupResult) -> tuple[str, ...]:
    return node.children if isinstance(node, GroupResult) else ()


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
