"""Runs as jobs of Harbor: a directory with a trial for each doc, its rewards, and what was said as a trajectory (ATIF).

Several draws of a doc are one trial with their mean: runs have values of docs, not of draws.
"""

from __future__ import annotations

import json
import math
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.finished.jsonl import file_name
from assay.finished.own import sample_rows
from assay.finished.run import Run
from assay.instance import Message, context_text, is_chat
from assay.results import TOOK, RunResult, kept_arguments, messages_in, numbers_of

ADHOC = "adhoc"
"""How Harbor names a set of tasks that are of no dataset."""
AGENT, ATIF = "assay", "ATIF-v1.8"
FAILED = "RequestFailed"
_SOURCES = {"assistant": "agent", "user": "user"}
Trial = dict[str, Any]


def write_job(run: Run, folder: Path) -> list[Path]:
    """`result.json` of the job, and a directory for each doc."""
    job = str(_id(run.result.model_name, run.result.date, *run.tasks))
    written, trials = [], []
    for task in run.tasks:
        for rows in _by_doc(sample_rows(run, task)):
            trial = _trial(run.result, task, rows, job)
            place = folder / trial["trial_name"]
            written.append(_write(place / "result.json", trial))
            written.append(_write(place / "config.json", trial["config"]))
            if steps := list(_steps(rows[0])):
                trajectory = {
                    "schema_version": ATIF,
                    "session_id": trial["id"],
                    "agent": _agent(run.result),
                    "steps": steps,
                }
                written.append(_write(place / "agent" / "trajectory.json", trajectory))
            trials.append({name: trial[name] for name in ("trial_name", "source", "verifier_result", "exception_info")})
    at = _moment(run.result)
    result = {"id": job, "started_at": at, "finished_at": at, "n_total_trials": len(trials)}
    stats = {"n_completed_trials": len(trials), "evals": _evals(trials, run.result.model_name)}
    stats["n_errored_trials"] = sum(trial["exception_info"] is not None for trial in trials)
    return [_write(folder / "result.json", result | {"stats": stats}), *written]


