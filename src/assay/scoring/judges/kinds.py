"""What a kind of judging is: its template, what it asks about an answer, and the scores that the verdicts give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from assay.instance import Doc
from assay.registry import Registry
from assay.scoring.judges.fence import fence
from assay.scoring.judges.scales import Scale
from assay.templates import compile_template


@dataclass(frozen=True)
class Case:
    """One answer that is to be judged, and all that a judge may be told about it."""

    doc: Doc
    question: str
    answer: str
    reference: str | None = None
    turns: Sequence[tuple[str, str]] = ()
    """What the user said and what the model answered, turn by turn."""
    opponent: str | None = None
    """The answer to compare with."""

    @property
    def judged_texts(self) -> list[str]:
        """What a label is about: a label for other texts is no label of this answer."""
        if len(self.turns) > 1:
            return [answer for _, answer in self.turns]
        return [self.answer] if self.opponent is None else [self.answer, self.opponent]


@dataclass(frozen=True)
class Part:
    """One question to the judge about a case: the fields of the template, and what may be answered."""

    name: str
    fields: Mapping[str, Any]
    scale: Scale


class JudgeKind:
    """A kind of judging. A new one gives `template`, `metric`, `parts` and, where parts are put together, `scores`."""

    template: ClassVar[str]
    metric: ClassVar[str]
    """The score that labels are about."""
    needs_opponent: ClassVar[bool] = False
    needs_turns: ClassVar[bool] = False

    def parts(self, case: Case) -> list[Part]:
        """What is asked about one answer."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it asks")

    def scores(self, verdicts: Mapping[str, float], case: Case) -> dict[str, Any]:
        """Part to verdict → metric to value, where all parts have a verdict."""
        (value,) = verdicts.values()
        return {self.metric: value}

    def extra_scores(self) -> dict[str, str]:
        """Further metrics that `scores` may give, and how each is aggregated; those that are not named are averaged."""
        return {}

    def label_scale(self, case: Case) -> Scale:
        """What a person may say about the whole case."""
        return self.parts(case)[0].scale

    def prompt(self, part: Part, template: str | None = None) -> str:
        """What the judge is sent."""
        return compile_template(template or self.template).render({**part.fields})


@dataclass(frozen=True)
class Fields:
    """Fields of a template. What models or datasets wrote is fenced, so no template can forget to."""

    case: Case
    more: Mapping[str, Any] = field(default_factory=dict)

    def fenced(self) -> dict[str, Any]:
        case = self.case
        fields: dict[str, Any] = {
            "question": fence("question", case.question),
            "answer": fence("answer", case.answer),
            **self.more,
        }
        if case.reference is not None:
            fields["reference"] = fence("reference", case.reference)
        return {"doc": case.doc, **fields}


JUDGE_KINDS: Registry[type[JudgeKind]] = Registry(
    "kind of judge",
    group="assay.judges",
    lazy={
        "correct": "assay.scoring.judges.correct:Correct",
        "grade": "assay.scoring.judges.grade:Grade",
        "rubric": "assay.scoring.judges.rubric:Rubric",
        "pairwise": "assay.scoring.judges.pairwise:Pairwise",
        "conversation": "assay.scoring.judges.conversation:Conversation",
    },
)
