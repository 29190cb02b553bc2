"""Scores in the forms that others publish: the hub's `.eval_results` and model cards, and Every Eval Ever.

Only numbers that may be used are published: what is withheld or undefined stays out. Every number goes with its interval, in the
place that the form has for it, or in its note.
"""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.config import FILE_FORMATS
from assay.errors import ConfigError
from assay.finished.formats import RunFormat
from assay.finished.jsonl import file_name, write_jsonl
from assay.finished.own import sample_rows
from assay.finished.run import Run
from assay.results import (
    GroupResult,
    MetricKey,
    RunResult,
    Score,
    TaskResult,
    assay_version,
    numbers_of,
    sanitize,
    unpack_arguments,
)

CARD = "model-index.yaml"
SCHEMA = "0.3.0"
"""Of Every Eval Ever; its samples are `instance_level_eval_0.2.1`."""


def usable(scores: Mapping[MetricKey, Score]) -> Iterator[tuple[MetricKey, Score, float]]:
    """Numbers that may be shown to others."""
    for key, score in scores.items():
        if score.withheld is None and score.estimate.value is not None:
            yield key, score, score.estimate.value


def hub_dataset(task: TaskResult) -> str | None:
    """The dataset on the hub that a task is made of; None where it is a file, or code."""
    path = task.config.get("dataset_path")
    is_repo = isinstance(path, str) and path not in FILE_FORMATS and path.count("/") <= 1 and not path.startswith(".")
    return path if is_repo and path else None


def published(result: RunResult) -> list[tuple[TaskResult, str]]:
    tasks = [(task, repo) for task in result.tasks.values() if (repo := hub_dataset(task)) and any(usable(task.scores))]
    if not tasks:
        raise ConfigError(
            "no task of this run has a dataset on the hub and a number that can be published",
            hint="Export --to csv, parquet or eee, which accept any task.",
        )
    return tasks