def _by_doc(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of each doc, one a filter."""
    docs: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        docs[row["doc_id"]].append(row)
    yield from docs.values()


def _trial(result: RunResult, task: str, rows: Sequence[Mapping[str, Any]], job: str) -> Trial:
    first = rows[0]
    name = f"{file_name(task)}-{first['doc_id']}__{str(first['doc_hash'])[:7]}"
    rewards = {
        metric if row["filter"] == "none" else f"{metric}/{row['filter']}": value
        for row in rows
        for metric, value in numbers_of(row).items()
        if math.isfinite(value)
    }
    failure, at = first.get("failure"), _moment(result)
    raised = {"exception_type": FAILED, "exception_message": failure, "exception_traceback": "", "occurred_at": at}
    return {
        "id": str(_id(job, name)),
        "task_name": f"{task}/{first['doc_id']:06d}",
        "trial_name": name,
        "trial_uri": name,
        "task_id": {"path": f"{task}/{first['doc_id']}"},
        "source": task,
        "task_checksum": first["doc_hash"],
        "config": {"task": {"path": f"{task}/{first['doc_id']}", "source": task}, "trial_name": name, "job_id": job},
        "agent_info": {"name": AGENT, "version": "1", "model_info": {"name": result.model_name or "model"}},
        "verifier_result": {"rewards": rewards} if rewards else None,
        "exception_info": raised if failure is not None else None,
        "started_at": at,
        "finished_at": at,
    }


def _evals(trials: Sequence[Trial], model: str) -> dict[str, Any]:
    """As Harbor counts them: trials by reward, means of rewards, exceptions."""
    evals: dict[str, Any] = {}
    for source in dict.fromkeys(trial["source"] for trial in trials):
        own = [trial for trial in trials if trial["source"] == source]
        by_reward: dict[str, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
        for trial in own:
            for name, value in ((trial["verifier_result"] or {}).get("rewards") or {}).items():
                by_reward[name][value].append(trial["trial_name"])
        failed = [trial["trial_name"] for trial in own if trial["exception_info"] is not None]
        counts = {name: sum(map(len, values.values())) for name, values in by_reward.items()}
        evals[f"{AGENT}__{model or 'model'}__{source}"] = {
            "n_trials": sum(trial["verifier_result"] is not None for trial in own),
            "n_errors": len(failed),
            "metrics": [
                {name: sum(value * len(names) for value, names in values.items()) / counts[name]}
                for name, values in by_reward.items()
            ],
            "reward_stats": by_reward,
            "exception_stats": {FAILED: failed} if failed else {},
        }
    return evals


def _steps(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The first draw. What tools gave stands with the step that called them."""
    step: dict[str, Any] = {}
    number = 0
    for turn in _messages(row):
        text = turn.content if isinstance(turn.content, str) else _text(turn.content)
        if turn.role == "tool" and step.get("source") == "agent":
            found = {"source_call_id": turn.tool_call_id, "content": text}
            known = [call["tool_call_id"] for call in step.get("tool_calls", ())]
            if turn.tool_call_id not in known:
                found.pop("source_call_id")
            step.setdefault("observation", {"results": []})["results"].append(found)
            continue
        if step:
            yield step
        number += 1
        step = {"step_id": number, "source": _SOURCES.get(turn.role, "system"), "message": text}
        if turn.role == "assistant":
            step |= _of_agent(turn, number)
    if step:
        yield step


def _of_agent(turn: Message, number: int) -> dict[str, Any]:
    calls = []
    for place, call in enumerate(each for each in turn.tool_calls if isinstance(each, Mapping)):
        function = call.get("function")
        inner = function if isinstance(function, Mapping) else call
        arguments = inner.get("arguments")
        if isinstance(arguments, str):
            with suppress(ValueError, RecursionError):
                arguments = json.loads(arguments)
        calls.append(
            {
                "tool_call_id": str(call.get("id") or f"{number}.{place}"),
                "function_name": str(inner.get("name")),
                "arguments": arguments if isinstance(arguments, dict) else {"arguments": arguments},
            }
        )
    tokens = (turn.more.get(TOOK) or {}).get("tokens")
    thoughts = [
        str(part.get("reasoning"))
        for part in (() if isinstance(turn.content, str) else turn.content)
        if isinstance(part, Mapping) and part.get("type") == "reasoning"
    ]
    found: dict[str, Any] = {"tool_calls": calls} if calls else {}
    found |= {"metrics": {"completion_tokens": tokens}} if tokens is not None else {}
    return found | ({"reasoning_content": "\n".join(thoughts)} if thoughts else {})


def _messages(row: Mapping[str, Any]) -> Sequence[Message]:
    """All that was said; where only a prompt and an answer are there, these."""
    extras = json.loads(row.get("extras") or "[]")
    of_draw = extras[0][0] if extras and extras[0] else None
    if of_draw and (said := messages_in(of_draw)):
        return said
    requests, answers = kept_arguments(row["arguments"] or "[]"), json.loads(row["resps"] or "[]")
    context = requests[0][0] if requests else ""
    asked = list(context) if is_chat(context) else [Message("user", context_text(context))]
    answer = answers[0][0] if answers and answers[0] else None
    return [*asked, Message("assistant", answer)] if isinstance(answer, str) else asked


def _text(parts: Sequence[Any]) -> str:
    """Of images only that there was one."""
    kept = [part for part in parts if isinstance(part, Mapping) and part.get("type") != "reasoning"]
    return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type')}]" for part in kept)


def _agent(result: RunResult) -> dict[str, Any]:
    return {"name": AGENT, "version": "1", "model_name": result.model_name or "model"}


def _id(*names: Any) -> uuid.UUID:
    """The same each time."""
    return uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, names)))


def _moment(result: RunResult) -> str:
    return datetime.fromtimestamp(result.date, UTC).isoformat()


def _write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8", errors="replace")
    return path
