"""Metrics of whole trajectories: what the agent left behind, what it called, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.config import FunctionRef
from assay.errors import ScoringError
from assay.metrics.base import METRICS, Metric
from assay.metrics.texts import is_same, read_calls, same_value
from assay.results import Trajectory


def end_state(trajectory: Trajectory, *, check: Any = None) -> Any:
    """What `check(doc, end_state)` says of what the trajectory left behind: right or wrong, a number, or several by name."""
    if check is None:
        raise ScoringError("end_state needs a function", hint="Write end_state: !function check.solved in metric_list.")
    function = check.load() if isinstance(check, FunctionRef) else check
    value = function(dict(trajectory.doc), trajectory.end_state)
    return {name: float(each) for name, each in value.items()} if isinstance(value, Mapping) else float(value)


def file_equals(
    trajectory: Trajectory, *, path: str, text: str | None = None, column: str | None = None, strip: bool = True
) -> float:
    """1 if a file of the sandbox has this text, or the text of this column of the doc; by default without regard to white
    space around it.
    """
    wanted = text if column is None else trajectory.doc.get(column)
    wanted = trajectory.target if wanted is None else wanted
    found = trajectory.end_state.text(path)
    if found is None or wanted is None:
        return 0.0
    return float(found.strip() == str(wanted).strip() if strip else found == str(wanted))


def trajectory_calls(
    trajectory: Trajectory, *, match: str = "exact", ordered: bool = True, calls: Any = None, column: str | None = None
) -> float:
    """Whether the calls of a trajectory are those that were wanted (`doc_to_target`, or a column of the doc).

    `exact`: these and no others; `subset`: these are among them, in their order unless `ordered` is off; `names`: as `subset`,
    arguments aside; `arguments`: as `subset`, and arguments that are not named may be anything.
    """
    wanted = read_calls(calls if calls is not None else trajectory.doc[column] if column else trajectory.target)
    made = read_calls([{"name": call["name"], "arguments": call["arguments"]} for call in trajectory.calls])
    if match == "exact":
        return float(is_same(made, wanted, ordered))
    fits = {"subset": _equal, "names": _same_name, "arguments": _same_arguments}.get(match)
    if fits is None:
        raise ScoringError(f"match is {match!r}", hint="Use exact, subset, names or arguments.")
    return float(_among(made, wanted, fits, ordered))


def _among(made: Sequence[Any], wanted: Sequence[Any], fits: Any, ordered: bool) -> bool:
    left, start = list(made), 0
    for each in wanted:
        place = next((i for i in range(start, len(left)) if fits(left[i], each)), None)
        if place is None:
            return False
        del left[place]
        start = place if ordered else 0
    return True


def _equal(call: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return is_same([dict(call)], [dict(wanted)], True)


def _same_name(call: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return bool(call["name"] == wanted["name"])


def _same_arguments(call: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    given = call["arguments"] if isinstance(call["arguments"], Mapping) else {}
    return _same_name(call, wanted) and all(
        name in given and same_value(given[name], value) for name, value in wanted["arguments"].items()
    )


def steps(trajectory: Trajectory) -> float:
    """Answers of the model."""
    return float(trajectory.steps)


def tokens(trajectory: Trajectory) -> float:
    """Of all prompts and answers."""
    return float(sum(trajectory.tokens))


def seconds(trajectory: Trajectory) -> float:
    """Of answers and tools."""
    return float(sum(trajectory.seconds))


def cost(trajectory: Trajectory) -> float | None:
    """None where the model has no prices."""
    return trajectory.cost


for _name, _fn, _better in (
    ("end_state", end_state, True),
    ("file_equals", file_equals, True),
    ("steps", steps, False),
    ("tokens", tokens, False),
    ("seconds", seconds, False),
    ("cost", cost, False),
):
    METRICS.add(
        _name, Metric(_name, _fn, kind="trajectory", higher_is_better=_better, binary=None if _better else False)
    )
METRICS.add("tool_call_match", METRICS["tool_call_match"].with_form("trajectory", trajectory_calls), replace=True)
