"""A backend against itself: answers must not depend on company, order or where the whitespace stands.

Needs no reference and no data, so it works for any model and any server. Most wrong scores come from one of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assay.errors import AssayError, ModelError
from assay.instance import Instance, Message, Response
from assay.models.base import LM, NoLikelihoods
from assay.models.info import Check
from assay.tool_calls import calls_in_text

QUESTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Question: What do plants need to grow?\nAnswer:", (" light", " sand", " gold and silver", " noise")),
    ("Question: How many legs does a spider have?\nAnswer:", (" eight", " two", " one hundred and four", " none")),
    ("Question: Which of these is a fruit?\nAnswer:", (" an apple", " a chair", " a river in the north", " blue")),
    ("The capital of France is", (" Paris", " Rome", " Buenos Aires", " a small dog")),
    ("She opened the door and", (" walked in.", " the the of.", " saw that it was raining outside.", " blue.")),
    ("2 + 2 =", (" 4", " 5", " four hundred", " cat")),
)


class DoesNotApply(Exception):
    """The backend has no such thing to check. Everything else that goes wrong in a check is a failed check."""


def run_checks(
    lm: LM, *, tolerance: float | None = None, report: Callable[[str], None] = lambda name: None
) -> Iterator[Check]:
    """Every check in turn, the backend's own first. `report` is told the name of each before it begins."""
    limit = lm.tolerance if tolerance is None else tolerance
    report("the backend's own checks")
    try:
        yield from lm.own_checks(limit)
    except Exception as error:  # as below
        yield Check("the backend's own checks", False, note=_reason(error))
    checks = [one_by_one, order, token_boundary, chat_round_trip, stop_strings, draws]
    for check in [*checks, tool_call] if lm.info().capabilities.tools else checks:
        name = check.__name__.replace("_", " ")
        report(name)
        try:
            yield check(lm, limit)
        except (DoesNotApply, NotImplementedError) as error:
            yield Check(name, None, note=_reason(error))
        except Exception as error:  # a backend may be anybody's code; the other checks still have something to say
            yield Check(name, False, note=_reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, AssayError):
        return error.message
    return str(error) if isinstance(error, DoesNotApply) else f"{type(error).__name__}: {error}"


def compare(name: str, found: Sequence[float], expected: Sequence[float], tolerance: float) -> Check:
    """Scores of all choices of all questions, in order. NaN is no difference to any number, and so a failure by itself."""
    scores = [*found, *expected]
    if wrong := sum(not math.isfinite(score) for score in scores):
        return Check(name, False, note=f"{wrong} of {len(scores)} scores are not finite")
    difference = max(abs(one - two) for one, two in zip(found, expected, strict=True))
    flips = sum(_best(one) != _best(two) for one, two in zip(_by_question(found), _by_question(expected)))
    return Check(name, difference <= tolerance, difference, flips / len(QUESTIONS))


def _by_question(scores: Sequence[float]) -> list[Sequence[float]]:
    size = len(QUESTIONS[0][1])
    return [scores[start : start + size] for start in range(0, len(scores), size)]


def _best(scores: Sequence[float]) -> int:
    return max(range(len(scores)), key=scores.__getitem__)


def requests() -> list[Instance]:
    return [_score(context, choice) for context, choices in QUESTIONS for choice in choices]


def _score(context: str, continuation: str) -> Instance:
    return Instance("loglikelihood", {}, (context, continuation), 0)


def _values(lm: LM, instances: Sequence[Instance]) -> list[float]:
    try:
        answers = _ask(lm, "loglikelihood", instances)
    except AssayError as error:
        # A server that refuses to echo prompts and one that refuses everything say the same; generation tells them apart.
        unable = isinstance(error, NoLikelihoods) and _generates(lm)
        if unable or not lm.info().capabilities.likelihoods:
            raise DoesNotApply(error.message) from error
        raise
    return [float(answer.answer[0]) for answer in answers]


def _ask(
    lm: LM, request_type: str, instances: Sequence[Instance], numbers: Sequence[int] | None = None
) -> list[Response]:
    """The answers in order, requested as a run does. A request without one fails whoever sent it."""
    found = dict(lm.stream(request_type, list(instances), list(numbers or [0] * len(instances))))
    answers = [found.get(place, Response(None, failure="no answer came")) for place in range(len(instances))]
    reasons = [a.failure or "the answer is None" for a in answers if a.failure is not None or a.answer is None]
    if reasons:
        raise ModelError(f"{len(reasons)} of {len(instances)} requests failed: {reasons[0]}")
    return answers


def _generates(lm: LM) -> bool:
    try:
        _ask(lm, "generate_until", [Instance("generate_until", {}, (QUESTIONS[0][0], {"max_gen_toks": 1}), 0)])
    except AssayError:
        return False
    return True


def one_by_one(lm: LM, tolerance: float) -> Check:
    """All requests in one call, and each in a call of its own."""
    together = _values(lm, requests())
    alone = [_values(lm, [request])[0] for request in requests()]
    return compare("one by one", together, alone, tolerance)


def order(lm: LM, tolerance: float) -> Check:
    return compare("order", _values(lm, requests()), _values(lm, requests()[::-1])[::-1], tolerance)


