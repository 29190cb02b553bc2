"""Questions to judges: which are still to be sent about a case, and what was said to those that were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.instance import Instance, Response
from assay.scoring.judges.kinds import Case, JudgeKind, Part
from assay.scoring.judges.labels import answer_hash
from assay.scoring.judges.reader import read_verdict
from assay.scoring.judges.scales import Scale

ONCE_MORE = (
    "\n\nYour last reply to this could not be read. Reply again, and end with a line of your verdict alone, which is "
    "{allowed}, in a tag: <verdict>…</verdict>."
)


@dataclass(frozen=True)
class Asking:
    """How judges are questions: who, how often, with what settings."""

    kind: JudgeKind
    judges: Sequence[str]
    repeats: int
    settings: Mapping[str, Any]
    template: str | None

    def next_questions(self, about: Instance, case: Case, filter_name: str, draw: int) -> list[Instance]:
        """Each part to each judge; and once more where a reply cannot be read. They stay with the answer."""
        questions = []
        for part in self.kind.parts(case):
            for judge in self.judges:
                place = {"filter": filter_name, "draw": draw, "part": part.name}
                earlier = [q for q in about.questions if q.role == judge and _is_at(q, place)]
                repeats = self.repeats if not earlier else _unread(earlier[0], part.scale)
                if len(earlier) < 2 and repeats and not any(question.failure for question in earlier):
                    note = {**place, "attempt": len(earlier) + 1, **self._label(case)}
                    questions.append(self._question(about, part, judge, repeats, note))
        about.questions += questions
        return questions

    def _label(self, case: Case) -> dict[str, Any]:
        """What a label of this answer goes by, and what it may say: `assay judge label` needs no more than the run."""
        return {"answer_hash": answer_hash(case.judged_texts), "allowed": self.kind.label_scale(case).to_json()}

    def _question(self, about: Instance, part: Part, judge: str, repeats: int, note: dict[str, Any]) -> Instance:
        prompt = self.kind.prompt(part, self.template)
        if note["attempt"] > 1:
            prompt += ONCE_MORE.format(allowed=part.scale.words())
        arguments = (prompt, dict(self.settings))
        return Instance(
            "generate_until",
            about.doc,
            arguments,
            0,
            about.doc_id,
            about.task_name,
            repeats=repeats,
            role=judge,
            note=note,
        )

    def verdicts(self, about: Instance, case: Case, judge: str, filter_name: str, draw: int) -> dict[str, float] | None:
        """Part to verdict, the mean over repeats; None where some part has none. What was read is noted with the question."""
        found: dict[str, float] = {}
        for part in self.kind.parts(case):
            place = {"filter": filter_name, "draw": draw, "part": part.name}
            read = [
                value for q in about.questions if q.role == judge and _is_at(q, place) for value in noted(q, part.scale)
            ]
            if not read:
                return None
            found[part.name] = sum(read) / len(read)
        return found


def _is_at(question: Instance, place: Mapping[str, Any]) -> bool:
    return all(question.note.get(name) == value for name, value in place.items())


def noted(question: Instance, scale: Scale) -> list[float]:
    """The verdicts that can be read; all of them, None for the others, stay with the question."""
    if question.failure is None:
        question.note["verdicts"] = list(_read(question, scale))
    return [value for value in question.note.get("verdicts", ()) if value is not None]


def _read(question: Instance, scale: Scale) -> Iterator[float | None]:
    responses: Sequence[Response | None] = question.responses or [None] * len(question.resps)
    for reply, response in zip(question.resps, responses):
        truncated = response is not None and response.stop_reason == "length"
        yield read_verdict(str(reply), scale, truncated=truncated)


def _unread(question: Instance, scale: Scale) -> int:
    """Replies that cannot be read."""
    return 0 if question.failure is not None else sum(value is None for value in _read(question, scale))
