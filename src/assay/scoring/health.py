"""How sound a task's scores are: what was truncated, empty, unparsed, tied, failed, or asked twice."""

from __future__ import annotations

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
    not_finite: set[int] = field(default_factory=set)
    unparsed: dict[str, set[int]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    prompts: Counter[int] = field(default_factory=Counter)

    def count_doc(self, doc_id: int, instances: Sequence[Instance]) -> bool:
        """Take note of a doc's instances; False if a request failed, so that the doc cannot be scored."""
        self.docs += 1
        self.prompts[hash(tuple(instance.args[:2] if instance.request_type == "loglikelihood" else instance.args[:1] for instance in instances))] += 1  # fmt: skip
        for instance in instances:
            if instance.failure is not None:
                self.failed[doc_id] = instance.failure
                return False
            if "length" in instance.stop_reasons:
                self.truncated.add(doc_id)
            if instance.request_type == "generate_until" and any(is_empty(response) for response in instance.resps):
                self.empty.add(doc_id)
        return True

    def count_filter(self, name: str, instances: Mapping[int, Sequence[Instance]], left_out: int) -> None:
        self.left_out[name] = self.left_out.get(name, 0) + left_out
        found = {i for i, doc in instances.items() if any(all(each.unparsed.get(name) or [False]) for each in doc)}
        self.unparsed.setdefault(name, set()).update(found)

    @property
    def duplicates(self) -> int:
        """Docs whose prompt is that of an earlier doc."""
        return sum(times - 1 for times in self.prompts.values())

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
            self.not_finite | other.not_finite,
            unparsed,
            dict(Counter(self.left_out) + Counter(other.left_out)),
            self.prompts + other.prompts,
        )


def is_empty(response: Any) -> bool:
    return isinstance(response, str) and not response.strip()
