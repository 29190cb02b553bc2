"""`.eval` logs of inspect: a zip with `header.json` and `samples/<id>_epoch_<n>.json`.

Epochs of a sample are one doc: its score is their mean. Grades count as C = 1, P = ½, I = N = 0; a score that is not a
number (an unscored sample) is missing, not zero.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

from assay.errors import DataError
from assay.finished.estimating import as_reported
from assay.finished.formats import RunFormat
from assay.finished.jsonl import file_name
from assay.finished.own import sample_rows
from assay.finished.run import AnsweredDoc, Run, SentRequest, run_of_docs, timestamp
from assay.instance import Message
from assay.results import (
    Health,
    MetricKey,
    RunResult,
    Score,
    TaskResult,
    numbers_of,
    plain,
    unpack_arguments,
    write_key,
)

_MOST = 256 << 20
"""Bytes of one file of a log, unpacked: a zip of a few kB can hold gigabytes of zeros."""
_SAMPLE = re.compile(r"samples/(?P<id>.+)_epoch_(?P<epoch>\d+)\.json")
_SURROGATE = re.compile("[\ud800-\udfff]")
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def find_logs(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.rglob("*.eval"))
    return [file for file in files if file.suffix == ".eval"]


def read_inspect(path: Path) -> Run:
    """One log is one task; the newest log of each task counts."""
    headers = {file: _header(file) for file in find_logs(path)}
    by_task: dict[str, Path] = {}
    for file in sorted(headers, key=lambda f: str(headers[f]["eval"].get("created", ""))):
        by_task[str(headers[file]["eval"].get("task") or file.stem)] = file
    first = headers[next(iter(by_task.values()))]["eval"]
    return run_of_docs(
        list(by_task),
        lambda task, ids: _answered(by_task[task], headers[by_task[task]]),
        path=path,
        model=str(first.get("model", "")),
        date=timestamp(str(first.get("created", ""))),
        origin="inspect",
        lacks=LACKS,
    )


def read_scores(path: Path) -> RunResult:
    """As the header of a log reports them; a log without, which is not finished, is read whole."""
    header = _header(path)
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


def _open(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file} is not an inspect log: {error}", hint="Expected the zip that inspect writes."
        ) from error


def _header(file: Path) -> dict[str, Any]:
    with _open(file) as archive:
        names = set(archive.namelist())
        for name in ("header.json", "_journal/start.json"):
            if name in names:
                header = _load(archive, name, file)
                if isinstance(header.get("eval"), dict):
                    return header
    raise DataError(f"{file} has no header.json with an `eval` entry", hint="Expected the log that inspect writes.")


def _load(archive: zipfile.ZipFile, name: str, file: Path) -> dict[str, Any]:
    try:
        with archive.open(name) as packed:
            text = packed.read(_MOST + 1)  # not what the archive says of its size: it may lie
        if len(text) > _MOST:
            raise ValueError(f"it has more than {_MOST >> 20} MB")
        content = json.loads(text)
    except (
        ValueError,
        RecursionError,
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as error:
        raise DataError(f"{file}, {name}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}, {name}: not an object")
    return content


def _by_doc(file: Path) -> Iterator[list[dict[str, Any]]]:
    """The epochs of each sample, one sample in memory at a time; ids that are numbers in their order."""
    epochs: dict[str, list[tuple[int, str]]] = defaultdict(list)
    with _open(file) as archive:
        for name in archive.namelist():
            if match := _SAMPLE.fullmatch(name):
                epochs[match["id"]].append((int(match["epoch"]), name))
        for sample in sorted(epochs, key=lambda text: (not text.isdecimal(), len(text) * text.isdecimal(), text)):
            yield [_load(archive, name, file) for _, name in sorted(epochs[sample])]


def _answered(file: Path, header: dict[str, Any]) -> Iterator[AnsweredDoc]:
    """Samples with the messages up to the first answer, and the settings of the whole log."""
    config = (header.get("plan") or {}).get("config") or header["eval"].get("model_generate_config") or {}
    settings = {name: value for name, value in config.items() if value is not None}
    if "stop_seqs" in settings:
        settings["until"] = settings.pop("stop_seqs")
    for number, epochs in enumerate(_by_doc(file)):
        first = epochs[0]
        sent = list(takewhile(lambda message: message.get("role") != "assistant", first.get("messages") or ()))
        turns = tuple(Message(str(turn.get("role")), _text(turn.get("content"))) for turn in sent)
        doc = {name: first[name] for name in ("input", "choices") if first.get(name) is not None}
        yield AnsweredDoc(
            doc_id=number,
            doc_hash=_sha([first.get("input"), first.get("choices"), first.get("target")]),
            doc=doc,
            target=first.get("target"),
            requests=(SentRequest(turns or _text(first.get("input")), settings=settings),),
            responses=(tuple(_completion(epoch.get("output") or {}) for epoch in epochs),),
            filtered=_read_as(first),
            request_hash=_sha([[turn.get("role"), turn.get("content")] for turn in sent])
            if first.get("messages")
            else None,
            metrics=_means(epochs),
            failure=first["error"].get("message") if first.get("error") else None,
        )


def _completion(output: Mapping[str, Any]) -> Any:
    """The text of the answer, or all of its first choice where the log does not have it apart."""
    return output.get("completion") or (output.get("choices") or [None])[0]


def _means(epochs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for sample in epochs:
        for name, value in _scores(sample):
            if value == value:
                values[name].append(value)
    return {name: sum(drawn) / len(drawn) for name, drawn in values.items()}


def _scores(sample: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for scorer, score in (sample.get("scores") or {}).items():
        value = score.get("value") if isinstance(score, dict) else score
        parts = value.items() if isinstance(value, dict) else [(None, value)]
        for part, each in parts:
            number = _number(each)
            if number is not None:
                yield (scorer if part is None else f"{scorer}/{part}"), number


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return _GRADES.get(value)
    return float(value) if isinstance(value, bool | int | float) else None


def _read_as(sample: Mapping[str, Any]) -> list[Any]:
    """What the scorers took for the answer; the answer itself where none says."""
    scores = (sample.get("scores") or {}).values()
    taken = [score["answer"] for score in scores if isinstance(score, dict) and score.get("answer") is not None]
    return taken or [_completion(sample.get("output") or {})]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _sha(value: Any) -> str:
    return sha256(_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def write_inspect(run: Run, folder: Path) -> list[Path]:
    """One `.eval` log a task: a zip with a header and a file a sample, readable by inspect's viewer and dataframes."""
    return [_write_eval(run, task, folder / f"{file_name(task)}.eval") for task in run.tasks]


