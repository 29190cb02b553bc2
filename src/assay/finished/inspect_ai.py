"""Logs of inspect: `.eval`, a zip with `header.json` and `samples/<id>_epoch_<n>.json`, or the same in one `.json` file.

Epochs of a sample are tries at one doc. Scores count as inspect's own `value_to_float` reads them (C = 1, P = ½, I = N = 0,
yes and true, no and false, numbers); a sample that ended in an error or at a limit is a failed request, and one that
was not scored is missing, never wrong.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
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
from assay.finished.trials import Trial, failures_of, metrics_of
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
_MOST_JSON = 1 << 30
_ZSTD = 93
"""How inspect compresses the files of a zip; Python's own library knows it from 3.14 on."""
_SAMPLE = re.compile(r"samples/(?P<id>.+)_epoch_(?P<epoch>\d+)(?P<parts>/sample)?\.json")
"""One file, or for large samples a folder with their parts."""
_SHARDS = ".shards"
_SURROGATE = re.compile("[\ud800-\udfff]")
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{1,32})")


def find_logs(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(file for kind in ("eval", "json") for file in path.rglob(f"*.{kind}"))
    return [file for file in files if file.suffix == ".eval" or (file.suffix == ".json" and _is_log(file))]


def _is_log(file: Path) -> bool:
    """Whether a JSON file begins as inspect's do: with its version, status and what was evaluated."""
    try:
        with file.open("rb") as opened:
            start = opened.read(2048)
    except OSError:
        return False
    return all(name in start for name in (b'"version"', b'"status"', b'"eval"')) and b'"run_id"' in start


def read_inspect(path: Path) -> Run:
    """One log is one task; the newest log of each task counts. Shards, `<name>.shards/<k>/*.eval`, are one log together,
    the newest of each, unless the log that they were merged into is there."""
    headers = {file: _header(file) for file in find_logs(path)}
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


# ---------------------------------------------------------------------- files


def _open(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file} is not an inspect log: {error}", hint="Expected the zip that inspect writes."
        ) from error


def _header(file: Path) -> dict[str, Any]:
    if file.suffix == ".json":
        whole = _whole(file)
        return {name: value for name, value in whole.items() if name != "samples"}
    with _open(file) as archive:
        names = set(archive.namelist())
        for name in ("header.json", "_journal/start.json"):
            if name in names:
                header: dict[str, Any] = _load(archive, name, file)
                if isinstance(header.get("eval"), dict):
                    return header
    raise DataError(f"{file} has no header.json with an `eval` entry", hint="Expected the log that inspect writes.")


def _whole(file: Path) -> dict[str, Any]:
    """A log in one JSON file."""
    try:
        if file.stat().st_size > _MOST_JSON:
            raise ValueError(f"it has more than {_MOST_JSON >> 20} MB; inspect's own .eval logs are read in parts")
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(found, dict) or not isinstance(found.get("eval"), dict):
        raise DataError(f"{file} has no `eval` entry", hint="Expected the log that inspect writes.")
    return found


def _load(archive: zipfile.ZipFile, name: str, file: Path, kind: type = dict) -> Any:
    try:
        text = _unpacked(archive, archive.getinfo(name))
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
        RuntimeError,  # it wants a password
        struct.error,
    ) as error:
        raise DataError(f"{file}, {name}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(content, kind):
        raise DataError(f"{file}, {name}: not {'an object' if kind is dict else 'a list'}")
    return content


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """At most a byte more than is allowed, whatever the archive says of the size: it may lie."""
    if info.compress_type != _ZSTD:
        with archive.open(info) as packed:
            return packed.read(_MOST + 1)
    import pyarrow as pa

    assert archive.fp is not None
    archive.fp.seek(info.header_offset)
    start = archive.fp.read(30)
    name, extra = struct.unpack("<HH", start[26:30])
    archive.fp.seek(info.header_offset + 30 + name + extra)
    content = archive.fp.read(min(info.compress_size, _MOST))
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return bytes(stream.read(_MOST + 1))


def _by_doc(files: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    """The epochs of each sample, one sample in memory at a time; ids that are numbers in their order."""
    places: dict[str, list[tuple[int, Path, Any]]] = defaultdict(list)
    for file in files:
        if file.suffix == ".json":
            for sample in _whole(file).get("samples") or ():
                places[str(sample["id"])].append((int(sample["epoch"]), file, sample))
            continue
        with _open(file) as archive:
            for name in archive.namelist():
                if match := _SAMPLE.fullmatch(name):
                    places[match["id"]].append((int(match["epoch"]), file, name))
    with ExitStack() as stack:
        archives = {file: stack.enter_context(_open(file)) for file in files if file.suffix != ".json"}
        for sample_id in sorted(places, key=lambda text: (not text.isdecimal(), len(text) * text.isdecimal(), text)):
            found = sorted(places[sample_id], key=lambda each: each[0])
            yield [
                _sample(archives[file], place, file) if isinstance(place, str) else place for _, file, place in found
            ]


def _sample(archive: zipfile.ZipFile, name: str, file: Path) -> dict[str, Any]:
    """A sample; of a large one its messages and attachments stand in files of their own, by the index of their first."""
    sample: dict[str, Any] = _load(archive, name, file)
    if not name.endswith("/sample.json"):
        return sample
    folder = name.removesuffix("sample.json")
    for part in ("messages", "attachments"):
        chunk = re.compile(re.escape(f"{folder}{part}/") + r"(\d+)\.json")
        starts = sorted(int(match[1]) for other in archive.namelist() if (match := chunk.fullmatch(other)))
        items = [each for start in starts for each in _load(archive, f"{folder}{part}/{start}.json", file, list)]
        sample[part] = items if part == "messages" else {str(at): text for at, text in enumerate(items)}
    return sample


# ---------------------------------------------------------------------- samples


def _answered(files: Sequence[Path], header: dict[str, Any]) -> Iterator[AnsweredDoc]:
    """Samples with the messages up to the first answer, and the settings of the whole log."""
    config = (header.get("plan") or {}).get("config") or header["eval"].get("model_generate_config") or {}
    settings = {name: value for name, value in config.items() if value is not None}
    if "stop_seqs" in settings:
        settings["until"] = settings.pop("stop_seqs")
    for number, epochs in enumerate(_by_doc(files)):
        first = epochs[0]
        trials = [_trial(epoch) for epoch in epochs]
        sent = list(takewhile(lambda message: message.get("role") != "assistant", first.get("messages") or ()))
        turns = trials[0].conversation[: len(sent)]
        doc = {name: first[name] for name in ("input", "choices") if first.get(name) is not None}
        broken = failures_of(trials)
        yield AnsweredDoc(
            doc_id=number,
            doc_hash=_sha([first.get("input"), first.get("choices"), first.get("target")]),
            doc=doc,
            target=first.get("target"),
            requests=(SentRequest(turns or _text(first.get("input")), settings=settings),),
            responses=(tuple(trial.answer for trial in trials),),
            filtered=_read_as(first),
            request_hash=_sha([[turn.get("role"), turn.get("content")] for turn in sent])
            if first.get("messages")
            else None,
            metrics=metrics_of(trials),
            failure=broken[0] if len(broken) == len(trials) else None,
            conversations=tuple(trial.conversation for trial in trials),
            broken_off=broken,
            tries=len(trials),
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
    content = message.get("content")
    text = content if isinstance(content, str) else _json(content)
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
    places=lambda folder, names: (
        folder / name for name in names if name.endswith(".eval") or (name.endswith(".json") and _is_log(folder / name))
    ),
    scores=read_scores,
)
