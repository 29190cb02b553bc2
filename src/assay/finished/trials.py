"""Several tries at one doc (epochs, rollouts, trials), put together: docs stay the units, and what failed is never wrong."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from assay.errors import DataError
from assay.finished.run import AnsweredDoc, SentRequest
from assay.instance import Message
from assay.metrics import is_right_or_wrong, ks_for, pass_at_k, pass_hat_k


@dataclass(frozen=True)
class Trial:
    """One try. One that broke off, by an error or a limit, has a `failure` and no scores that count."""

    scores: Mapping[str, float] = field(default_factory=dict)
    answer: Any = None
    failure: str | None = None
    conversation: tuple[Message, ...] = ()


def metrics_of(trials: Sequence[Trial]) -> dict[str, float]:
    """The means over the trials that count; with several that are right or wrong, pass@k (some of k is right) and pass^k
    (all of k are right) beside them.

    >>> metrics_of([Trial({"match": 1.0}), Trial({"match": 0.0}), Trial(failure="out of time")])
    {'match': 0.5, 'pass@2(match)': 1.0, 'pass^2(match)': 0.0}
    """
    values: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        for name, value in trial.scores.items() if trial.failure is None else ():
            if value == value:
                values[name].append(value)
    metrics = {name: sum(drawn) / len(drawn) for name, drawn in values.items()}
    for name, drawn in values.items():
        if len(drawn) > 1 and all(map(is_right_or_wrong, drawn)):
            for k in ks_for(len(drawn)):
                if k > 1:
                    metrics[f"pass@{k}({name})"] = pass_at_k(drawn, k) or 0.0
                    metrics[f"pass^{k}({name})"] = pass_hat_k(drawn, k) or 0.0
    return metrics


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
    """A doc by its tries. `content` is what makes it the same doc in another run, `sent` what makes its prompt the same;
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
        tries=len(trials),
    )


def json_text(value: Any) -> str:
    """A text as it is; anything else as JSON, the same whatever the order of its keys."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def content_hash(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def json_object(content: bytes, where: str) -> dict[str, Any]:
    """The object that a file or a line of it holds."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}", hint="The file is cut off or damaged.") from error
    if not isinstance(found, dict):
        raise DataError(f"{where}: not an object", hint="The file is not what it is named after.")
    return found
