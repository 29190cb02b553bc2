"""Jobs of Harbor: a directory with `result.json` of the job, and one below it for each trial.

Trials of a task are draws of one doc, their rewards its metrics. A trial that ended with an exception, Harbor's own or the
agent's, or out of its budget, is a failed request and never a wrong answer. What was said and called comes from the
trajectory (ATIF) where the agent wrote one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assay.errors import DataError
from assay.finished.formats import RunFormat
from assay.finished.harbor_jobs import ADHOC, write_job
from assay.finished.run import AnsweredDoc, Run, SentRequest, only_run, run_of_docs, timestamp
from assay.finished.trials import Trial, content_of, doc_of_trials, json_object, last_answer, took
from assay.instance import Message

_MOST = 256 << 20
"""Bytes of one file of a job."""
_BUDGET = frozenset(
    {
        "AgentTimeoutError",
        "ContextLengthExceededError",
        "ContextWindowExceededError",
        "OutputLengthExceededError",
        "OutputTokenExceededError",
    }
)
"""What Harbor calls an agent that exhausted its budget."""


def is_job(path: Path) -> bool:
    """Whether a directory has the results of a job, or is below one that has: a single trial."""
    return path.is_dir() and any(True for _ in _trial_files(path))


def _trial_files(path: Path) -> Iterator[Path]:
    """The results of trials: each below a directory of its own, beside its config."""
    for file in sorted(path.glob("*/result.json")):
        if file.is_file() and ((file.parent / "config.json").is_file() or (file.parent / "agent").is_dir()):
            yield file


def read_jobs(path: Path) -> list[Run]:
    """A run for each agent and model of a job; a task for each dataset."""
    trials: dict[str, dict[str, dict[str, list[Path]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    began: dict[Path, str] = {}
    for file in _trial_files(path):
        result = _load(file)
        agent = result["agent_info"]
        model = (agent.get("model_info") or {}).get("name")
        name = f"{agent['name']} {model}" if model else str(agent["name"])
        trials[name][str(result.get("source") or ADHOC)][str(result["task_name"])].append(file)
        began[file] = str(result.get("started_at") or "")
    if not trials:
        raise DataError(f"{path} has no finished trials", hint="Expected the directory of a job that Harbor ran.")
    return [
        run_of_docs(
            list(of_agent),
            partial(_answered, of_agent, began),
            path=path,
            model=name,
            date=timestamp(min(began.values())),
            origin="harbor",
            lacks=LACKS,
        )
        for name, of_agent in trials.items()
    ]


def _answered(
    trials: Mapping[str, Mapping[str, Sequence[Path]]], began: Mapping[Path, str], task: str, ids: Sequence[int] | None
) -> Iterator[AnsweredDoc]:
    for number, (name, files) in enumerate(sorted(trials[task].items())):
        ordered = sorted(files, key=began.__getitem__)
        results = [_load(file) for file in ordered]
        draws = [_trial(result, file.parent) for result, file in zip(results, ordered)]
        said = next((each.conversation for each in draws if each.conversation), ())
        asked = next((turn.content for turn in said if turn.role == "user"), None)
        content = [name, results[0].get("task_checksum")]
        yield doc_of_trials(
            number,
            draws,
            doc={"task": name, "instruction": asked},
            content=content,
            request=SentRequest(asked if isinstance(asked, str) else name),
            sent=content,
        )


def _trial(result: Mapping[str, Any], folder: Path) -> Trial:
    raised = result.get("exception_info") or next(
        (step["exception_info"] for step in result.get("step_results") or () if step.get("exception_info")), None
    )
    failure = None
    if raised is not None:
        kind = "limit" if raised.get("exception_type") in _BUDGET else "error"
        failure = f"{kind}: {raised.get('exception_type')}: {raised.get('exception_message')}"
    rewards = (result.get("verifier_result") or {}).get("rewards") or {}
    if failure is None and not rewards:
        failure = "error: the verifier gave no reward"
    conversation = tuple(_turns(folder / "agent" / "trajectory.json"))
    scores = {name: float(value) for name, value in rewards.items()}
    return Trial(scores, last_answer(conversation), failure, conversation, _spent(result, conversation))


def _spent(result: Mapping[str, Any], conversation: Sequence[Message]) -> dict[str, float]:
    told, spans = result.get("agent_result") or {}, result.get("agent_execution") or {}
    spent = {"cost": told.get("cost_usd"), "steps": sum(turn.role == "assistant" for turn in conversation) or None}
    if told.get("n_input_tokens") is not None and told.get("n_output_tokens") is not None:
        spent["tokens"] = told["n_input_tokens"] + told["n_output_tokens"]
    if spans.get("started_at") and spans.get("finished_at"):
        spent["seconds"] = timestamp(spans["finished_at"]) - timestamp(spans["started_at"])
    return {name: float(value) for name, value in spent.items() if value is not None}


def _turns(file: Path) -> Iterator[Message]:
    """The steps of a trajectory: what user, system and agent said, and after each call what came of it."""
    if not file.is_file():
        return
    before: str | None = None
    for step in _load(file).get("steps") or ():
        role = {"agent": "assistant"}.get(str(step.get("source")), str(step.get("source")))
        calls = tuple(
            {"id": call.get("tool_call_id"), "name": call.get("function_name"), "arguments": call.get("arguments")}
            for call in step.get("tool_calls") or ()
        )
        at, told = step.get("timestamp"), step.get("metrics") or {}
        seconds = timestamp(at) - timestamp(before) if at and before and role == "assistant" else None
        before = at or before
        spent = took(tokens=told.get("completion_tokens"), seconds=seconds)
        content = content_of(step.get("message"))
        if thoughts := step.get("reasoning_content"):
            said = ({"type": "text", "text": content},) if isinstance(content, str) else content
            content = ({"type": "reasoning", "reasoning": thoughts}, *said)
        yield Message(role, content, calls, more=spent)
        for result in (step.get("observation") or {}).get("results") or ():
            yield Message("tool", content_of(result.get("content")), tool_call_id=result.get("source_call_id"))


def _load(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST + 1)
    except OSError as error:
        raise DataError(f"{file}: {error}", hint="Check that the file can be read.") from error
    if len(content) > _MOST:
        raise DataError(f"{file} has more than {_MOST >> 20} MB", hint="Expected what Harbor writes.")
    return json_object(content, str(file))


LACKS = {"groups": "Harbor has no groups of tasks."}
FORMAT = RunFormat(
    files="a job's directory with <trial>/result.json",
    finds=is_job,
    read=lambda path: only_run(read_jobs(path), path, "agents"),
    read_all=read_jobs,
    write=write_job,
    joins_draws=True,
    needs=("samples",),
    lacks=LACKS,
    places=lambda folder, names: iter([folder] if "result.json" in names and is_job(folder) else []),
)
