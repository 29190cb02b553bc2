"""Logs of inspect as runs.

Epochs of a sample are tries at one doc. Scores count as inspect's own `value_to_float` reads them (C = 1, P = ½, I = N = 0,
yes and true, no and false, numbers); a sample that ended in an error or at a limit is a failed request, and one that
was not scored is missing, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from assay.finished.estimating import as_reported
from assay.finished.formats import RunFormat
from assay.finished.inspect.log_files import find_logs, is_log, read_header, samples_by_doc
from assay.finished.inspect.writing import write_inspect
from assay.finished.run import AnsweredDoc, Run, SentRequest, run_of_docs, timestamp
from assay.finished.trials import Trial, doc_of_trials, json_text
from assay.instance import Message
from assay.results import Health, MetricKey, RunResult, Score, TaskResult

_SHARDS = ".shards"
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{1,32})")


def read_inspect(path: Path) -> Run:
    """One log is one task; the newest log of each task counts. Shards, `<name>.shards/<k>/*.eval`, are one log together,
    the newest of each, unless the log that they were merged into is there."""
    headers = {file: read_header(file) for file in find_logs(path)}
    by_task: dict[str, list[Path]] = {}
    created = {file: str(header["eval"].get("created", "")) for file, header in headers.items()}
    for file in sorted(headers, key=created.__getitem__):
        task = str(headers[file]["eval"].get("task") or file.stem)
        shards = file.parent.parent if file.parent.parent.suffix == _SHARDS else None
        if shards is None:
            by_task[task] = [file]
        elif not any(shards.with_suffix(kind) in headers for kind in (".eval", ".json")):
            others = [
                each for each in by_task.get(task, []) if each.parent.parent == shards and each.parent != file.parent
            ]
            by_task[task] = [*others, file]
    first = headers[next(iter(by_task.values()))[0]]["eval"]
    statuses = {task: _status([headers[file] for file in files]) for task, files in by_task.items()}
    return run_of_docs(
        list(by_task),
        lambda task, ids: _answered(by_task[task], headers[by_task[task][0]]),
        path=path,
        model=str(first.get("model", "")),
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
        return read_inspect(path).result
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
        trials = [_trial(epoch) for epoch in epochs]
        sent = list(takewhile(lambda message: message.get("role") != "assistant", first.get("messages") or ()))
        turns = trials[0].conversation[: len(sent)]
        yield doc_of_trials(
            number,
            trials,
            doc={name: first[name] for name in ("input", "choices") if first.get(name) is not None},
            content=[first.get("input"), first.get("choices"), first.get("target")],
            request=SentRequest(turns or json_text(first.get("input")), settings=settings),
            sent=[[turn.get("role"), turn.get("content")] for turn in sent] if first.get("messages") else None,
            target=first.get("target"),
            filtered=_read_as(first),
        )


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
        conversation=tuple(_turn(message, sample.get("attachments") or {}) for message in sample.get("messages") or ()),
    )


def _turn(message: Mapping[str, Any], attachments: Mapping[str, Any]) -> Message:
    """A turn of the conversation; long texts stand apart in the log, under a hash."""
    text = json_text(message.get("content"))
    text = _ATTACHMENT.sub(lambda found: str(attachments.get(found[1], found[0])), text)
    calls = message.get("tool_calls")
    return Message(
        str(message.get("role")),
        text,
        tuple({"name": call.get("function"), "arguments": call.get("arguments")} for call in calls or ()),
        message.get("tool_call_id"),
    )


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


def _read_as(sample: Mapping[str, Any]) -> list[Any]:
    """What the scorers took for the answer; the answer itself where none says."""
    scores = (sample.get("scores") or {}).values()
    taken = [score["answer"] for score in scores if isinstance(score, dict) and score.get("answer") is not None]
    return taken or [_completion(sample.get("output") or {})]


LACKS = {"groups": "inspect has no groups of tasks."}
FORMAT = RunFormat(
    finds=lambda path: bool(find_logs(path)),
    read=read_inspect,
    write=write_inspect,
    needs=("samples",),
    lacks=LACKS,
    places=lambda folder, names: (
        folder / name for name in names if name.endswith(".eval") or (name.endswith(".json") and is_log(folder / name))
    ),
    scores=read_scores,
)
