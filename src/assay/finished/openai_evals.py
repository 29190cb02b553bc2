"""Logs of OpenAI's evals: JSON lines that begin with the run's `spec`; then events, each of a sample, in the order in which they
happened.

A sample is a doc. `match` events give its accuracy, several of them several draws; `metrics` events give the numbers that they
name. A sample with an error and neither of these is a failed request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assay.finished.formats import RunFormat
from assay.finished.run import AnsweredDoc, Run, SentRequest, only_run, run_of_docs, timestamp
from assay.finished.trials import Trial, doc_of_trials, json_object, json_text, rows_by_doc
from assay.instance import Message
from assay.paths import beginning

_LONGEST = 16 << 20
"""Bytes of the first line."""


def find_logs(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.rglob("*.jsonl"))
    return [file for file in files if file.suffix == ".jsonl" and _begins_with_spec(file)]


def _begins_with_spec(file: Path) -> bool:
    start = beginning(file, 256)
    return start.startswith(b'{"spec": {') and b'"completion_fns"' in start


def read_logs(path: Path) -> list[Run]:
    """A run for each model; of two logs of one eval the newer counts."""
    models: dict[str, list[tuple[str, str, Path]]] = defaultdict(list)
    for file in find_logs(path):
        with file.open("rb") as opened:
            spec = json_object(opened.readline(_LONGEST), f"{file}, line 1")["spec"]
        model = ", ".join(map(str, spec["completion_fns"]))
        models[model].append((str(spec.get("created_at", "")), str(spec.get("base_eval") or spec["eval_name"]), file))
    runs = []
    for model, logs in sorted(models.items()):
        files = {task: file for _, task, file in sorted(logs)}
        date = timestamp(max(logs)[0].replace(" ", "T"))
        read = partial(_answered, files)
        runs.append(
            run_of_docs(list(files), read, path=path, model=model, date=date, origin="openai-evals", lacks=LACKS)
        )
    return runs


def _answered(files: Mapping[str, Path], task: str, ids: Sequence[int] | None) -> Iterator[AnsweredDoc]:
    def doc_of(row: Mapping[str, Any]) -> tuple[int, str] | None:
        """Samples end in their number."""
        name = row.get("sample_id")
        last = str(name).rpartition(".")[2]
        return None if name is None else (int(last) if last.isdigit() else 0, str(name))

    for number, events in enumerate(rows_by_doc(files[task], doc_of, lambda doc: doc is not None)):
        yield _doc(number, events)


def _doc(number: int, events: Sequence[Mapping[str, Any]]) -> AnsweredDoc:
    data = {kind: [event["data"] for event in events if event["type"] == kind] for kind in KINDS}
    sampled, matches, metrics, errors = (data[kind] for kind in KINDS)
    prompt = sampled[0]["prompt"] if sampled else None
    target = next((match["expected"] for match in matches if "expected" in match), None)
    numbers = {
        name: float(value) for each in metrics for name, value in each.items() if isinstance(value, bool | int | float)
    }
    scores = [{"accuracy": float(bool(match["correct"]))} | numbers for match in matches] or (
        [numbers] if numbers else []
    )
    failure = None
    if not scores:
        failure = f"error: {errors[0].get('message') or errors[0]}" if errors else "error: the sample was not scored"
    turns = _turns(prompt)
    answers = [each["sampled"] for each in sampled]
    texts = [answer[0] if isinstance(answer, list) and len(answer) == 1 else answer for answer in answers]
    usages = [each["usage"]["total_tokens"] for each in sampled if (each.get("usage") or {}).get("total_tokens")]
    spent = {"tokens": sum(usages) / max(1, len(scores)), "steps": len(sampled) / max(1, len(scores))} if usages else {}
    said = (*turns, *(Message("assistant", json_text(text)) for text in texts))
    return doc_of_trials(
        number,
        [
            Trial(score, texts[min(place, len(texts) - 1)] if texts else None, failure, said, spent)
            for place, score in enumerate(scores or [{}])
        ],
        doc={"id": events[0]["sample_id"], "prompt": prompt},
        content=[prompt, target] if prompt is not None else events[0]["sample_id"],
        request=SentRequest(turns or json_text(prompt)),
        sent=prompt,
        target=target,
    )


KINDS = ("sampling", "match", "metrics", "error")


def _turns(prompt: Any) -> tuple[Message, ...]:
    """A chat is a list of turns."""
    is_chat = isinstance(prompt, list) and all(isinstance(turn, Mapping) and "role" in turn for turn in prompt)
    return tuple(Message(str(turn["role"]), json_text(turn.get("content") or "")) for turn in prompt) if is_chat else ()


LACKS = {"groups": "OpenAI's evals have no groups of tasks in their logs."}
FORMAT = RunFormat(
    files="*.jsonl whose first line has the spec",
    finds=lambda path: bool(find_logs(path)),
    read=lambda path: only_run(read_logs(path), path, "models"),
    read_all=read_logs,
    lacks=LACKS,
    places=lambda folder, names: (
        folder / name for name in names if name.endswith(".jsonl") and _begins_with_spec(folder / name)
    ),
)
