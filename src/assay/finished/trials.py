"""Several draws of one doc (epochs, rollouts, trials), put together: docs stay the units, and what failed is never wrong."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from assay.errors import DataError
from assay.finished.run import AnsweredDoc, PerSolved, SentRequest
from assay.instance import Message
from assay.metrics import is_right_or_wrong, ks_for, pass_at_k, pass_hat_k
from assay.results import TOOK


@dataclass(frozen=True)
class Trial:
    """One draw. One that broke off, by an error or a limit, has a `failure` and no scores that count."""

    scores: Mapping[str, float] = field(default_factory=dict)
    answer: Any = None
    failure: str | None = None
    conversation: tuple[Message, ...] = ()
    spent: Mapping[str, float] = field(default_factory=dict)
    """What it took: tokens, cost, seconds, steps, as far as the log says."""


def metrics_of(trials: Sequence[Trial]) -> dict[str, Any]:
    """The means over the trials that count; with several that are right or wrong, pass@k (some of k is right) and pass^k
    (all of k are right) beside them. Where the first score is right or wrong, what a trial took stands beside the share
    that were right: docs add both up, and their ratio is what a solved doc takes.

    >>> metrics_of([Trial({"match": 1.0}, spent={"steps": 3}), Trial({"match": 0.0}, spent={"steps": 5}), Trial(failure="gone")])
    {'match': 0.5, 'pass@2(match)': 1.0, 'pass^2(match)': 0.0, 'steps/solved': PerSolved(spent=4.0, solved=0.5)}
    """
    if len(trials) == 1:
        return _metrics_of_one(trials[0])
    counted = [trial for trial in trials if trial.failure is None]
    values: dict[str, list[float]] = defaultdict(list)
    for trial in counted:
        for name, value in trial.scores.items():
            if value == value:
                values[name].append(value)
    metrics: dict[str, Any] = {name: sum(drawn) / len(drawn) for name, drawn in values.items()}
    for name, drawn in values.items() if len(counted) > 1 else ():
        if len(drawn) > 1 and all(map(is_right_or_wrong, drawn)):
            for k in ks_for(len(drawn)):
                if k > 1:
                    metrics[f"pass@{k}({name})"] = pass_at_k(drawn, k) or 0.0
                    metrics[f"pass^{k}({name})"] = pass_hat_k(drawn, k) or 0.0
    first = next(iter(values), None)
    if first is not None and all(map(is_right_or_wrong, values[first])):
        for kind in SPENT:
            if all(kind in trial.spent for trial in counted):
                spent = [trial.spent[kind] for trial in counted]
                metrics[f"{kind}/solved"] = PerSolved(sum(spent) / len(spent), metrics[first])
    return metrics


def _metrics_of_one(trial: Trial) -> dict[str, Any]:
    """The same, most often: of a doc with one trial."""
    if trial.failure is not None:
        return {}
    metrics: dict[str, Any] = {name: float(value) for name, value in trial.scores.items() if value == value}
    first = next(iter(metrics.values()), 0.5)
    if is_right_or_wrong(first):
        metrics |= {f"{kind}/solved": PerSolved(trial.spent[kind], first) for kind in SPENT if kind in trial.spent}
    return metrics


SPENT = ("cost", "tokens", "seconds", "steps")


def doc_of_trials(
    doc_id: int,
    trials: Sequence[Trial],
    *,
    doc: Mapping[str, Any],
    content: Any,
    request: SentRequest,
    sent: Any,
    target: Any = None,
    filtered: Any = None,
    cluster: str | None = None,
) -> AnsweredDoc:
    """A doc by its draws. `content` is what makes it the same doc in another run, `sent` what makes its prompt the same;
    None where the format has no prompts."""
    broken = tuple(trial.failure for trial in trials if trial.failure is not None)
    return AnsweredDoc(
        doc_id=doc_id,
        doc_hash=content_hash(content),
        doc=doc,
        target=target,
        requests=(request,),
        responses=(tuple(trial.answer for trial in trials),),
        filtered=[trial.answer for trial in trials] if filtered is None else filtered,
        request_hash=None if sent is None else content_hash(sent),
        metrics=metrics_of(trials),
        cluster=cluster,
        failure=broken[0] if len(broken) == len(trials) else None,
        conversations=tuple(trial.conversation for trial in trials),
        broken_off=broken,
        draws=len(trials),
    )


def content_of(value: Any) -> str | tuple[Any, ...]:
    """The content of a message: text, or parts, which keep their images; anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, Mapping) and "type" in part for part in value):
        return tuple(value)
    return json_text(value)


def took(**spent: float | None) -> dict[str, Any]:
    """For `Message.more`: the tokens and seconds of one message.

    >>> took(tokens=5, seconds=None), took(tokens=None)
    ({'took': {'tokens': 5}}, {})
    """
    known = {name: value for name, value in spent.items() if value is not None}
    return {TOOK: known} if known else {}


def last_answer(conversation: Sequence[Message]) -> str | None:
    """What the model said last; of a message in parts its texts, or all of it where none is text."""
    said = next((turn.content for turn in reversed(conversation) if turn.role == "assistant"), None)
    if said is None or isinstance(said, str):
        return said
    texts = [str(part["text"]) for part in said if part.get("type") == "text"]
    return "\n".join(texts) if texts else json_text(list(said))


_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str)


def json_text(value: Any) -> str:
    """A text as it is; anything else as JSON, the same whatever the order of its keys."""
    return value if isinstance(value, str) else _ENCODER.encode(value)


def content_hash(value: Any) -> str:
    return sha256(_ENCODER.encode(value).encode("utf-8", "surrogatepass")).hexdigest()


def read_json(content: bytes) -> Any:
    """As Python's own reader, and faster; what that one takes beyond others (lone surrogates, deep brackets) it still reads."""
    try:
        return from_json(content, cache_strings="keys")
    except ValueError:
        return json.loads(content)


def json_object(content: bytes, where: str) -> dict[str, Any]:
    """The object that a file or a line of it holds."""
    try:
        found = read_json(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}", hint="The file is cut off or damaged.") from error
    if not isinstance(found, dict):
        raise DataError(f"{where}: not an object", hint="The file is not what it is named after.")
    return found


def json_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file that has one on each line."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield json_object(line, f"{file}, line {number}")


def rows_by_doc(
    file: Path, doc_of: Callable[[Mapping[str, Any]], Any], wanted: Callable[[Any], bool] = lambda doc: True
) -> Iterator[list[dict[str, Any]]]:
    """The lines of each doc that is wanted, docs in the order of their keys. Lines of a doc need not stand together: places
    are noted, and each doc is read when its turn comes."""
    places: dict[Any, list[int]] = defaultdict(list)
    with file.open("rb") as lines:
        at = 0
        for number, line in enumerate(lines, 1):
            if line.strip() and wanted(doc := doc_of(json_object(line, f"{file}, line {number}"))):
                places[doc].append(at)
            at += len(line)
        for _, of_doc in sorted(places.items()):
            rows = []
            for place in of_doc:
                lines.seek(place)
                rows.append(json_object(lines.readline(), str(file)))
            yield rows
