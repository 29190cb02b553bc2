"""Output directories of lm-evaluation-harness, read and written: `results_*.json` and `samples_*.jsonl`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.data import doc_hash
from assay.errors import DataError
from assay.finished.formats import RunFormat
from assay.finished.jsonl import file_name, sample_objects, write_jsonl
from assay.finished.lm_eval.results import ORIGIN, WRITTEN_NAMES, read_results, to_run_result, with_bare_names
from assay.finished.run import AnsweredDoc, Run, SentRequest, without_samples
from assay.instance import Instance
from assay.paths import parse_json, regular
from assay.results import RunResult, sanitize, write_whole
from assay.store import request_hash


def find_results(path: Path) -> Path | None:
    """The newest results file at or below a path, if it is that harness's: its name tells, for its folder is the model's.

    lighteval names its results alike, but they have `config_general` and no task configs beside the scores.
    """
    if path.is_file():
        results = path if path.name.startswith("results") else None
    else:
        results = max(path.rglob("results*.json"), key=lambda file: (file.name, file), default=None)
    if results is None or results.suffix != ".json":
        return None
    if not results.is_file():
        return None
    with open(results, encoding="utf-8", errors="replace") as file:
        return None if "config_general" in file.read(4096) else results


def read_lm_eval(path: Path) -> Run:
    """The run of one results file, with the newest samples of each task beside it."""
    results = find_results(path)
    assert results is not None
    written = read_results(results)
    data = with_bare_names(written)
    result = to_run_result(data)
    files = {task: file for task, file in sample_files(results, data) if task in result.tasks}
    return Run(
        result,
        path,
        tuple(files),
        read_docs=lambda task, ids: read_samples(files[task], task, result.tasks[task].output_type),
        format=result.origin,
        lacks={} if files else without_samples(f"Run {ORIGIN} with --log_samples, which writes them."),
        written=written,
    )


def read_scores(path: Path) -> RunResult:
    return to_run_result(with_bare_names(read_results(path)))


def sample_files(results: Path, data: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """The samples file of each task: that of the same run, or where names tell no run apart, the newest."""
    stamp = results.stem.removeprefix("results")
    for task in data.get("configs", {}):
        written = data.get(WRITTEN_NAMES, {}).get(task, task)
        pattern = re.compile(rf"samples_{re.escape(written)}(_\d{{4}}-.*)?\.jsonl")
        found = sorted(path for path in results.parent.glob("samples_*.jsonl") if pattern.fullmatch(path.name))
        if found:
            yield task, next((path for path in found if path.name == f"samples_{written}{stamp}.jsonl"), found[-1])


def read_samples(path: Path, task: str, output_type: str | None) -> Iterator[AnsweredDoc]:
    kind = output_type or "generate_until"
    with regular(path).open(encoding="utf-8", errors="surrogatepass") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                sample = parse_json(line)
            except ValueError as error:
                raise DataError(
                    f"{path}, line {number}: {error}",
                    hint="The file is cut off or damaged; use an earlier one or run again.",
                ) from error
            try:
                yield _answered(sample, kind, task)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                which = f"doc {sample.get('doc_id')}" if isinstance(sample, dict) else "it"
                what = f"{which} is not a sample of {ORIGIN} ({type(error).__name__}: {error})"
                raise DataError(f"{path}, line {number}: {what}") from error


def _answered(sample: Mapping[str, Any], kind: str, task: str) -> AnsweredDoc:
    instances = sample_instances(sample, kind, task)
    typed = _typed if kind != "generate_until" else lambda value: value
    return AnsweredDoc(
        doc_id=int(sample["doc_id"]),
        doc_hash=doc_hash(sample["doc"]),
        doc=sample["doc"],
        target=sample.get("target"),
        requests=tuple(SentRequest.of_arguments(instance.arguments) for instance in instances),
        responses=tuple(tuple(typed(draws)) for draws in sample.get("resps", ())),
        filtered=typed(sample.get("filtered_resps")),
        filter=sample.get("filter", "none"),
        request_hash=request_hash(instances),
        metrics={name: sample[name] for name in sample.get("metrics", ()) if name in sample},
    )


def sample_instances(sample: Mapping[str, Any], kind: str, task: str) -> list[Instance]:
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


def _typed(value: Any) -> Any:
    """That harness writes every leaf as text; likelihoods and booleans are read back."""
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(leaf, str) for leaf in value) and value[1] in ("True", "False"):
            return [float(value[0]), value[1] == "True"]
        return [_typed(item) for item in value]
    return value


def write_lm_eval(run: Run, folder: Path) -> list[Path]:
    """`<model>/results_<date>.json` and `samples_<task>_<date>.jsonl`, as that harness names them."""
    stamp = datetime.fromtimestamp(run.result.date, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    folder = folder / sanitize(run.result.model_name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{stamp}.json"
    write_whole(path, run.result.to_json().encode("utf-8", "surrogatepass"))
    samples = [
        write_jsonl(folder / f"samples_{file_name(task)}_{stamp}.jsonl", sample_objects(run, task))
        for task in run.tasks
    ]
    return [path, *samples]


def _results_in(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        file = folder / name
        if name.startswith("results") and name.endswith(".json") and not file.is_symlink() and find_results(file):
            yield file


FORMAT = RunFormat(
    files="results_*.json",
    finds=lambda path: find_results(path) is not None,
    read=read_lm_eval,
    write=write_lm_eval,
    places=_results_in,
    scores=read_scores,
)
