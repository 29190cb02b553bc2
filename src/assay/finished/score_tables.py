"""Runs from a plain table of scores: a CSV, Parquet or JSON lines file, or arrays in an npz file.

Three forms, told apart by the names of the columns:

- long: a row for each run and doc, with `run`, `doc` and `score`;
- wide: a row for each doc, with `doc` and one column of scores a run;
- arrays: `scores` [runs, docs], `runs` and `docs`.

Each may also have `task` and `cluster`, and the long form `draw`: several rows of one run and doc are then draws of it, whose
mean is its score, with pass@k and pass^k beside it where they are right or wrong. An empty cell, NaN, and 255 among bytes are a score that is missing.
`options` (how many answers a doc offers), `gold` (the published one) and, in the long form, `answer` (the given one) are for suspects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError, DataError
from assay.finished.formats import RunFormat
from assay.finished.run import AnsweredDoc, Columns, DocColumn, Keys, Run, run_of_docs
from assay.finished.trials import Trial, metrics_of
from assay.results import MetricKey
from assay.stats import cluster_key, doc_keys, is_missing_label

FORMS = (".csv", ".parquet", ".jsonl", ".npz")

_NAMES = {
    "run": ("run", "runs", "model", "models"),
    "doc": ("doc", "docs", "doc_id", "question_id", "id"),
    "score": ("score", "scores", "value", "right", "correct"),
    "task": ("task", "tasks"),
    "cluster": ("cluster", "clusters"),
    "draw": ("draw", "draws", "epoch", "trial", "sample"),
    "options": ("options", "n_options"),
    "gold": ("gold", "target"),
    "answer": ("answer", "answers", "response"),
}
KEY = MetricKey("score", "none")


def read_table(path: Path) -> Run:
    """The only run of a table."""
    runs = read_tables(path)
    if len(runs) > 1:
        names = ", ".join(run.result.model_name for run in runs[:5])
        raise ConfigError(
            f"{path} has {len(runs)} runs: {names}{', …' if len(runs) > 5 else ''}",
            hint="`assay rank` takes all of them; elsewhere use a table of one run.",
        )
    return runs[0]


def read_tables(file: Path) -> list[Run]:
    """All runs of a table."""
    columns = _arrays(file) if file.suffix.lower() == ".npz" else _columns(file)
    named = {word: next((columns[name] for name in names if name in columns), None) for word, names in _NAMES.items()}
    if named["doc"] is None:
        raise _unknown_form(file, columns)
    if len(named["doc"]) == 0:
        raise DataError(f"{file}: a table without rows", hint="Expected a row for each doc.")
    scores = named["score"]
    if scores is not None and scores.ndim == 2 and named["run"] is not None:
        table = {str(run): row for run, row in zip(named["run"].tolist(), scores, strict=True)}
        return _runs(file, table, named)
    if scores is not None and named["run"] is not None:
        return _of_long(file, named)
    known = {name for names in _NAMES.values() for name in names}
    table = {name: column for name, column in columns.items() if name not in known and column.dtype.kind in "biuf"}
    if len(table) < 2:
        raise _unknown_form(file, columns)
    return _runs(file, table, named)


Named = Mapping[str, NDArray[Any] | None]
"""A table's columns by our names; None for those that it does not have."""


def _of_long(file: Path, named: Named) -> list[Run]:
    run_names = named["run"]
    assert run_names is not None
    runs = []
    for run in dict.fromkeys(run_names.tolist()):
        rows = np.flatnonzero(run_names == run)
        of_run = {word: None if column is None else column[rows] for word, column in named.items()}
        scores = of_run["score"]
        assert scores is not None
        if named["draw"] is None:
            runs += _runs(file, {str(run): scores}, of_run)
        else:
            runs.append(_of_draws(file, str(run), _values(file, str(run), scores), of_run))
    return runs


def _of_draws(file: Path, run: str, values: NDArray[np.float64], named: Named) -> Run:
    """One run whose docs have several rows each."""
    docs, tasks, clusters = named["doc"], named["task"], named["cluster"]
    assert docs is not None
    names = [file.stem] * len(docs) if tasks is None else tasks.astype(str).tolist()
    labels = [None] * len(docs) if clusters is None else clusters.tolist()
    trials: dict[str, dict[Any, list[Trial]]] = {}
    groups: dict[tuple[str, Any], Any] = {}
    first: dict[tuple[str, Any], int] = {}
    for row, (name, doc, label, value) in enumerate(zip(names, docs.tolist(), labels, values.tolist(), strict=True)):
        trials.setdefault(name, {}).setdefault(doc, []).append(Trial({KEY.metric: value}))
        groups.setdefault((name, doc), label)
        first.setdefault((name, doc), row)

    def answered(task: str, ids: Sequence[int] | None) -> Iterator[AnsweredDoc]:
        for number, (doc, of_doc) in enumerate(trials[task].items()):
            label, [key] = groups[task, doc], doc_keys([f"{task}\0{doc}"])
            yield AnsweredDoc(
                doc_id=number,
                doc_hash=f"{int(key):016x}",
                **_said(named, first[task, doc]),
                metrics=metrics_of(of_doc),
                cluster=None if is_missing_label(label) else str(label),
                draws=len(of_doc),
            )

    lacks = {name: why for name, why in LACKS.items() if name != "draws"}
    return run_of_docs(list(trials), answered, path=file, model=run, origin="table", lacks=lacks)


