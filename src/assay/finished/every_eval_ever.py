"""Records of Every Eval Ever: `<id>.json` with scores as they were reported, and `<id>_samples.jsonl` beside it with a line
for each sample and metric, where the evaluation has them.

Lines of one sample that name the same metric again are further draws of it. A line with an error is a failed request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from assay.finished.estimating import as_reported
from assay.finished.formats import RunFormat
from assay.finished.publishing import to_every_eval_ever
from assay.finished.run import AnsweredDoc, Run, SentRequest, only_run, run_of_docs, without_samples
from assay.finished.trials import Trial, content_of, doc_of_trials, json_object, json_text, rows_by_doc
from assay.instance import Message
from assay.paths import beginning
from assay.results import Health, MetricKey, RunResult, Score, TaskResult

_LARGEST = 64 << 20
"""Bytes of a record: scores, and no samples."""


@dataclass(frozen=True)
class Record:
    """One file of scores: which number is which metric of which task."""

    file: Path
    told: Mapping[str, Any]

    def numbers(self) -> Iterator[tuple[str, MetricKey, Mapping[str, Any]]]:
        """Task, metric and the reported result."""
        for each in self.told["evaluation_results"]:
            about = each["metric_config"]
            details = about.get("additional_details") or {}
            metric = details.get("metric") or about.get("metric_name") or about.get("metric_id") or "score"
            key = MetricKey(str(metric), str(details.get("filter") or "none"))
            task = str(each["evaluation_name"])
            for end in (f"/{key.metric}/{key.filter}", f"/{key.metric}"):  # as our own export names them
                task = task.removesuffix(end)
            yield task, key, each

    def places(self) -> dict[str, tuple[str, MetricKey]]:
        """What the lines of samples refer to: the id of a result, or its name where it has none."""
        found: dict[str, tuple[str, MetricKey]] = {}
        for task, key, each in self.numbers():
            for name in (each.get("evaluation_result_id"), each["evaluation_name"]):
                found.setdefault(str(name), (task, key))
        return found

    @property
    def samples(self) -> Path | None:
        """The file of samples, by its name, beside the record."""
        place = (self.told.get("detailed_evaluation_results") or {}).get("file_path")
        file = self.file.with_name(str(place).replace("\\", "/").rpartition("/")[2]) if place else None
        return file if file is not None and file.is_file() else None


def find_records(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.rglob("*.json"))
    return [file for file in files if file.suffix == ".json" and file.is_file() and is_record(file)]


def is_record(file: Path) -> bool:
    """Whether a JSON file begins as records do: with the versions of the schema and the evaluation."""
    start = beginning(file, 1024)
    return all(name in start for name in (b'"schema_version"', b'"evaluation_id"', b'"retrieved_timestamp"'))


def read_records(path: Path) -> list[Run]:
    """A run for each model; of two records of one task the newer counts."""
    models: dict[str, list[Record]] = defaultdict(list)
    for file in find_records(path):
        with file.open("rb") as opened:
            record = Record(file, json_object(opened.read(_LARGEST), str(file)))
        models[str(record.told["model_info"].get("id") or record.told["model_info"].get("name"))].append(record)
    return [_run(path, model, sorted(records, key=_date)) for model, records in sorted(models.items())]


def _date(record: Record) -> float:
    told = record.told.get("evaluation_timestamp") or record.told.get("retrieved_timestamp") or 0.0
    try:
        return float(told)
    except ValueError:
        return 0.0


def _run(path: Path, model: str, records: Sequence[Record]) -> Run:
    by_task: dict[str, Record] = {}
    for record in records:
        by_task.update((task, record) for task, _, _ in record.numbers())
    reported = {task: _reported(task, record) for task, record in by_task.items()}
    sampled = {task: record for task, record in by_task.items() if task in _sampled(record)}
    date = max(map(_date, records))
    if not sampled:
        result = RunResult(reported, roots=tuple(reported), model={"name": model}, date=date, origin="eee")
        return Run(result, path, (), format="eee", lacks={**LACKS, **without_samples(WITHOUT)})
    read = partial(_answered, sampled)
    run = run_of_docs(list(sampled), read, path=path, model=model, date=date, origin="eee", lacks=LACKS)
    tasks = {task: _as_told(run.result.tasks.get(task), found) for task, found in reported.items()}
    return replace(run, result=replace(run.result, tasks=tasks, roots=tuple(tasks)))


def _as_told(found: TaskResult | None, reported: TaskResult) -> TaskResult:
    """Numbers from the samples; those that only the record has stand beside them. It also tells which way is better."""
    if found is None:
        return reported
    directions = {key: score.higher_is_better for key, score in reported.scores.items()}
    scores = {key: replace(score, higher_is_better=directions.get(key)) for key, score in found.scores.items()}
    return replace(found, scores={**reported.scores, **scores})


def _reported(task: str, record: Record) -> TaskResult:
    scores, docs = {}, 0
    for name, key, each in record.numbers():
        if name == task:
            unsure = each["score_details"].get("uncertainty") or {}
            docs = int(unsure.get("num_samples") or (each.get("source_data") or {}).get("samples_number") or 0)
            stderr = (unsure.get("standard_error") or {}).get("value")
            value = as_reported(float(each["score_details"]["score"]), stderr, docs, "eee")
            scores[key] = Score(value, docs, "mean", higher_is_better=not each["metric_config"].get("lower_is_better"))
    return TaskResult(task, task, scores, Health(docs=docs), sample_len=docs, original=docs)


def _sampled(record: Record) -> set[str]:
    """Tasks that have lines: all that the first lines name, and every other that is a result of the record."""
    if record.samples is None:
        return set()
    return {task for task, _ in record.places().values()}


def _answered(records: Mapping[str, Record], task: str, ids: Sequence[int] | None) -> Iterator[AnsweredDoc]:
    record = records[task]
    places, file = record.places(), record.samples
    assert file is not None

    def place(row: Mapping[str, Any]) -> tuple[str, MetricKey]:
        name = str(row.get("evaluation_result_id") or row["evaluation_name"])
        return places.get(name) or (str(row["evaluation_name"]), MetricKey("score", "none"))

    def doc_of(row: Mapping[str, Any]) -> tuple[str, str, bool, int, str]:
        of_task, key = place(row)
        name = str(row["sample_id"])
        return of_task, key.filter, not name.isdigit(), int(name) if name.isdigit() else 0, name

    numbers: dict[str, int] = {}
    for rows in rows_by_doc(file, doc_of, lambda doc: doc[0] == task):
        number = numbers.setdefault(str(rows[0]["sample_id"]), len(numbers))
        yield _doc(number, rows, [place(row)[1] for row in rows])


def _doc(number: int, rows: Sequence[Mapping[str, Any]], keys: Sequence[MetricKey]) -> AnsweredDoc:
    draws: dict[Any, list[tuple[MetricKey, Mapping[str, Any]]]] = defaultdict(list)
    seen: dict[MetricKey, int] = defaultdict(int)
    for key, row in zip(keys, rows):
        seen[key] += 1
        draws[(row.get("metadata") or {}).get("epoch") or seen[key]].append((key, row))
    first = rows[0]
    given = first["input"]
    references = given.get("reference") or []
    found = doc_of_trials(
        number,
        [_trial(of_draw) for of_draw in draws.values()],
        doc={"id": first["sample_id"], **{name: given[name] for name in ("raw", "choices") if given.get(name)}},
        content=first.get("sample_hash") or [given["raw"], references],
        request=SentRequest(json_text(given.get("formatted") or given["raw"])),
        sent=given.get("formatted") or given["raw"],
        target=references[0] if len(references) == 1 else references,
    )
    return replace(found, filter=keys[0].filter)


def _trial(rows: Sequence[tuple[MetricKey, Mapping[str, Any]]]) -> Trial:
    row = rows[0][1]
    conversation = tuple(map(_turn, row.get("messages") or ()))
    told = (row.get("output") or {}).get("raw") or [turn.content for turn in conversation if turn.role == "assistant"][
        -1:
    ]
    usage, timing = row.get("token_usage") or {}, row.get("performance") or {}
    spent = {
        "tokens": usage.get("total_tokens"),
        "steps": sum(turn.role == "assistant" for turn in conversation) or None,
    }
    if (milliseconds := timing.get("generation_time_ms") or timing.get("latency_ms")) is not None:
        spent["seconds"] = milliseconds / 1000
    return Trial(
        scores={key.metric: float(each["evaluation"]["score"]) for key, each in rows},
        answer=told[0] if len(told) == 1 else told,
        failure=None if row.get("error") is None else f"error: {row['error']}",
        conversation=conversation,
        spent={name: float(value) for name, value in spent.items() if value is not None},
    )


def _turn(message: Mapping[str, Any]) -> Message:
    answered = message.get("tool_call_id")
    return Message(
        str(message["role"]),
        content_of(message.get("content") or ""),
        tuple(message.get("tool_calls") or ()),
        answered[0] if isinstance(answered, list) and answered else None,
    )


WITHOUT = "The record has scores and no file of samples beside it."
LACKS = {"groups": "Every Eval Ever has no groups of tasks."}
FORMAT = RunFormat(
    files="records in JSON with schema_version and evaluation_id",
    finds=lambda path: bool(find_records(path)),
    read=lambda path: only_run(read_records(path), path, "models"),
    read_all=read_records,
    write=to_every_eval_ever,
    settings=("organization", "relationship", "developer"),
    lacks=LACKS,
    places=lambda folder, names: (
        folder / name for name in names if name.endswith(".json") and is_record(folder / name)
    ),
)
