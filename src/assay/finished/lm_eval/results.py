"""Results and samples of lm-evaluation-harness as a run directory of ours.

Values are taken as that harness wrote them. Samples bring prompts, responses and per-doc values, so the run gets error bars
of ours (`estimating`), and can be viewed, compared, and scored again where its task files are at hand; without samples a
standard error becomes a normal interval.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.config import RunConfig
from assay.data import doc_hash
from assay.errors import ConfigError, DataError
from assay.finished.lm_eval.estimating import SampleValues, with_our_estimates
from assay.instance import Instance
from assay.paths import parse_json
from assay.results import (
    LAYOUT,
    GroupResult,
    GroupScore,
    Health,
    MetricKey,
    RunDirectory,
    RunResult,
    SampleRow,
    SampleWriter,
    Score,
    Share,
    TaskResult,
    pack_arguments,
    read_numbers,
    shown_settings,
    to_json,
    write_key,
)
from assay.stats import Estimate, normal_quantile
from assay.store import request_hash

ORIGIN = "lm-evaluation-harness"


def import_lm_eval(source: str | Path, run_dir: str | Path) -> RunResult:
    """Convert a results file, or the newest one below a directory, with its samples."""
    newest = newest_results(Path(source))
    if newest is None:
        raise ConfigError(f"no results*.json in {source}", hint="Use the output directory of lm-evaluation-harness.")
    written = read_results(newest)
    data = with_bare_names(written)
    directory = RunDirectory.create(RunConfig(run_dir=str(run_dir)), "")
    assert directory is not None
    samples, columns = {}, {}
    for task, path in sample_files(newest, data):
        samples[task], columns[task] = _convert(path, task, data, directory)
    result = with_our_estimates(to_run_result(data, samples, path=directory.path), columns)
    about = {"format": LAYOUT, "status": "imported", "config": result.config, "model": result.model}
    about |= {"imported_from": str(source), "date": time.time(), "seconds": {}, "counts": {}}
    directory.write_json("run.json", about)
    # What that harness wrote stays as it wrote it; our block stands beside it.
    directory.write_json("results.json", {"n-shot": {}, **written, "assay": result.to_dict()["assay"]})
    return result


def newest_results(path: Path) -> Path | None:
    """The file itself, or the newest results file below a directory: its name tells, for its folder is the model's."""
    if path.is_file():
        return path
    return max(path.rglob("results*.json"), key=lambda file: (file.name, file), default=None)


def read_results(path: Path) -> dict[str, Any]:
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or "results" not in data:
        raise DataError(f"{path} has no `results`: it was not written by lm-evaluation-harness")
    return data


_BY_TASK = ["results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples"]
_BY_TASK += ["task_hashes"]


def with_bare_names(data: dict[str, Any]) -> dict[str, Any]:
    """The results with members of groups under their own names, as every other run has them.

    0.5 calls each `group::task`. A task that stands in two groups keeps those names: it was asked for each of them.
    """
    names = {name for section in ("results", "configs") for name in data.get(section, {})}
    last = [name.rsplit("::", 1)[-1] for name in names]
    bare = {name: short for name in names if last.count(short := name.rsplit("::", 1)[-1]) == 1 and short != name}
    if not bare:
        return data
    renamed = {**data, WRITTEN_NAMES: {short: name for name, short in bare.items()}}
    for section in _BY_TASK:
        if isinstance(entries := data.get(section), dict):
            renamed[section] = {bare.get(name, name): value for name, value in entries.items()}
    for name, children in renamed.get("group_subtasks", {}).items():
        renamed["group_subtasks"][name] = [bare.get(child, child) for child in children]
    return renamed


WRITTEN_NAMES = "names as written"
"""Where `with_bare_names` keeps the names that the files of samples have."""


