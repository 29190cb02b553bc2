"""How sound a task's scores are: what was truncated, empty, unparsed, tied, failed, or asked twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.instance import Instance


@dataclass
class Health:
    """Counts of docs, and the docs behind each count.

    `unparsed` and `left_out` are per filter; `unparsed_everywhere` are docs that no filter could parse.
    """

    docs: int = 0
    truncated: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    tied: set[int] = field(default_factory=set)
    no_gold: set[int] = field(default_factory=set)
    unparsed: dict[str, set[int]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    prompts: list[int] = field(default_factory=list)
    """A hash of what each doc asks."""

    def count_docs(self, instances_by_doc: Mapping[int, Sequence[Instance]]) -> dict[int, Sequence[Instance]]:
        """Take note of every doc; the docs that can be scored, which are those all of whose requests were answered."""
        answered: dict[int, Sequence[Instance]] = {}
        self.docs += len(instances_by_doc)
        for doc_id, instances in instances_by_doc.items():
            first = instances[0]
            self.prompts.append(prompt_hash(first))
            if first.request_type == "loglikelihood" and instances[-1].request_type == "loglikelihood":
                # One sum for the usual case: it is finite, or −∞, unless some term has no business here.
                total = sum([math.nan if each.failure else each.resps[0][0] for each in instances])
                sound = total < math.inf or self._is_sound(doc_id, instances)
            else:
                sound = self._is_sound(doc_id, instances)
            if sound:
                answered[doc_id] = instances
        return answered

    def _is_sound(self, doc_id: int, instances: Sequence[Instance]) -> bool:
        """Whether every request was answered, with something that an answer can be."""
        for instance in instances:
            wrong = instance.failure
            if wrong is None and instance.request_type != "generate_until":
                wrong = not_a_loglikelihood(instance.resps)
            if wrong is not None:
                self.failed[doc_id] = wrong
                return False
        for instance in instances:
            if instance.request_type != "generate_until":
                continue
            if "length" in instance.stop_reasons:
                self.truncated.add(doc_id)
            if any(map(is_empty, instance.resps)):
                self.empty.add(doc_id)
        return True

    def count_filter(self, name: str, instances: Mapping[int, Sequence[Instance]], left_out: int) -> None:
        self.left_out[name] = self.left_out.get(name, 0) + left_out
        found = self.unparsed.setdefault(name, set())
        for doc_id, doc in instances.items():
            if doc[0].request_type == "generate_until" and any(all(each.unparsed.get(name, [False])) for each in doc):
                found.add(doc_id)

    @property
    def duplicates(self) -> int:
        """Docs whose prompt is that of an earlier doc."""
        return len(self.prompts) - len(set(self.prompts))

    @property
    def unparsed_everywhere(self) -> set[int]:
        return set.intersection(*self.unparsed.values()) if self.unparsed else set()

    def as_dict(self) -> dict[str, Any]:
        return {
            "docs": self.docs,
            "truncated": len(self.truncated),
            "empty": len(self.empty),
            "failed": len(self.failed),
            "tied": len(self.tied),
            "no_gold": len(self.no_gold),
            "unparsed": {name: len(docs) for name, docs in self.unparsed.items()},
            "unparsed_everywhere": len(self.unparsed_everywhere),
            "left_out": {name: n for name, n in self.left_out.items() if n},
            "duplicate_prompts": self.duplicates,
        }

    def flags(self, doc_id: int) -> list[str]:
        """What is to be said about one doc."""
        named = {"truncated": self.truncated, "empty": self.empty, "failed": self.failed, "tied": self.tied, "no_gold": self.no_gold}  # fmt: skip
        flags = [name for name, docs in named.items() if doc_id in docs]
        return flags + [f"unparsed:{name}" for name, docs in self.unparsed.items() if doc_id in docs]

    def __add__(self, other: Health) -> Health:
        unparsed = {
            n: self.unparsed.get(n, set()) | other.unparsed.get(n, set()) for n in {**self.unparsed, **other.unparsed}
        }
        return Health(
            self.docs + other.docs,
            self.truncated | other.truncated,
            self.empty | other.empty,
            self.failed | other.failed,
            self.tied | other.tied,
            self.no_gold | other.no_gold,
            unparsed,
            dict(Counter(self.left_out) + Counter(other.left_out)),
            self.prompts + other.prompts,
        )


def is_empty(response: Any) -> bool:
    return isinstance(response, str) and not response.strip()


def not_a_loglikelihood(responses: Sequence[Any]) -> str | None:
    """Why a response cannot be compared: NaN and +∞ are no logarithm of a probability. −∞ is: that of zero."""
    for response in responses:
        ll = response[0] if isinstance(response, tuple | list) else response
        if ll != ll or ll == math.inf:
            return f"the model gave the loglikelihood {ll}"
    return None


def prompt_hash(first: Instance) -> int:
    """Equal for docs that ask the model the very same; where contexts vary, they are the choices."""
    if first.request_type == "generate_until":
        return hash(first.arguments[0])
    return hash((first.arguments[:2], first.choices))
