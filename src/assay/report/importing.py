"""Results and samples of lm-evaluation-harness as a run directory of ours.

Scores are taken as that harness wrote them; a standard error becomes a normal interval. Samples bring prompts,
responses and per-doc values, so the run can be viewed, compared, and scored again where its task files are at hand.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.config import RunConfig
from assay.data import doc_hash
from assay.errors import ConfigError, DataError
from assay.groups import MetricKey
from assay.instance import Instance
from assay.report.results import Results
from assay.results.version import assay_version
from assay.run import LAYOUT, Health, RunDirectory, SampleRow, SampleWriter, pack_arguments, request_hash, to_json
from assay.stats import normal_quantile


def import_lm_eval(source: str | Path, run_dir: str | Path) -> Results:
    """Convert a results file, or the newest one below a directory, with its samples."""
    newest = newest_results(Path(source))
    if newest is None:
        raise ConfigError(
            f"no results*.json below {source}", hint="Give the output directory of lm-evaluation-harness."
        )
    data = read_results(newest)
    directory = RunDirectory.create(RunConfig(run_dir=str(run_dir)), "")
    assert directory is not None
    samples = {task: _convert(path, task, data, directory) for task, path in sample_files(newest, data)}
    data["assay"] = _block(data, samples)
    data.setdefault("n-shot", {})
    directory.write_json("run.json", {"format": LAYOUT, "status": "imported", "config": _config(data), "model": data["assay"]["model"], "imported_from": str(source), "date": time.time(), "seconds": {}, "counts": {}})  # fmt: skip
    directory.write_json("results.json", data)
    return Results(data, directory)


def newest_results(path: Path) -> Path | None:
    """The file itself, or the newest results file below a directory: its name tells, for its folder is the model's."""
    if path.is_file():
        return path
    return max(path.rglob("results*.json"), key=lambda file: (file.name, file), default=None)


def read_results(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or "results" not in data:
        raise DataError(f"{path} has no `results`: it was not written by lm-evaluation-harness")
    return data


def sample_files(results: Path, data: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    """The samples file of each task: that of the same run, or where names tell no run apart, the newest."""
    stamp = results.stem.removeprefix("results")
    for task in data.get("configs", {}):
        pattern = re.compile(rf"samples_{re.escape(task)}(_\d{{4}}-.*)?\.jsonl")
        found = sorted(path for path in results.parent.glob("samples_*.jsonl") if pattern.fullmatch(path.name))
        if found:
            yield task, next((path for path in found if path.name == f"samples_{task}{stamp}.jsonl"), found[-1])


def _convert(path: Path, task: str, data: dict[str, Any], directory: RunDirectory) -> str:
    writer = SampleWriter(directory.sample_file(task))
    kind = data["configs"][task].get("output_type", "generate_until")
    with open(path, encoding="utf-8", errors="surrogatepass") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    writer.add(_row(json.loads(line), kind, task))
                except (ValueError, KeyError, TypeError) as error:
                    writer.discard()
                    raise DataError(f"{path}, line {number}: not a sample of lm-evaluation-harness ({type(error).__name__}: {error})") from error  # fmt: skip
    writer.close()
    return str(directory.sample_file(task).relative_to(directory.path))


def sample_instances(sample: dict[str, Any], kind: str, task: str) -> list[Instance]:
    """The requests of one line of a samples file."""
    arguments = sample["arguments"]
    if isinstance(arguments, dict):
        ordered = sorted(arguments.items(), key=lambda item: int(item[0].rsplit("_", 1)[1]))
        arguments = [[request[key] for key in sorted(request)] for _, request in ordered]
    request_type = "loglikelihood" if kind == "multiple_choice" else kind
    return [Instance(request_type, sample["doc"], tuple(a), i, sample["doc_id"], task) for i, a in enumerate(arguments)]  # type: ignore[arg-type]  # fmt: skip


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


def tree_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Groups and their members in the order of a table."""
    subtasks = data.get("group_subtasks", {})
    roots = [name for name in data["results"] if not any(name in children for children in subtasks.values())]
    tree: list[dict[str, Any]] = []

    def visit(name: str, depth: int) -> None:
        entry = data["results"].get(name, {})
        is_group = name in subtasks and name not in data.get("configs", {})
        tree.append({"depth": depth, "name": name, "alias": str(entry.get("alias", name)).strip(" -"), "kind": "group" if is_group else "task"})  # fmt: skip
        for child in subtasks.get(name, []) if is_group else []:
            visit(child, depth + 1)

    for name in roots:
        visit(name, 0)
    return tree


def _block(data: dict[str, Any], samples: dict[str, str]) -> dict[str, Any]:
    tasks = [name for name in data["results"] if name in data.get("configs", {})]
    return {
        "format": 1,
        "version": assay_version(),
        "estimates": {name: reported_estimates(name, entry, data) for name, entry in data["results"].items()},
        "tree": tree_of(data),
        "health": {
            name: {**vars(Health(docs=data["results"][name].get("sample_len", 0))), "marks": []} for name in tasks
        },
        "samples": samples,
        "model": {
            "name": data.get("model_name") or data.get("config", {}).get("model", ""),
            "args": {},
            "fingerprint": "",
        },
        "data": {},
        "output_types": {name: data["configs"][name].get("output_type") for name in tasks},
        "stop_reasons": {},
        "notes": ["imported from lm-evaluation-harness"],
    }


def reported_estimates(name: str, entry: dict[str, Any], data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Values with their standard errors; the interval is the normal one."""
    z = normal_quantile(0.975)
    found = {}
    for text, value in entry.items():
        if not MetricKey.is_key(text) or (key := MetricKey.parse(text)).is_stderr:
            continue
        stderr = entry.get(str(key.stderr))
        stderr = float(stderr) if isinstance(stderr, int | float) else None
        number = float(value) if isinstance(value, int | float) else None
        found[text] = {
            "value": number,
            "stderr": stderr,
            "low": None if number is None or stderr is None else number - z * stderr,
            "high": None if number is None or stderr is None else number + z * stderr,
            "n": int(entry.get("sample_count", {}).get(text, entry.get("sample_len", 0))),
            "method": "as reported by lm-evaluation-harness",
            "undefined": None if number is not None else "not available",
            "level": 0.95,
            "higher_is_better": data.get("higher_is_better", {}).get(name, {}).get(key.metric),
        }
    return found


def _config(data: dict[str, Any]) -> dict[str, Any]:
    """As much of the run's config as the results tell."""
    config = data.get("config", {})
    return RunConfig(
        model=str(config.get("model", "unknown")),
        tasks=[name for name in data["results"] if not any(name in c for c in data.get("group_subtasks", {}).values())],
        limit=config.get("limit"),
        apply_chat_template=bool(data.get("chat_template")),
        fewshot_as_multiturn=bool(data.get("fewshot_as_multiturn")) if data.get("chat_template") else None,
        system_instruction=data.get("system_instruction"),
    ).model_dump(mode="json")
