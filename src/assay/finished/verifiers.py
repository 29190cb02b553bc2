"""Runs of verifiers: `traces.jsonl` with a line for each episode, and the config beside it.

Rollouts of a task are draws of one doc. `reward` is the weighted sum that verifiers trains on and reports; its parts and the
metrics stand beside it. An episode that ended in an error or at a limit (of time, turns or tokens) is a failed request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.finished.formats import RunFormat
from assay.finished.run import AnsweredDoc, Run, SentRequest, only_run, run_of_docs
from assay.finished.trials import (
    Trial,
    content_of,
    doc_of_trials,
    json_object,
    json_text,
    last_answer,
    rows_by_doc,
    took,
)
from assay.instance import Message

TRACES = "traces.jsonl"
_LIMITS = frozenset({"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"})
"""What verifiers itself calls truncated."""


def find_runs(path: Path) -> list[Path]:
    """Files of episodes at a path or below it."""
    files = [path] if path.is_file() and path.name == TRACES else sorted(path.rglob(TRACES)) if path.is_dir() else []
    return [file for file in files if file.is_file() and _first(file).get("traces")]


def _first(file: Path) -> Mapping[str, Any]:
    """The first episode; nothing where the file is of somebody else."""
    with file.open("rb") as lines:
        line = lines.readline().strip()
    return json_object(line, f"{file}, line 1") if line.startswith(b'{"id"') else {}


def read_runs(path: Path) -> list[Run]:
    """A run for each file of episodes, which are of one environment."""
    runs = []
    for file in find_runs(path):
        first = _first(file)
        trace = first["traces"][0]
        runs.append(
            run_of_docs(
                [str((first.get("env") or {}).get("id") or file.parent.name)],
                lambda task, ids, file=file: _answered(file),  # type: ignore[misc]
                path=file.parent,
                model=str(trace["agent"]["config"].get("model") or ""),
                date=float((trace.get("timing") or {}).get("start") or 0.0),
                origin="verifiers",
                lacks=LACKS,
            )
        )
    return runs


def _answered(file: Path) -> Iterator[AnsweredDoc]:
    def doc_of(episode: Mapping[str, Any]) -> tuple[int, str]:
        return int(episode["task"]["data"].get("idx") or 0), str(episode["task"].get("key"))

    for number, episodes in enumerate(rows_by_doc(file, doc_of)):
        data = {name: value for name, value in episodes[0]["task"]["data"].items() if name != "idx"}
        system, prompt = data.get("system_prompt"), data.get("prompt")
        turns = [] if system is None else [Message("system", str(system))]
        turns += map(_turn, prompt) if isinstance(prompt, list) else [Message("user", json_text(prompt))]
        yield doc_of_trials(
            number,
            [_trial(episode) for episode in episodes],
            doc=data,
            content=data,
            request=SentRequest(tuple(turns)),
            sent=[system, prompt],
            target=data.get("answer"),
        )


def _trial(episode: Mapping[str, Any]) -> Trial:
    """One episode. Where several agents play in it, each agent's numbers stand under its name."""
    traces = episode["traces"]
    agents = {trace["agent"].get("name") for trace in traces}
    values: dict[str, list[float]] = defaultdict(list)
    for trace in traces:
        prefix = "" if len(agents) == 1 else f"{trace['agent'].get('name')}/"
        rewards = {name: each for name, each in trace["rewards"].items() if each is not None}
        if rewards:
            values[f"{prefix}reward"].append(sum(each["score"] * each["weight"] for each in rewards.values()))
        parts = {name: each["score"] for name, each in rewards.items()} if len(rewards) > 1 else {}
        for name, value in {**parts, **trace["metrics"]}.items():
            if value is not None:
                values[prefix + name].append(float(value))
    conversation = tuple(turn for trace in traces for turn in _said(trace))
    return Trial(
        scores={name: sum(found) / len(found) for name, found in values.items()},
        answer=last_answer(conversation),
        failure=_failure(episode),
        conversation=conversation,
        spent=_spent(traces),
    )


def _failure(episode: Mapping[str, Any]) -> str | None:
    if not episode["ok"]:
        found = [error for part in (episode, *episode["traces"]) for error in part.get("errors") or ()]
        return f"error: {found[-1]['type']}: {found[-1]['message']}" if found else "error: the episode is not ok"
    for part in (episode, *episode["traces"]):
        if part.get("is_timeout") or part.get("stop_condition") in _LIMITS:
            return f"limit: {part.get('stop_condition') or 'time'}"
    return None


def _said(trace: Mapping[str, Any]) -> Iterator[Message]:
    """The messages of one agent; those that the model gave with their tokens and seconds."""
    calls = {call.get("node"): call for call in trace["calls"]}
    for number, node in enumerate(trace["nodes"]):
        call = calls.get(number) or {}
        usage, time = call.get("usage") or {}, call.get("time") or {}
        seconds = time["end"] - time["start"] if "end" in time and "start" in time else None
        turn = _turn(node["message"])
        yield replace(turn, more=took(tokens=usage.get("completion_tokens"), seconds=seconds)) if call else turn


def _turn(message: Mapping[str, Any]) -> Message:
    calls = tuple(
        {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("arguments")}
        for call in message.get("tool_calls") or ()
    )
    return Message(str(message["role"]), content_of(message.get("content") or ""), calls, message.get("tool_call_id"))


def _spent(traces: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    usages = [call["usage"] for trace in traces for call in trace["calls"] if call.get("usage")]
    spans = [(trace.get("timing") or {}).get("agent") or {} for trace in traces]
    spent = {
        "steps": float(sum(bool(node.get("sampled")) for trace in traces for node in trace["nodes"])),
        "seconds": sum(max(0.0, span.get("end", 0.0) - span.get("start", 0.0)) for span in spans),
    }
    if usages:
        names = ("prompt_tokens", "completion_tokens", "cached_input_tokens")
        spent["tokens"] = float(sum(usage.get(name) or 0 for usage in usages for name in names))
    if costs := [usage["cost"] for usage in usages if usage.get("cost") is not None]:
        spent["cost"] = float(sum(costs))
    return spent


LACKS = {"groups": "verifiers has no groups of tasks."}
FORMAT = RunFormat(
    files="traces.jsonl",
    finds=lambda path: bool(find_runs(path)),
    read=lambda path: only_run(read_runs(path), path, "evaluations"),
    read_all=read_runs,
    lacks=LACKS,
    places=lambda folder, names: iter([folder] if TRACES in names else []),
)