def sample_files(results: Path, data: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    """The samples file of each task: that of the same run, or where names tell no run apart, the newest."""
    stamp = results.stem.removeprefix("results")
    for task in data.get("configs", {}):
        written = data.get(WRITTEN_NAMES, {}).get(task, task)
        pattern = re.compile(rf"samples_{re.escape(written)}(_\d{{4}}-.*)?\.jsonl")
        found = sorted(path for path in results.parent.glob("samples_*.jsonl") if pattern.fullmatch(path.name))
        if found:
            yield task, next((path for path in found if path.name == f"samples_{written}{stamp}.jsonl"), found[-1])


def _convert(
    path: Path, task: str, data: dict[str, Any], directory: RunDirectory
) -> tuple[str, dict[MetricKey, SampleValues]]:
    """The samples as a file of ours, by its name, and the values of every metric in them."""
    columns: dict[MetricKey, SampleValues] = {}
    writer = SampleWriter(directory.sample_file(task))
    kind = data["configs"][task].get("output_type", "generate_until")
    with open(path, encoding="utf-8", errors="surrogatepass") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    row = _row(parse_json(line), kind, task)
                    writer.add(row)
                    for metric, value in {**row.metrics, **row.other}.items():
                        column = columns.setdefault(MetricKey(metric, row.filter), SampleValues())
                        column.hashes.append(row.doc_hash)
                        column.values.append(value)
                except (ValueError, KeyError, TypeError) as error:
                    writer.discard()
                    raise DataError(
                        f"{path}, line {number}: not a sample of {ORIGIN} ({type(error).__name__}: {error})"
                    ) from error
    writer.close()
    return str(directory.sample_file(task).relative_to(directory.path)), columns


def sample_instances(sample: dict[str, Any], kind: str, task: str) -> list[Instance]:
    """The requests of one line of a samples file."""
    arguments = sample["arguments"]
    if isinstance(arguments, dict):
        ordered = sorted(arguments.items(), key=lambda item: int(item[0].rsplit("_", 1)[1]))
        arguments = [[request[key] for key in sorted(request)] for _, request in ordered]
    request_type = "loglikelihood" if kind == "multiple_choice" else kind
    if kind == "loglikelihood_rolling":  # 0.5 writes ("", text)
        arguments = [request[1:] if len(request) == 2 and request[0] == "" else request for request in arguments]
    return [
        Instance(request_type, sample["doc"], tuple(request), i, sample["doc_id"], task)
        for i, request in enumerate(arguments)
    ]


def _row(sample: dict[str, Any], kind: str, task: str) -> SampleRow:
    instances = sample_instances(sample, kind, task)
    metrics = {name: sample[name] for name in sample.get("metrics", []) if name in sample}
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    return SampleRow(
        doc_id=sample["doc_id"],
        doc_hash=doc_hash(sample["doc"]),
        request_hash=request_hash(instances),
        filter=sample["filter"],
        doc=to_json(sample["doc"]),
        target=to_json(sample["target"]),
        arguments=pack_arguments(instances),
        resps=to_json(_typed(sample["resps"])),
        filtered_resps=to_json(_typed(sample["filtered_resps"])),
        metrics=numbers,
        other={name: value for name, value in metrics.items() if name not in numbers},
    )


def _typed(value: Any) -> Any:
    """That harness writes every leaf as text; likelihoods and booleans are read back."""
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(leaf, str) for leaf in value) and value[1] in ("True", "False"):
            return [float(value[0]), value[1] == "True"]
        return [_typed(item) for item in value]
    return value


def to_run_result(
    data: Mapping[str, Any], samples: Mapping[str, str] | None = None, *, path: Path | None = None
) -> RunResult:
    """A results file of that harness as a result of ours. It tells values and standard errors; the rest is unknown."""
    subtasks = data.get("group_subtasks", {})
    groups = [name for name in subtasks if name not in data.get("configs", {})]
    names = dict.fromkeys([*data["results"], *groups])
    config = data.get("config", {})
    return RunResult(
        tasks={name: _task_result(name, data, (samples or {}).get(name)) for name in names if name not in groups},
        groups={name: _group_result(name, data) for name in groups},
        roots=tuple(name for name in names if not any(name in children for children in subtasks.values())),
        model={"name": data.get("model_name") or config.get("model", ""), "args": {}, "fingerprint": ""},
        config=_config(data),
        date=data.get("date") or 0.0,
        seconds=float(data.get("total_evaluation_time_seconds") or 0.0),
        notes=(f"imported from {ORIGIN}",),
        origin=ORIGIN,
        path=path,
    )


def _task_result(name: str, data: Mapping[str, Any], sample_file: str | None) -> TaskResult:
    config = data.get("configs", {}).get(name, {})
    docs = int(data["results"][name].get("sample_len") or 0)
    return TaskResult(
        name=name,
        alias=_alias(name, data),
        scores=reported_scores(name, data),
        health=Health(docs=docs),
        version=data.get("versions", {}).get(name),
        num_fewshot=data.get("n-shot", {}).get(name),
        output_type=config.get("output_type"),
        config=dict(config),
        higher_is_better=data.get("higher_is_better", {}).get(name, {}),
        original=data.get("n-samples", {}).get(name, {}).get("original", 0),
        sample_len=docs,
        sample_file=sample_file,
        task_hash=data.get("task_hashes", {}).get(name, ""),
    )


