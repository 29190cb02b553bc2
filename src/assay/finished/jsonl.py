"""`samples_<task>.jsonl` in the form of lm-evaluation-harness: one object a doc and filter."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from assay.errors import StoreError
from assay.finished.own import sample_rows
from assay.finished.run import Run
from assay.paths import short_name
from assay.results import RunDirectory, numbers_of, plain, read_samples, unpack_arguments


def write_sample_files(directory: RunDirectory, tasks: list[str]) -> list[Path]:
    """One file a task, beside `results.json`; none for a task without requests."""
    files = {task: directory.sample_file(task) for task in tasks}
    return [
        write_jsonl(directory.path / f"samples_{file_name(task)}.jsonl", _by_filter(partial(read_samples, file)))
        for task, file in files.items()
        if file.is_file()
    ]


def link_as_lm_eval(run: Path) -> None:
    """Names for a run `MODEL/DATE` where globs of that harness's users look: `MODEL/results_DATE.json`, `MODEL/samples_TASK_DATE.jsonl`."""
    for file in (run / "results.json", *run.glob("samples_*.jsonl")):
        link = run.parent / f"{file.stem}_{run.name}{file.suffix}"
        link.unlink(missing_ok=True)
        try:
            link.symlink_to(file.relative_to(run.parent))
        except OSError:  # a file system without links
            shutil.copyfile(file, link)


def file_name(task: str) -> str:
    """A task's name as that of a file."""
    return short_name(task.replace("/", "__"))


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Rows as lines; the file gets its name when it is complete."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with open(partial, "w", encoding="utf-8", errors="surrogatepass") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False, default=plain) + "\n")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}",
            hint="Scores and samples are stored; `assay export RUN --to jsonl` writes these files again.",
        ) from error
    return path


def sample_objects(run: Run, task: str) -> Iterator[dict[str, Any]]:
    """The samples of a task, all docs of the first filter first, as that harness orders them."""
    return _by_filter(partial(sample_rows, run, task))


def _by_filter(rows: Callable[..., Iterator[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys(row["filter"] for row in rows(columns=["filter"])):
        for row in rows():
            if row["filter"] == name:
                yield sample_object(row)


def sample_object(row: dict[str, Any]) -> dict[str, Any]:
    arguments = unpack_arguments(row["arguments"])
    doc = json.loads(row["doc"])
    metrics = numbers_of(row) | (json.loads(row["other"]) if row["other"] else {})
    target = json.loads(row["target"])
    return {
        "doc_id": row["doc_id"],
        "doc": doc,
        "target": target if isinstance(target, str) else str(target),
        "arguments": {
            f"gen_args_{i}": {f"arg_{j}": part for j, part in enumerate(request)} for i, request in enumerate(arguments)
        },
        "resps": json.loads(row["resps"]),
        "filtered_resps": json.loads(row["filtered_resps"]),
        "filter": row["filter"],
        "metrics": list(metrics),
        "doc_hash": _sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _sha(str(arguments[0][0])) if arguments else "",
        "target_hash": _sha(str(target)),
        **came_with(row),
        **metrics,
    }


def came_with(row: Mapping[str, Any]) -> dict[str, Any]:
    """Reasoning, tool calls, refusals and whatever else came with the answers, with their token counts, if there is any."""
    if not row.get("extras"):
        return {}
    return {name: json.loads(row[name]) if row.get(name) else None for name in ("extras", "tokens")}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