def moment(result: RunResult) -> str:
    return datetime.fromtimestamp(result.date, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def setup(task: TaskResult, key: MetricKey, score: Score) -> str:
    """How a number was made, in one line."""
    estimate = score.estimate
    parts = [
        key.metric if key.filter == "none" else f"{key.metric} under the filter {key.filter}",
        f"{task.num_fewshot}-shot",
    ]
    if estimate.low is not None and estimate.high is not None:
        parts.append(f"{estimate.level:.0%} interval {estimate.low:.4f} to {estimate.high:.4f}")
    return ", ".join(
        [*parts, f"n = {estimate.n}", f"task {task.name} version {task.version}", f"Assay {assay_version()}"]
    )


def to_eval_results(run: Run, folder: Path) -> list[Path]:
    """`.eval_results/<task>.yaml`, to be put into the model's repository: the first number of each task, as it is (0 to 1)."""
    written, result = [], run.result
    for task, repo in published(result):
        key, score, value = next(usable(task.scores))
        dataset = {"id": repo, "task_id": str(task.config.get("dataset_name") or "default")}
        if revision := task.data.get("commit") or task.data.get("revision"):
            dataset["revision"] = str(revision)
        entry = {"dataset": dataset, "value": value, "date": moment(result), "notes": setup(task, key, score)}
        written.append(_write_yaml(folder / ".eval_results" / f"{file_name(task.name)}.yaml", [entry]))
    return written


def to_model_card(run: Run, folder: Path) -> list[Path]:
    """`model-index.yaml`: the metadata block of a model card, every metric of every task."""
    results, result = [], run.result
    for task, repo in published(result):
        dataset = {"name": task.name, "type": repo}
        config = task.config
        for field, value in (
            ("config", config.get("dataset_name")),
            ("split", _split(config)),
            ("revision", task.data.get("commit")),
        ):
            if value:
                dataset[field] = str(value)
        metrics = [
            {"type": key.metric, "value": value, "name": setup(task, key, score), "verified": False}
            for key, score, value in usable(task.scores)
        ]
        entry = {"task": {"type": "text-generation"}, "dataset": dataset, "metrics": metrics}
        results.append(entry)
    card = {"model-index": [{"name": result.model_name or "model", "results": results}]}
    return [_write_yaml(folder / CARD, card)]


def _split(config: Mapping[str, Any]) -> Any:
    return config.get("test_split") or config.get("validation_split")


def _write_yaml(path: Path, data: Any) -> Path:
    import yaml

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8", errors="replace")
    return path


# ---------------------------------------------------------------------- Every Eval Ever


def to_every_eval_ever(
    run: Run, folder: Path, *, organization: str = "unknown", relationship: str = "other", developer: str = ""
) -> list[Path]:
    """`data/assay/<developer>/<model>/<id>.json` with every number, and `<id>_samples.jsonl` with every answer."""
    result = run.result
    identity = f"{result.model_name}/{result.model.get('fingerprint')}/{result.date}/{','.join(result.tasks)}"
    # The schema wants the form of a random id; this one is the same each time.
    name = str(uuid.UUID(bytes=uuid.uuid5(uuid.NAMESPACE_OID, identity).bytes, version=4))
    named_after, _, model = result.model_name.strip("/").rpartition("/")
    developer = developer or named_after
    # The store of records is asked by path: the id is spelled as the directories are.
    model_id = f"{sanitize(developer)}/{sanitize(model or 'model')}" if developer else result.model_name
    place = folder / "data" / "assay" / sanitize(developer or "unknown") / sanitize(model or "model")
    place.mkdir(parents=True, exist_ok=True)
    computed_here = result.model.get("backend") in ("hf", "vllm", "gguf")
    evaluation = f"{','.join(result.roots)}/{result.model_name}/{result.date}"
    samples = write_jsonl(place / f"{name}_samples.jsonl", eee_samples(run, evaluation, model_id))
    record: dict[str, Any] = {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "evaluation_timestamp": str(result.date),
        "retrieved_timestamp": str(result.date),
        "source_metadata": {
            "source_name": "Assay",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": relationship,
        },
        "eval_library": {"name": "assay", "version": assay_version()},
        "model_info": {
            "name": result.model_name,
            "id": model_id,
            "developer": developer or "unknown",
            "inference_engine": {"name": str(result.model.get("backend"))},
            "additional_details": {
                "fingerprint": str(result.model.get("fingerprint")),
                "deployment_type": "self_deployed" if computed_here else "unknown",
                "model_availability": "open_weights" if computed_here else "unknown",
            },
        },
        "evaluation_results": [*eee_results(result)],
        "detailed_evaluation_results": _described(samples, folder),
    }
    path = place / f"{name}.json"
    path.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8", errors="replace")
    return [path, samples]


def _described(samples: Path, folder: Path) -> dict[str, Any]:
    data = samples.read_bytes()
    checksum = hashlib.sha256(data).hexdigest()
    place = samples.relative_to(folder).as_posix()
    what = {"format": "jsonl", "file_path": place, "hash_algorithm": "sha256", "checksum": checksum}
    return {**what, "total_rows": data.count(b"\n")}


def eee_results(result: RunResult) -> Iterator[dict[str, Any]]:
    """One entry a number, of tasks and of groups."""
    for node in result.nodes():
        for key, score, value in usable(node.scores):
            entry: dict[str, Any] = {
                "evaluation_result_id": named(node.name, key),
                "evaluation_name": named(node.name, key),
                "source_data": _source(node, result),
                "metric_config": _metric(key, score, value),
                "score_details": {"score": value, "uncertainty": _uncertainty(score)},
            }
            if isinstance(node, TaskResult):
                shots = {"num_fewshot": str(node.num_fewshot), "task_version": str(node.version)}
                entry["generation_config"] = {"additional_details": shots}
            yield entry


def named(task: str, key: MetricKey) -> str:
    return f"{task}/{key.metric}" + (f"/{key.filter}" if key.filter != "none" else "")


def _source(task: TaskResult | GroupResult, result: RunResult) -> dict[str, Any]:
    """The dataset of a task; the members of a group."""
    if isinstance(task, GroupResult):
        members = ", ".join(name for name in result.below(task.name) if name in result.tasks)
        return {"dataset_name": task.name, "source_type": "other", "additional_details": {"tasks": members}}
    if (repo := hub_dataset(task)) is None:
        return {"dataset_name": task.name, "source_type": "other"}
    source: dict[str, Any] = {"dataset_name": task.name, "source_type": "hf_dataset", "hf_repo": repo}
    if split := _split(task.config):
        source["hf_split"] = str(split)
    return {**source, "samples_number": task.original}


def _metric(key: MetricKey, score: Score, value: float) -> dict[str, Any]:
    """The schema wants both ends of a continuous score. Where there is none, it gets the largest number that JSON readers hold."""
    details = {"metric": key.metric, "filter": key.filter, "aggregation": str(score.aggregation)}
    low, high = 0.0, 1.0
    if not (score.estimate.bounded or 0 <= value <= 1):
        low, high = (0.0 if value >= 0 else -sys.float_info.max), sys.float_info.max
        details["range"] = "open: max_score stands for no limit"
    if score.higher_is_better is None:
        details["direction"] = "not known"
    return {
        "evaluation_description": f"{key.metric} by Assay",
        "lower_is_better": score.higher_is_better is False,
        "score_type": "continuous",
        "min_score": low,
        "max_score": high,
        "additional_details": details,
    }


def _uncertainty(score: Score) -> dict[str, Any]:
    estimate = score.estimate
    found: dict[str, Any] = {"num_samples": estimate.n}
    if estimate.stderr is not None:
        found["standard_error"] = {"value": estimate.stderr, "method": estimate.method}
    if estimate.low is not None and estimate.high is not None:
        ends = {"lower": estimate.low, "upper": estimate.high}
        found["confidence_interval"] = {**ends, "confidence_level": estimate.level, "method": estimate.method}
    return found


def eee_samples(run: Run, evaluation: str, model: str) -> Iterator[dict[str, Any]]:
    """One object a doc, filter and numeric metric."""
    for task in run.tasks:
        for row in sample_rows(run, task):
            for metric, value in numbers_of(row).items():
                if value == value:
                    key = MetricKey(metric, row["filter"])
                    yield _sample(row, key, value, task, evaluation, model)


def _sample(
    row: Mapping[str, Any], key: MetricKey, value: float, task: str, evaluation: str, model: str
) -> dict[str, Any]:
    arguments = unpack_arguments(row["arguments"])
    prompt = str(arguments[0][0]) if arguments else ""
    target = json.loads(row["target"])
    references = [_text(each) for each in (target if isinstance(target, list) else [target])]
    answers = [_text(answer) for request in json.loads(row["resps"]) for answer in request]
    read = json.loads(row["filtered_resps"])
    choices = [str(request[1]) for request in arguments if len(request) > 1 and isinstance(request[1], str)]
    return {
        "schema_version": f"instance_level_eval_{SCHEMA}",
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": named(task, key),
        "evaluation_result_id": named(task, key),
        "sample_id": str(row["doc_id"]),
        "sample_hash": hashlib.sha256((prompt + "".join(references)).encode("utf-8", "surrogatepass")).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": prompt, "reference": references, "choices": choices or None},
        "output": {"raw": answers},
        "messages": None,
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": _text(read[0] if isinstance(read, list) and len(read) == 1 else read),
                "extraction_method": key.filter,
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": value, "is_correct": value == 1.0},
        "error": row.get("failure"),
        "metadata": {"doc_hash": row["doc_hash"], "request_hash": row["request_hash"]},
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def proposed_results(folder: Path, written: Sequence[Path], readme: Callable[[], str]) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in written}


def proposed_card(folder: Path, written: Sequence[Path], readme: Callable[[], str]) -> dict[str, bytes]:
    """The card as it is, with these numbers in its metadata. They take the place of older ones of ours, and of nobody else's."""
    import yaml
    from huggingface_hub import ModelCard
    from huggingface_hub.repocard_data import model_index_to_eval_results

    index = yaml.safe_load(written[0].read_text(encoding="utf-8"))["model-index"]
    name, new = model_index_to_eval_results(index)
    card = ModelCard(readme(), ignore_metadata_errors=False)
    again = set(map(_measured, new))
    data: Any = card.data
    data.eval_results = [*(each for each in data.eval_results or () if _measured(each) not in again), *new]
    data.model_name = data.model_name or name
    return {"README.md": str(card).encode()}


def _measured(entry: Any) -> tuple[str, ...] | None:
    """What one of our numbers is of: dataset and metric, which begins the line that `setup` gives."""
    name = str(entry.metric_name)
    parts = (entry.dataset_name, entry.dataset_type, entry.dataset_config, entry.dataset_split, name.partition(",")[0])
    return tuple(map(str, parts)) if ", Assay " in name else None


EVAL_RESULTS = RunFormat(write=to_eval_results, proposed=proposed_results)
MODEL_CARD = RunFormat(write=to_model_card, proposed=proposed_card)