def _group_result(name: str, data: Mapping[str, Any]) -> GroupResult:
    return GroupResult(
        name=name,
        alias=_alias(name, data),
        scores=reported_group_scores(name, data),
        children=tuple(data.get("group_subtasks", {}).get(name, ())),
        version=str(data.get("versions", {}).get(name, "N/A")),
        has_aggregation=name in data.get("groups", {}),
    )


def _alias(name: str, data: Mapping[str, Any]) -> str:
    return str(data["results"].get(name, {}).get("alias", name)).strip(" -")


def reported_scores(name: str, data: Mapping[str, Any]) -> dict[MetricKey, Score]:
    """Values with their standard errors; the interval is the normal one."""
    z = normal_quantile(0.975)
    entry = data["results"].get(name, {})
    directions = data.get("higher_is_better", {}).get(name, {})
    scores = {}
    for key, (value, stderr) in read_numbers(entry).items():
        n = int(entry.get("sample_count", {}).get(write_key(key), entry.get("sample_len", 0)) or 0)
        method = f"as reported by {ORIGIN}"
        if not isinstance(value, int | float):
            estimate = replace(Estimate.missing("not available", n), method=method)
        elif not isinstance(stderr, int | float):
            estimate = Estimate.bare(float(value), n, method)
        else:
            estimate = Estimate(float(value), float(stderr), value - z * stderr, value + z * stderr, n, method)
        scores[key] = Score(estimate, n, aggregation=None, higher_is_better=_direction(key.metric, directions))
    return scores


def _direction(metric: str, directions: Mapping[str, bool | None]) -> bool | None:
    """`pass@1(exact_match)` goes where `exact_match` goes."""
    _, _, parent = metric.removesuffix(")").partition("(")
    return directions.get(metric, directions.get(parent))


def reported_group_scores(name: str, data: Mapping[str, Any]) -> dict[MetricKey, GroupScore]:
    """The file does not say how a group was averaged: by size, evenly, or neither; its number tells."""
    leaves = _leaves(name, data)
    return {
        key: GroupScore(
            score.estimate,
            score.size,
            higher_is_better=score.higher_is_better,
            **_how(score.estimate.value, key, leaves, data["results"]),
        )
        for key, score in reported_scores(name, data).items()
    }


def _leaves(name: str, data: Mapping[str, Any]) -> list[str]:
    children = data.get("group_subtasks", {}).get(name, [])
    if not children or name in data.get("configs", {}):
        return [name]
    return list(dict.fromkeys(leaf for child in children for leaf in _leaves(child, data)))


def _how(value: float | None, key: MetricKey, leaves: list[str], results: Mapping[str, Any]) -> dict[str, Any]:
    """The weights with which a mean of the members gives the group's number; `unknown` where none does."""
    text = write_key(key)
    members = [leaf for leaf in leaves if isinstance(results.get(leaf, {}).get(text), int | float)]
    values = np.array([results[leaf][text] for leaf in members], dtype=np.float64)
    sizes = np.array([results[leaf].get("sample_len") or 1 for leaf in members], dtype=np.float64)
    for weights in (sizes, np.ones(len(members))):
        shares = weights / weights.sum() if members else weights
        if members and value is not None and np.isclose(values @ shares, value, rtol=1e-6, atol=1e-9):
            children = tuple(map(Share, members, shares.tolist(), values.tolist()))
            return {"aggregation": "mean", "children": children}
    return {"aggregation": "unknown", "children": tuple(Share(m, None, v) for m, v in zip(members, values.tolist()))}


def _config(data: Mapping[str, Any]) -> dict[str, Any]:
    """As much of the run's config as the results tell."""
    config = data.get("config", {})
    subtasks = data.get("group_subtasks", {}).values()
    return shown_settings(
        RunConfig(
            model=str(config.get("model", "unknown")),
            tasks=[name for name in data["results"] if not any(name in children for children in subtasks)],
            limit=config.get("limit"),
            apply_chat_template=bool(data.get("chat_template")),
            fewshot_as_multiturn=bool(data.get("fewshot_as_multiturn")) if data.get("chat_template") else None,
            system_instruction=data.get("system_instruction"),
        )
    )
