"""Logs of inspect as runs.

Epochs of a sample are draws of one doc. Scores count as inspect's own `value_to_float` reads them (C = 1, P = ½, I = N = 0,
yes and true, no and false, numbers); a sample that ended in an error or at a limit is a failed request, and one that
was not scored is missing, never wrong.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from assay.finished.estimating import as_reported
from assay.finished.formats import RunFormat
from assay.finished.inspect.log_files import find_logs, is_log, read_header, samples_by_doc
from assay.finished.inspect.writing import write_inspect
from assay.finished.run import AnsweredDoc, Run, SentRequest, only_run, run_of_docs, timestamp
from assay.finished.trials import Trial, content_of, doc_of_trials, json_text, took
from assay.instance import Message
from assay.results import Health, MetricKey, RunResult, Score, TaskResult

_SHARDS = ".shards"
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOTHING_SENT = SentRequest(None)
_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{1,32})")


def read_inspect(path: Path) -> list[Run]:
    """A run for each model. One log is one task; the newest log of each task counts. Shards, `<name>.shards/<k>/*.eval`, are one
    log together, the newest of each, unless the log that they were merged into is there."""
    headers = {file: read_header(file) for file in find_logs(path)}
    models: dict[str, dict[str, list[Path]]] = defaultdict(dict)
    created = {file: str(header["eval"].get("created", "")) for file, header in headers.items()}
    for file in sorted(headers, key=created.__getitem__):
        about = headers[file]["eval"]
        by_task, task = models[str(about.get("model", ""))], str(about.get("task") or file.stem)
        shards = file.parent.parent if file.parent.parent.suffix == _SHARDS else None
        if shards is None:
            by_task[task] = [file]
        elif not any(shards.with_suffix(kind) in headers for kind in (".eval", ".json")):
            others = [
                each for each in by_task.get(task, []) if each.parent.parent == shards and each.parent != file.parent
            ]
            by_task[task] = [*others, file]
    return [
        _with_note(_run(path, model, by_task, headers), headers, model) for model, by_task in models.items() if by_task
    ]


def _with_note(run: Run, headers: Mapping[Path, dict[str, Any]], model: str) -> Run:
    """Says where a task has more logs than the one that counts; shards and the log that they were merged into are one."""
    logs = Counter(
        str(header["eval"].get("task") or file.stem)
        for file, header in headers.items()
        if header["eval"].get("model", "") == model and file.parent.parent.suffix != _SHARDS
    )
    notes = tuple(f"{task}: {count} logs; only the newest is read" for task, count in logs.items() if count > 1)
    return replace(run, result=replace(run.result, notes=(*run.result.notes, *notes))) if notes else run


def _run(path: Path, model: str, by_task: Mapping[str, list[Path]], headers: Mapping[Path, dict[str, Any]]) -> Run:
    statuses = {task: _status([headers[file] for file in files]) for task, files in by_task.items()}
    first = headers[next(iter(by_task.values()))[0]]["eval"]
    return run_of_docs(
        list(by_task),
        lambda task, ids: _answered(by_task[task], headers[by_task[task][0]]),
        read_values=lambda task, ids: _values(by_task[task]),
        path=path,
        model=model,
        date=timestamp(str(first.get("created", ""))),
        origin="inspect",
        lacks=LACKS,
        stop_reasons={task: f"its log has the status {name!r}" for task, name in statuses.items() if name != "success"},
    )


def _status(headers: Sequence[Mapping[str, Any]]) -> str:
    """The worst of all parts. A log that is still being written has none."""
    found = [str(header.get("status") or "started") for header in headers]
    return next((status for status in found if status != "success"), "success")


def read_scores(path: Path) -> RunResult:
    """As the header of a log reports them; a log without, which is not finished, is read whole."""
    header = read_header(path)
    reported = (header.get("results") or {}).get("scores")
    if not reported:
        return only_run(read_inspect(path), path, "models").result
    docs = int((header["eval"].get("dataset") or {}).get("samples") or 0)
    scores = {}
    for each in reported:
        numbers = {name: found["value"] for name, found in each["metrics"].items()}
        stderr = numbers.pop("stderr", None)
        value = next(iter(numbers.values()), None)
        if value is not None:
            scores[MetricKey(str(each["name"]), "none")] = Score(
                as_reported(float(value), stderr, docs, "inspect"), docs, "mean"
            )
    task = str(header["eval"].get("task") or path.stem)
    found = TaskResult(task, task, scores, Health(docs=docs), sample_len=docs, original=docs)
    model, date = {"name": str(header["eval"].get("model", ""))}, timestamp(str(header["eval"].get("created", "")))
    return RunResult({task: found}, roots=(task,), model=model, date=date, origin="inspect")


def _answered(files: Sequence[Path], header: dict[str, Any]) -> Iterator[AnsweredDoc]:
    """Samples with the messages up to the first answer, and the settings of the whole log."""
    config = (header.get("plan") or {}).get("config") or header["eval"].get("model_generate_config") or {}
    settings = {name: value for name, value in config.items() if value is not None}
    if "stop_seqs" in settings:
        settings["until"] = settings.pop("stop_seqs")
    for number, epochs in enumerate(samples_by_doc(files)):
        first = epochs[0]
        trials = [replace(_trial(epoch), conversation=_conversation(epoch)) for epoch in epochs]
        sent = _sent(first)
        yield doc_of_trials(
            number,
            trials,
            doc={name: first[name] for name in ("input", "choices") if first.get(name) is not None},
            content=_content(first),
            request=SentRequest(
                trials[0].conversation[: len(sent)] or json_text(first.get("input")), settings=settings
            ),
            sent=sent if first.get("messages") else None,
            target=first.get("target"),
            filtered=[_read_as(epoch) for epoch in epochs],
        )


def _values(files: Sequence[Path]) -> Iterator[AnsweredDoc]:
    """The same docs without what was said."""
    for number, epochs in enumerate(samples_by_doc(files)):
        first = epochs[0]
        sent = _sent(first) if first.get("messages") else None
        yield doc_of_trials(
            number,
            [_trial(epoch) for epoch in epochs],
            doc=_NOTHING,
            content=_content(first),
            request=_NOTHING_SENT,
            sent=sent,
        )


def _content(sample: Mapping[str, Any]) -> list[Any]:
    """What makes it the same doc in another log."""
    return [sample.get("input"), sample.get("choices"), sample.get("target")]


def _sent(sample: Mapping[str, Any]) -> list[list[Any]]:
    """Role and content of the messages before the first answer."""
    attachments, found = sample.get("attachments") or _NOTHING, []
    for message in sample.get("messages") or ():
        if message.get("role") == "assistant":
            break
        found.append([str(message.get("role")), content_of(_whole(message.get("content"), attachments))])
    return found


def _trial(sample: Mapping[str, Any]) -> Trial:
    error, limit = sample.get("error"), sample.get("limit")
    failure = None
    if isinstance(error, Mapping):
        failure = f"error: {error.get('message')}"
    elif isinstance(limit, Mapping):
        failure = f"limit: {limit.get('type')} {limit.get('limit')}"
    return Trial(
        scores={name: value for name, value in _scores(sample) if value is not None},
        answer=_completion(sample.get("output") or {}),
        failure=failure,
        spent=_spent(sample),
    )


def _spent(sample: Mapping[str, Any]) -> dict[str, float]:
    """Of all models that took part; what inspect does not know of a model (its price) is not there."""
    spent: dict[str, float] = {}
    if steps := [message.get("role") for message in sample.get("messages") or ()].count("assistant"):
        spent["steps"] = float(steps)
    if seconds := sample.get("working_time") or sample.get("total_time"):
        spent["seconds"] = float(seconds)
    if usages := list((sample.get("model_usage") or {}).values()):
        spent["tokens"] = float(sum([usage["total_tokens"] for usage in usages]))
        costs = [usage.get("total_cost") for usage in usages]
        if None not in costs:
            spent["cost"] = float(sum(costs))
    return spent


def _conversation(sample: Mapping[str, Any]) -> tuple[Message, ...]:
    messages, attachments = sample.get("messages") or (), sample.get("attachments") or {}
    if len(messages) <= 2:
        return tuple([_turn(message, attachments) for message in messages])
    known = _took(sample)
    return tuple([_turn(message, attachments, known.get(message.get("id"), _NOTHING)) for message in messages])


def _took(sample: Mapping[str, Any]) -> dict[Any, dict[str, Any]]:
    """Id of a message → its tokens and seconds, which stand with the event that gave it."""
    found = {}
    for event in sample.get("events") or ():
        if event.get("event") == "tool":
            found[event.get("message_id")] = took(seconds=event.get("working_time"))
        elif event.get("event") == "model":
            output = event.get("output") or {}
            spent = took(tokens=(output.get("usage") or {}).get("output_tokens"), seconds=event.get("working_time"))
            for choice in output.get("choices") or ():
                found[choice["message"].get("id")] = spent
    return found


def _turn(message: Mapping[str, Any], attachments: Mapping[str, Any], spent: Mapping[str, Any] = _NOTHING) -> Message:
    calls = message.get("tool_calls")
    return Message(
        str(message.get("role")),
        content_of(_whole(message.get("content"), attachments)),
        tuple(
            {
                "id": call.get("id"),
                "name": call.get("function"),
                "arguments": _whole(call.get("arguments"), attachments),
            }
            for call in calls
        )
        if calls
        else (),
        message.get("tool_call_id"),
        spent,
    )


def _whole(value: Any, attachments: Mapping[str, Any]) -> Any:
    """With its long texts and images, which stand apart in the log, under a hash."""
    if not attachments:
        return value
    if isinstance(value, str):
        return _ATTACHMENT.sub(lambda found: str(attachments.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [_whole(each, attachments) for each in value]
    return {name: _whole(each, attachments) for name, each in value.items()} if isinstance(value, dict) else value


def _completion(output: Mapping[str, Any]) -> Any:
    """The text of the answer, or all of its first choice where the log does not have it apart."""
    if output.get("completion"):
        return output["completion"]
    first = (output.get("choices") or [None])[0]
    content = (first.get("message") or {}).get("content") if isinstance(first, Mapping) else None
    return content if isinstance(content, str) else first


def _scores(sample: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    for scorer, score in (sample.get("scores") or {}).items():
        value = score.get("value") if isinstance(score, dict) else score
        parts = value.items() if isinstance(value, dict) else [(None, value)]
        for part, each in parts:
            yield (scorer if part is None else f"{scorer}/{part}"), _number(each)


def _number(value: Any) -> float | None:
    """As inspect's `value_to_float` does; None for what it would warn about and take for 0."""
    if isinstance(value, bool | int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    if value in _GRADES:
        return _GRADES[value]
    lower = value.lower()
    if lower in ("yes", "true"):
        return 1.0
    if lower in ("no", "false"):
        return 0.0
    try:
        return float(value)
    except ValueError:
        return None


def _read_as(sample: Mapping[str, Any]) -> Any:
    """What the scorers took for the answer of a draw, or each of them where they differ; the answer itself where none says."""
    scores = (sample.get("scores") or {}).values()
    taken = [score["answer"] for score in scores if isinstance(score, dict) and score.get("answer") is not None]
    distinct = [each for place, each in enumerate(taken) if each not in taken[:place]]
    return distinct if len(distinct) > 1 else (distinct or [_completion(sample.get("output") or {})])[0]


LACKS = {"groups": "inspect has no groups of tasks."}
FORMAT = RunFormat(
    files="*.eval, or *.json of the same content",
    finds=lambda path: bool(find_logs(path)),
    read=lambda path: only_run(read_inspect(path), path, "models"),
    read_all=read_inspect,
    write=write_inspect,
    joins_draws=True,
    needs=("samples",),
    lacks=LACKS,
    places=lambda folder, names: (
        folder / name for name in names if name.endswith(".eval") or (name.endswith(".json") and is_log(folder / name))
    ),
    scores=read_scores,
)
