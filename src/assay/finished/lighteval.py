"""Details of lighteval: one Parquet file a task, `details_<task>_<date>.parquet`.

Columns are `doc`, `metric` and `model_response`; up to 0.12 they were written with two underscores on each side. Older
files still have `metrics`, `full_prompt` and `example`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from assay.errors import DataError
from assay.finished.formats import RunFormat
from assay.finished.run import AnsweredDoc, Run, SentRequest, run_of_docs, timestamp
from assay.instance import Message

_FILE = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\d.*)\.parquet")


def find_details(path: Path) -> dict[str, Path]:
    """The newest details of each task at or below a path."""
    files = [path] if path.is_file() else path.rglob("details_*.parquet")
    newest: dict[str, tuple[str, Path]] = {}
    for file in files:
        if (match := _FILE.fullmatch(file.name)) and file.is_file():
            task, date = match["task"], match["date"]
            if task not in newest or date > newest[task][0]:
                newest[task] = (date, file)
    return {task: file for task, (_, file) in sorted(newest.items())}


def read_lighteval(path: Path) -> Run:
    files = find_details(path)
    return run_of_docs(
        list(files),
        lambda task, ids: (_answered(files[task], number, row) for number, row in enumerate(_rows(files[task]))),
        path=path,
        model=_model(next(iter(files.values()))),
        date=max(timestamp(match["date"]) for file in files.values() if (match := _FILE.fullmatch(file.name))),
        origin="lighteval",
        lacks=LACKS,
    )


def _model(file: Path) -> str:
    """details/<organisation>/<model>/<date>/details_….parquet"""
    parts = file.parent.parts
    return "/".join(parts[parts.index("details") + 1 : -1]) if "details" in parts else ""


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=1024):
            yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} cannot be read: {error}", hint="The file is cut off or damaged.") from error


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


def _answered(file: Path, number: int, row: dict[str, Any]) -> AnsweredDoc:
    """What details tell of a doc: its prompt, where they have it, the answers and the metrics."""
    metrics = _part(row, "metric", "metrics")
    if not isinstance(metrics, dict):
        raise DataError(
            f"{file}, row {number}: no metrics; the columns are {', '.join(row)}",
            hint="Expected details of lighteval: doc, metric and model_response.",
        )
    doc, response = _part(row, "doc"), _part(row, "model_response")
    about: dict[str, Any] = doc if isinstance(doc, dict) else {}
    said: dict[str, Any] = response if isinstance(response, dict) else {}
    text = _doc_text(about) if about else str(row.get("example") or row.get("full_prompt") or number)
    prompt = said.get("input") if isinstance(response, dict) else row.get("full_prompt")
    sent = prompt if prompt is not None else about.get("query")
    texts = said.get("text") or row.get("predictions") or []
    answers = said.get("logprobs") or (texts if isinstance(texts, list) else [texts])
    gold, choices = about.get("gold_index"), about.get("choices") or []
    return AnsweredDoc(
        doc_id=number,
        doc_hash=_sha(text),
        doc=about,
        target=choices[gold] if isinstance(gold, int) and 0 <= gold < len(choices) else gold,
        requests=(SentRequest(_messages(sent or row.get("full_prompt")), settings=_settings(about)),),
        responses=(tuple(answers),),
        filtered=said.get("text_post_processed") or texts,
        request_hash=None if sent is None else _sha(_json(sent)),
        metrics={name: value for name, value in metrics.items() if value is not None},
    )


def _doc_text(doc: dict[str, Any]) -> str:
    """What makes the doc what it is: not its id, and not what was measured."""
    return _json([doc.get(name) for name in ("query", "choices", "gold_index")])


def _settings(doc: Mapping[str, Any]) -> dict[str, Any]:
    settings = dict(doc.get("generation_parameters") or {})
    if (stops := doc.get("stop_sequences")) is not None:
        settings["until"] = list(stops)
    if (size := doc.get("generation_size")) is not None:
        settings["max_gen_toks"] = size
    return settings


def _messages(prompt: Any) -> str | tuple[Message, ...] | None:
    """A chat is a list of turns."""
    if isinstance(prompt, list) and all(isinstance(turn, dict) and "role" in turn for turn in prompt):
        return tuple(Message(str(turn["role"]), str(turn.get("content") or "")) for turn in prompt)
    return None if prompt is None else prompt if isinstance(prompt, str) else _json(prompt)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _sha(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _details_in(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """The folder of one run has a file for each task."""
    if any(_FILE.fullmatch(name) for name in names):
        yield folder


LACKS = {"groups": "The details of lighteval have no groups."}
FORMAT = RunFormat(
    files="details_*.parquet",
    finds=lambda path: bool(find_details(path)),
    read=read_lighteval,
    lacks=LACKS,
    places=_details_in,
)