def _write_eval(run: Run, task: str, path: Path) -> Path:
    header = _eval_header(run.result, task)
    summaries = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", _encoded({name: header[name] for name in ("version", "eval", "plan")}))
        for sample in _inspect_samples(sample_rows(run, task)):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", _encoded(sample))
            summaries.append({k: sample[k] for k in ("id", "epoch", "input", "target", "scores")})
        archive.writestr("summaries.json", _encoded(summaries))
        archive.writestr("header.json", _encoded(header))
    return path


def _eval_header(result: RunResult, task: str) -> dict[str, Any]:
    about, created = result.tasks[task], datetime.fromtimestamp(result.date, UTC).isoformat()
    spec = {
        "eval_id": about.task_hash[:22],
        "run_id": about.task_hash[:22],
        "created": created,
        "task": task,
        "task_id": task,
        "task_version": 0,
        "task_args": {},
        "model": result.model_name,
        "model_args": {},
        "dataset": {"name": task, "samples": about.sample_len, "shuffled": False},
        "config": {},
    }
    count = about.sample_len
    return {
        "version": 2,
        "status": "success",
        "eval": spec,
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {"total_samples": count, "completed_samples": count, "scores": _scores_in_header(about)},
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
    }


def _scores_in_header(about: TaskResult) -> list[dict[str, Any]]:
    return [
        {
            "name": write_key(key),
            "scorer": write_key(key),
            "params": {},
            "metrics": {
                name: {"name": name, "value": value, "params": {}}
                for name, value in (("mean", score.estimate.value), ("stderr", score.estimate.stderr))
                if value is not None
            },
        }
        for key, score in about.scores.items()
        if score.withheld is None and score.estimate.value is not None
    ]


def _inspect_samples(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """One sample a doc; each filter's metrics are scores of it."""
    samples: dict[int, dict[str, Any]] = {}
    for row in rows:
        sample = samples.get(row["doc_id"]) or samples.setdefault(row["doc_id"], _unscored_sample(row))
        answer = _plain_text(json.loads(row["filtered_resps"]))
        for metric, value in numbers_of(row).items():
            sample["scores"][write_key(MetricKey(metric, row["filter"]))] = {"value": value, "answer": answer}
    yield from samples.values()


def _unscored_sample(row: Mapping[str, Any]) -> dict[str, Any]:
    arguments = unpack_arguments(row["arguments"])
    message = _message(json.loads(row["resps"]), row.get("extras"))
    return {
        "id": row["doc_id"],
        "epoch": 1,
        "input": str(arguments[0][0]) if arguments else "",
        "choices": [str(request[1]) for request in arguments] if len(arguments) > 1 else None,
        "target": str(json.loads(row["target"])),
        "messages": [],
        "output": {"model": "", "choices": [{"message": message, "stop_reason": "stop"}]},
        "scores": {},
        "metadata": {"doc_hash": row["doc_hash"], "request_hash": row["request_hash"]},
        "store": {},
        "events": [],
        "attachments": {},
    }


def _message(responses: Any, extras: str | None) -> dict[str, Any]:
    """The answer; thoughts before it as a part of its content, as inspect has them, and the rest as metadata."""
    text = _plain_text(responses)
    given = json.loads(extras) if extras else []
    first: dict[str, Any] = next((each for draws in given for each in draws if each), {})
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thoughts := first.get("reasoning"):
        message["content"] = [{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": text}]
    rest = {name: value for name, value in first.items() if name != "reasoning"}
    return {**message, "metadata": rest} if rest else message


def _plain_text(responses: Any) -> str:
    while isinstance(responses, list) and len(responses) == 1:
        responses = responses[0]
    return responses if isinstance(responses, str) else json.dumps(responses, ensure_ascii=False)


def _encoded(value: Any) -> bytes:
    """UTF-8 has no place for a lone surrogate, and inspect reads nothing else."""
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, default=plain)).encode()


LACKS = {"groups": "inspect has no groups of tasks."}
FORMAT = RunFormat(
    finds=lambda path: bool(find_logs(path)),
    read=read_inspect,
    write=write_inspect,
    needs=("samples",),
    lacks=LACKS,
    places=lambda folder, names: (folder / name for name in names if name.endswith(".eval")),
    scores=read_scores,
)
