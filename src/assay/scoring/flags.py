"""What is to be known about the answer to a doc: truncated, empty, failed, or unparsed by a filter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from assay.instance import Instance, Response


class TakeNote(Protocol):
    def __call__(self, doc_id: int, name: str, filter_name: str | None = None) -> None: ...


def flag_docs(instances_by_doc: Mapping[int, Sequence[Instance]], flag: TakeNote) -> dict[int, Sequence[Instance]]:
    """Flag every doc that needs it; the docs that can be scored, which are those all of whose requests were answered."""
    answered: dict[int, Sequence[Instance]] = {}
    for doc_id, instances in instances_by_doc.items():
        if instances[0].request_type == "loglikelihood" and instances[-1].request_type == "loglikelihood":
            # One sum for the usual case: it is finite, or −∞, unless some term has no business here.
            total = sum([math.nan if each.failure else each.resps[0][0] for each in instances])
            sound = total < math.inf or _is_sound(doc_id, instances, flag)
        else:
            sound = _is_sound(doc_id, instances, flag)
        if sound:
            answered[doc_id] = instances
    return answered


def _is_sound(doc_id: int, instances: Sequence[Instance], flag: TakeNote) -> bool:
    """Whether every request was answered, with something that an answer can be."""
    for instance in instances:
        if instance.failure is None and instance.request_type != "generate_until":
            instance.failure = not_a_loglikelihood(instance.resps)
        if instance.failure is not None:
            flag(doc_id, "failed")
            return False
    for instance in instances:
        if instance.request_type != "generate_until":
            continue
        if any(each is not None and each.stop_reason == "length" for each in instance.responses):
            flag(doc_id, "truncated")
        if any(each is not None and is_unfinished_thought(each) for each in instance.responses):
            flag(doc_id, "unfinished_thought")
        elif any(each is not None and each.refusal for each in instance.responses):
            flag(doc_id, "refused")
        elif any(isinstance(response, str) and not response.strip() for response in instance.resps):
            flag(doc_id, "empty")
    return True


def flag_filtered(
    name: str, answered: Mapping[int, Sequence[Instance]], kept: Mapping[int, Sequence[Instance]], flag: TakeNote
) -> None:
    """Flag docs that a filter dropped, and those it could extract nothing from."""
    for doc_id, instances in answered.items():
        if doc_id not in kept:
            flag(doc_id, "left_out", name)
        elif instances[0].request_type == "generate_until" and any(
            all(instance.unparsed.get(name, [False])) for instance in instances
        ):
            flag(doc_id, "unparsed", name)


def not_a_loglikelihood(responses: Sequence[Any]) -> str | None:
    """Why a response cannot be compared: NaN and +∞ are no logarithm of a probability. −∞ is: that of zero."""
    for response in responses:
        for ll in _loglikelihoods(response):
            if ll != ll or ll == math.inf:
                return f"the model gave the loglikelihood {ll}"
    return None


def _loglikelihoods(response: Any) -> Sequence[float]:
    """Of a text, of a continuation with whether it is greedy, or of each label with whether it was listed."""
    if not isinstance(response, tuple | list):
        return (response,)
    return [each[0] for each in response] if isinstance(response[0], tuple | list) else response[:1]


def is_unfinished_thought(response: Response) -> bool:
    """Whether the model was still thinking when it was cut off: there are thoughts, and no answer after them."""
    has_answer = isinstance(response.answer, str) and bool(response.answer.strip())
    return bool(response.reasoning) and not has_answer and not (response.tool_calls or response.refusal)
