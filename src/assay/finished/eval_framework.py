"""Outputs of eval-framework: a folder with `metadata.json`, `output.jsonl` (a line for each response) and `results.jsonl` (a line
for each response and metric).

Repeats of a sample are draws of one doc; each subject of a task with several is a task. A response or a metric that ended in an
error is a failed request; eval-framework's numbers "including Errors" count it as 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assay.errors import DataError
from assay.finished.formats import RunFormat
from assay.finished.run import AnsweredDoc, Run, SentRequest, only_run, run_of_docs, timestamp
from assay.finished.trials import Trial, doc_of_trials, json_lines, json_object, rows_by_doc
from assay.instance import Message

ABOUT, RESPONSES, RESULTS = "metadata.json", "output.jsonl", "results.jsonl"
_NO_SUBJECT = "no_subject"


def find_outputs(path: Path) -> list[Path]:
    """Folders of one task each, at a path or below it."""
    found = sorted(file.parent for file in path.rglob(RESPONSES)) if path.is_dir() else []
    return [folder for folder in found if all((folder / name).is_file() for name in (ABOUT, RESPONSES, RESULTS))]


def read_outputs(path: Path) -> list[Run]:
    """A run for each model; of two outputs of one task the newer counts."""
    models: dict[str, list[tuple[str, Path, Mapping[str, Any]]]] = defaultdict(list)
    for folder in find_outputs(path):
        about = json_object((folder / ABOUT).read_bytes(), str(folder / ABOUT))
        models[str(about["llm_name"])].append((str(about.get("start_time", "")), folder, about))
    runs = []
    for model, outputs in sorted(models.items()):
        tasks: dict[str, tuple[Path, str, int]] = {}
        outputs.sort(key=lambda each: each[0])
        for _, folder, told in outputs:
            subjects = (told.get("task_metadata") or {}).get("subjects") or [_NO_SUBJECT]
            for subject in map(str, subjects):
                name = str(told["task_name"]) + ("" if subject == _NO_SUBJECT else f"/{subject}")
                tasks[name] = (folder, subject, int(told.get("repeats") or 1))
        date = timestamp(outputs[-1][0].replace(" ", "T"))
        read = partial(_answered, tasks)
        runs.append(
            run_of_docs(list(tasks), read, path=path, model=model, date=date, origin="eval-framework", lacks=LACKS)
        )
    return runs


def _answered(
    tasks: Mapping[str, tuple[Path, str, int]], task: str, ids: Sequence[int] | None
) -> Iterator[AnsweredDoc]:
    folder, subject, repeats = tasks[task]
    scores, failures = _values(folder, subject)

    def doc_of(row: Mapping[str, Any]) -> tuple[str, int]:
        return str(row["subject"]), int(row["id"]) // repeats

    for rows in rows_by_doc(folder / RESPONSES, doc_of, lambda doc: doc[0] == subject):
        first = rows[0]
        likely = first.get("loglikelihoods")
        yield doc_of_trials(
            int(first["id"]) // repeats,
            [_trial(row, scores, failures) for row in sorted(rows, key=lambda row: int(row["id"]))],
            doc={"prompt": first["prompt"], **({"choices": list(likely)} if likely else {})},
            content=[first["prompt"], first.get("ground_truth"), list(likely or ())],
            request=SentRequest(str(first["prompt"])),
            sent=first["prompt"],
            target=first.get("ground_truth"),
            filtered=None if likely else [row.get("completion") for row in rows],
        )


Scores = dict[str, dict[int, float]]


def _values(folder: Path, subject: str) -> tuple[Scores, dict[int, str]]:
    """Metrics of the task by response; what the framework counts along (bytes, tokens, why generation ended) is none."""
    about = json_object((folder / ABOUT).read_bytes(), str(folder / ABOUT))
    wanted = {str(name) for name in about.get("metrics") or ()}
    scores: Scores = defaultdict(dict)
    failures: dict[int, str] = {}
    for row in json_lines(folder / RESULTS):
        if row["subject"] != subject or str(row["metric_name"]) not in wanted:
            continue
        name = str(row["metric_name"]) + (f"/{row['key']}" if row.get("key") else "")
        if (error := row.get("error")) is not None:
            failures[int(row["id"])] = f"error: {error['error_class']}: {error['message']}"
        elif row["value"] is not None:
            scores[name][int(row["id"])] = float(row["value"])
    if not scores and not failures:
        raise DataError(f"{folder / RESULTS} has no metric of {folder}", hint="Expected what eval-framework writes.")
    return scores, failures


def _trial(row: Mapping[str, Any], scores: Scores, failures: Mapping[int, str]) -> Trial:
    number, error = int(row["id"]), row.get("error")
    failure = failures.get(number) if error is None else f"error: {error['error_class']}: {error['message']}"
    counts = [row.get("prompt_num_tokens"), row.get("raw_completion_num_tokens")]
    said = [turn for turn in row.get("messages") or () if turn.get("role")]
    return Trial(
        scores={name: values[number] for name, values in scores.items() if number in values},
        answer=row.get("raw_completion") if row.get("loglikelihoods") is None else row["loglikelihoods"],
        failure=failure,
        conversation=tuple(Message(str(turn["role"]), str(turn.get("content") or "")) for turn in said),
        spent={} if None in counts else {"tokens": float(sum(map(int, counts)))},  # type: ignore[arg-type]
    )


LACKS = {"groups": "The outputs of eval-framework have no groups; subjects of a task are tasks here."}
FORMAT = RunFormat(
    files="metadata.json with output.jsonl and results.jsonl",
    finds=lambda path: bool(find_outputs(path)),
    read=lambda path: only_run(read_outputs(path), path, "models"),
    read_all=read_outputs,
    lacks=LACKS,
    places=lambda folder, names: iter([folder] if {ABOUT, RESPONSES, RESULTS} <= set(names) else []),
)