def _runs(file: Path, table: Mapping[str, NDArray[Any]], named: Named) -> list[Run]:
    docs, tasks, clusters = named["doc"], named["task"], named["cluster"]
    assert docs is not None
    names = np.full(len(docs), file.stem) if tasks is None else tasks.astype(str)
    keys = doc_keys(f"{task}\0{doc}" for task, doc in zip(names.tolist(), docs.tolist(), strict=True))
    groups = None if clusters is None else _cluster_keys(clusters, keys)
    runs = []
    for run, scores in table.items():
        values = _values(file, run, scores)
        if len(values) != len(docs):
            raise DataError(
                f"{file}: {len(values):,} scores of {run} for {len(docs):,} docs", hint="The numbers must match."
            )
        columns: dict[str, Columns] = {}
        for task in dict.fromkeys(names.tolist()):
            at = np.flatnonzero(names == task)
            of_task = None if groups is None else groups[at]
            columns[task] = {KEY: DocColumn(KEY, keys[at], None, values[at], at, of_task)}
        runs.append(
            run_of_docs(
                list(columns),
                partial(_docs, columns, named),
                path=file,
                model=run,
                origin="table",
                read_columns=columns.__getitem__,
                lacks=LACKS,
            )
        )
    return runs


def _docs(columns: Mapping[str, Columns], named: Named, task: str, ids: Sequence[int] | None) -> Iterator[AnsweredDoc]:
    """Docs of which little is known but their name and their score."""
    column = columns[task][KEY]
    for place, doc_id in enumerate(column.doc_ids.tolist()):
        score = float(column.values[place])
        yield AnsweredDoc(
            doc_id=doc_id,
            doc_hash=f"{int(column.docs[place]):016x}",
            **_said(named, doc_id),
            metrics={KEY.metric: None if np.isnan(score) else score},
            cluster=None if column.clusters is None else f"{int(column.clusters[place]):016x}",
        )


def _said(named: Named, row: int) -> dict[str, Any]:
    """What a row says of its doc beside the score."""
    cells = {word: None if (column := named[word]) is None else column[row] for word in _SAID}
    known = {word: str(cell) for word, cell in cells.items() if not is_missing_label(cell)}
    options = {"options": int(float(known["options"]))} if "options" in known else {}
    return {
        "doc": {"doc": known.get("doc", ""), **options},
        "target": known.get("gold"),
        "filtered": known.get("answer"),
    }


_SAID = ("doc", "options", "gold", "answer")


def _cluster_keys(clusters: NDArray[Any], docs: Keys) -> Keys:
    """A doc without a label stands alone."""
    pairs = zip(clusters.tolist(), docs, strict=True)
    return np.array(
        [doc if is_missing_label(label) else cluster_key("cluster", label) for label, doc in pairs], dtype=np.uint64
    )


def _values(file: Path, run: str, scores: NDArray[Any]) -> NDArray[np.float64]:
    if scores.dtype.kind not in "biuf":
        raise DataError(
            f"{file}: scores of {run} are {scores.dtype}, not numbers",
            hint="Leave a cell empty if there is no score.",
        )
    values = scores.astype(np.float64)
    return np.where(scores == 255, np.nan, values) if scores.dtype == np.uint8 else values


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays.files}
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}", hint="Expected arrays written by numpy.savez.") from error


def _columns(file: Path) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet as pq

    read = {".parquet": pq.read_table, ".jsonl": pyarrow.json.read_json}.get(file.suffix.lower(), pyarrow.csv.read_csv)
    try:
        table = read(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{file} cannot be read: {error}", hint="The file is cut off, damaged, or not a table."
        ) from error
    return {name: np.asarray(table.column(name).to_numpy()) for name in table.column_names}


def _unknown_form(file: Path, columns: Sequence[str] | Mapping[str, Any]) -> DataError:
    return DataError(
        f"{file}: not a table of scores; its columns are {', '.join(columns)}",
        hint="Expected run, doc and score, with draw where a doc has several; or doc and a column of numbers for each run; or, in an npz file, runs, docs and scores.",
    )


WHY = "A table has scores alone."
LACKS = {**dict.fromkeys(("prompts", "answers", "draws"), WHY), "groups": "A table has no groups of tasks."}
FORMAT = RunFormat(
    files="a .csv, .parquet, .jsonl or .npz file with run, doc and score",
    finds=lambda path: path.is_file() and path.suffix.lower() in FORMS,
    read=read_table,
    read_all=read_tables,
    lacks=LACKS,
    is_general=True,
)
