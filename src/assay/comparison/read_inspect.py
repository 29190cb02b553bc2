"""`.eval` logs of inspect: a zip with `header.json` and `samples/<id>_epoch_<n>.json`.

Epochs of a sample are one doc: its score is their mean. Grades count as C = 1, P = ½, I = N = 0; a score that is not a
number (an unscored sample) is missing, not zero.
"""

from __future__ import annotations

import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.comparison.collect import Collector, reported_means
from assay.comparison.views import RunView
from assay.errors import DataError

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def find_logs(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.rglob("*.eval"))
    return [file for file in files if file.suffix == ".eval"]


def read_inspect(files: list[Path], path: Path) -> RunView:
    """One log is one task; the newest log of each task counts."""
    headers = {file: _header(file) for file in files}
    by_task: dict[str, Path] = {}
    for file in sorted(files, key=lambda f: str(headers[f]["eval"].get("created", ""))):
        by_task[str(headers[file]["eval"].get("task") or file.stem)] = file
    columns = {task: _collect(file).columns() for task, file in by_task.items()}
    first = headers[next(iter(by_task.values()))]["eval"]
    return RunView(
        path=path,
        model=str(first.get("model", "")),
        format="inspect",
        tasks=tuple(by_task),
        read=lambda task: columns[task],
        reported={task: reported_means(found) for task, found in columns.items()},
        tree=tuple((0, task) for task in by_task),
        show_docs=lambda task, ids: _docs(by_task[task], ids),
    )


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
        found = json.loads(archive.read(name))
    except (ValueError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise DataError(f"{file}, {name}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(found, dict):
        raise DataError(f"{file}, {name}: not an object")
    return found


def _samples(file: Path) -> Iterator[dict[str, Any]]:
    with _open(file) as archive:
        for name in sorted(n for n in archive.namelist() if n.startswith("samples/") and n.endswith(".json")):
            yield _load(archive, name, file)


def _by_doc(file: Path) -> list[list[dict[str, Any]]]:
    epochs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for sample in _samples(file):
        kept = {k: sample.get(k) for k in ("id", "input", "choices", "target", "scores", "messages", "output")}
        epochs[str(sample.get("id"))].append(kept)
    return list(epochs.values())


def _collect(file: Path) -> Collector:
    found = Collector()
    for number, epochs in enumerate(_by_doc(file)):
        first = epochs[0]
        doc = _sha([first["input"], first["choices"], first["target"]])
        scores = found.row(doc, _prompt(first), number)
        values: dict[str, list[float]] = defaultdict(list)
        for sample in epochs:
            for name, value in _scores(sample):
                if value == value:
                    values[name].append(value)
        scores.update({name: sum(found) / len(found) for name, found in values.items()})
    return found


def _prompt(sample: dict[str, Any]) -> str | None:
    """Hash of the messages up to the first answer."""
    messages = sample["messages"]
    if not messages:
        return None
    asked = []
    for message in messages:
        if message.get("role") == "assistant":
            break
        asked.append([message.get("role"), message.get("content")])
    return _sha(asked)


def _scores(sample: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for scorer, score in (sample["scores"] or {}).items():
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


def _docs(file: Path, doc_ids: NDArray[np.int64]) -> list[dict[str, Any]]:
    docs = _by_doc(file)
    shown = []
    for i in doc_ids.tolist():
        sample = docs[i][0]
        output = (sample["output"] or {}).get("completion") or ((sample["output"] or {}).get("choices") or [{}])[0]
        shown.append({"doc_id": i, "doc": _json(sample["input"]), "target": _json(sample["target"]), "filtered_resps": _json(output)})  # fmt: skip
    return shown


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _sha(value: Any) -> str:
    return sha256(_json(value).encode("utf-8", "surrogatepass")).hexdigest()
