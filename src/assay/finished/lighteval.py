"""Details of lighteval: one Parquet file a task, `details_<task>_<date>.parquet`.

Columns are `doc`, `metric` and `model_response`; up to 0.12 they were written with two underscores on each side. Older
files still have `metrics`, `full_prompt` and `example`.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import DataError
from assay.finished.run import AskedDoc, AskedRequest, ColumnBuilder, Columns, Run, RunReader, run_of_columns
from assay.instance import Message

_FILE = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\d.*)\.parquet")


def find_details(path: Path) -> dict[str, Path]:
    """The newest details of each task at or below a path."""
    files = [path] if path.is_file() else path.rglob("details_*.parquet")
    newest: dict[str, tuple[str, Path]] = {}
    for file in files:
        if match := _FILE.fullmatch(file.name):
            task, date = match["task"], match["date"]
            if task not in newest or date > newest[task][0]:
                newest[task] = (date, file)
    return {task: file for task, (_, file) in sorted(newest.items())}


def read_lighteval(path: Path) -> Run:
    files = find_details(path)
    return run_of_columns(
        {task: _columns(file) for task, file in files.items()},
        path=path,
        model=_model(next(iter(files.values()))),
        origin="lighteval",
        show_docs=lambda task, ids, _: _docs(files[task], ids),
        asked=lambda task, _: [_asked(number, row) for number, row in enumerate(_rows(files[task]))],
    )


READER = RunReader(lambda path: bool(find_details(path)), read_lighteval)


def _model(file: Path) -> str:
    """details/<organisation>/<model>/<date>/details_….parquet"""
    parts = file.parent.parts
    return "/".join(parts[parts.index("details") + 1 : -1]) if "details" in parts else ""


def _rows(file: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} cannot be read: {error}", hint="The file is cut off or damaged.") from error
    return rows


def _part(row: dict[str, Any], *names: str) -> Any:
    """A part of a row under any of its names; some versions hold it as JSON text."""
    for name in names:
        for spelled in (name, f"__{name}__"):
            if row.get(spelled) is not None:
                value = row[spelled]
                if isinstance(value, str) and value[:1] in "{[":
                    try:
                        return json.loads(value)
                    except ValueError:
                        return value
                return value
    return None


def _columns(file: Path) -> Columns:
    builder = ColumnBuilder()
    for number, row in enumerate(_rows(file)):
        metrics = _part(row, "metric", "metrics")
        if not isinstance(metrics, dict):
            raise DataError(
                f"{file}, row {number}: no metrics; the columns are {', '.join(row)}",
                hint="Expected details of lighteval: doc, metric and model_response.",
            )
        doc, response = _part(row, "doc"), _part(row, "model_response")
        text = _doc_text(doc) if isinstance(doc, dict) else str(row.get("example") or row.get("full_prompt") or number)
        prompt = response.get("input") if isinstance(response, dict) else row.get("full_prompt")
        asked = prompt if prompt is not None else doc.get("query") if isinstance(doc, dict) else None
        scores = builder.row(_sha(text), None if asked is None else _sha(_json(asked)), number)
        scores.update({name: value for name, value in metrics.items() if value is not None})
    return builder.columns()


def _doc_text(doc: dict[str, Any]) -> str:
    """What makes the doc what it is: not its id, and not what was measured."""
    return _json([doc.get(name) for name in ("query", "choices", "gold_index")])


def _docs(file: Path, doc_ids: NDArray[np.int64]) -> list[dict[str, Any]]:
    rows = _rows(file)
    shown = []
    for i in doc_ids.tolist():
        response = _part(rows[i], "model_response")
        answer = response.get("text") if isinstance(response, dict) else rows[i].get("predictions")
        shown.append({"doc_id": i, "doc": _json(_part(rows[i], "doc")), "filtered_resps": _json(answer)})
    return shown


def _asked(number: int, row: dict[str, Any]) -> AskedDoc:
    """What details tell of a request: its prompt, where it is kept, and the answers."""
    doc, response = _part(row, "doc"), _part(row, "model_response")
    about: dict[str, Any] = doc if isinstance(doc, dict) else {}
    said: dict[str, Any] = response if isinstance(response, dict) else {}
    prompt = said.get("input") or row.get("full_prompt") or about.get("query")
    settings = about.get("generation_parameters") or {}
    stops = about.get("stop_sequences")
    if stops is not None:
        settings = {**settings, "until": list(stops)}
    size = about.get("generation_size")
    if size is not None:
        settings = {**settings, "max_gen_toks": size}
    texts = said.get("text") or row.get("predictions") or []
    likelihoods = said.get("logprobs") or []
    answers = tuple(likelihoods) if likelihoods else tuple(texts if isinstance(texts, list) else [texts])
    gold, choices = about.get("gold_index"), about.get("choices") or []
    target = choices[gold] if isinstance(gold, int) and 0 <= gold < len(choices) else gold
    asked = AskedRequest(_messages(prompt), settings=settings)
    final = said.get("text_post_processed") or texts
    return AskedDoc(number, {"query": about.get("query")}, target, (asked,), (answers,), final)


def _messages(prompt: Any) -> str | tuple[Message, ...] | None:
    """A chat is a list of turns."""
    if isinstance(prompt, list) and all(isinstance(turn, dict) and "role" in turn for turn in prompt):
        return tuple(Message(str(turn["role"]), str(turn.get("content") or "")) for turn in prompt)
    return None if prompt is None else prompt if isinstance(prompt, str) else _json(prompt)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _sha(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