def token_boundary(lm: LM, tolerance: float) -> Check:
    """A space at the end of the context or at the start of the continuation is the same text.

    Scored with the continuation it changes nothing; counted as context, as a model of bytes may do, it takes the same
    from every choice of a question. Anything else favours some choices.
    """
    if lm.at_random:
        raise DoesNotApply(lm.at_random)
    moved = [_score(context + " ", choice.removeprefix(" ")) for context, choices in QUESTIONS for choice in choices]
    found, expected = _values(lm, moved), _values(lm, requests())
    pairs = zip(_by_question(found), _by_question(expected))
    level = [value + ours[0] - theirs[0] for ours, theirs in pairs for value in theirs]
    return compare("token boundary", found, level, tolerance)


def chat_round_trip(lm: LM, tolerance: float) -> Check:
    """What was said is in the prompt, once each and in order, and an open end continues where a closed one stops."""
    name = "chat round trip"
    turns = [("user", "first words"), ("assistant", "second words"), ("user", "third words")]
    if lm.chat == "messages":
        return Check(name, True, note="messages are sent as they are")
    messages = [{"role": role, "content": content} for role, content in turns]
    try:
        prompt = lm.apply_chat_template(messages)
        partial = lm.apply_chat_template(messages[:2], add_generation_prompt=False)
    except AssayError as error:
        if not lm.chat_template():
            raise DoesNotApply(error.message) from error
        raise
    places = [prompt.find(content) for _, content in turns]
    if -1 in places or places != sorted(places) or any(prompt.count(content) != 1 for _, content in turns):
        return Check(name, False, note="a turn is missing, duplicated or out of order")
    if not prompt.startswith(partial):
        return Check(name, False, note="an answer to be continued is not a prefix of the whole conversation")
    return Check(name, True)


def _texts(answers: Sequence[Response]) -> list[str]:
    """The texts, unless all are empty: then nothing can be seen in them.

    Nothing but thoughts fit into the few tokens of a thinking model, which is no fault of it; it is known by the length
    at which it was stopped. Any other backend that never says a word is broken.
    """
    texts = [str(answer.answer) for answer in answers]
    if any(texts):
        return texts
    if all(answer.stop_reason == "length" for answer in answers):
        raise DoesNotApply("the model shows no text within the few tokens requested")
    raise ModelError("the model generates nothing")


def stop_strings(lm: LM, tolerance: float) -> Check:
    """Text with a stop string is the text without it, cut there."""
    contexts = [context for context, _ in QUESTIONS]

    def generate(until: list[list[str]]) -> list[Response]:
        kwargs = [{"until": stops, "max_gen_toks": 16, "do_sample": False} for stops in until]
        return _ask(lm, "generate_until", [Instance("generate_until", {}, pair, 0) for pair in zip(contexts, kwargs)])

    free = _texts(generate([[] for _ in contexts]))
    stops = [text[len(text) // 2 : len(text) // 2 + 3] for text in free]
    stopped = [answer.answer for answer in generate([[stop] if stop else [] for stop in stops])]
    wrong = sum(cut != (text.split(stop)[0] if stop else text) for text, stop, cut in zip(free, stops, stopped))
    return _same("stop strings", wrong, len(contexts), "the text is cut elsewhere")


def draws(lm: LM, tolerance: float) -> Check:
    """The same draw of the same prompt is the same text, whatever was sent beside it."""
    kwargs = {"max_gen_toks": 8, "do_sample": True, "temperature": 1.0}
    instances = [Instance("generate_until", {}, (context, kwargs), 0) for context, _ in QUESTIONS for _ in range(2)]
    numbers = [draw for _ in QUESTIONS for draw in range(2)]
    together = _texts(_ask(lm, "generate_until", instances, numbers))
    alone = [_ask(lm, "generate_until", [one], [number])[0].answer for one, number in zip(instances, numbers)]
    wrong = sum(one != two for one, two in zip(together, alone))
    if wrong and not lm.info().computes_here and _holds_one_at_a_time(lm, instances, numbers, alone):
        note = "the server repeats a draw when it is sent alone, not beside others: a score over repeats cannot be had again exactly"
        return Check("draws", None, flipped=wrong / len(instances), note=note)
    return _same("draws", wrong, len(instances), "sampling is not reproducible")


def _holds_one_at_a_time(lm: LM, instances: Sequence[Instance], numbers: Sequence[int], alone: Sequence[Any]) -> bool:
    """Whether a draw that is sent alone is the same each time: servers with several slots compute what is in them together."""
    again = [_ask(lm, "generate_until", [one], [number])[0].answer for one, number in zip(instances, numbers)]
    return list(alone) == again


TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


def tool_call(lm: LM, tolerance: float) -> Check:
    """Whether a call comes as a call, as text, or not at all. No model has to make one: that it does is what is said."""
    if not lm.capabilities(["tools"]).tools:
        raise DoesNotApply("it takes no tools")
    name = "tool call"
    chat = (Message("user", "What is 1234 + 4321? Call the tool add; do not compute it yourself."),)
    kwargs = {"max_gen_toks": 128, "until": [], "tools": [TOOL]}
    [answer] = _ask(lm, "generate_until", [Instance("generate_until", {}, (chat, kwargs), 0)])
    if answer.tool_calls:
        return Check(name, True)
    if calls_in_text(str(answer.answer), [TOOL]):
        return Check(name, None, note="it came as text, which counts only with tool_protocol: text in the task")
    return Check(name, None, note=f"none came, but {str(answer.answer)[:60]!r}")


def _same(name: str, wrong: int, total: int, complaint: str) -> Check:
    return Check(name, wrong == 0, flipped=wrong / total, note=complaint if wrong else "")
