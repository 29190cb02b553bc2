"""Texts that a degenerate or hostile model may write, and everything in the house that reads what a model wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.catalog.code import programs
from assay.catalog.fairness import bbq
from assay.catalog.instructions import ifeval
from assay.catalog.instructions.checks import CHECKS
from assay.catalog.knowledge import agieval
from assay.catalog.mathematics import hendrycks, minerva
from assay.catalog.reading import drop, squadv2
from assay.catalog.truthfulness import truthfulqa
from assay.filters import FILTERS
from assay.metrics import METRICS
from assay.scoring.judges import NamedScale, fence, read_verdict


def _repeated(piece: str) -> Callable[[int], str]:
    return lambda size: (piece * (size // len(piece) + 1))[:size]


_PIECES = {
    "letters": "a",
    "words": "a ",
    "capitals": "A. ",
    "spaces": " ",
    "line feeds": "\n",
    "tabs and lines": "\t\n",
    "nulls": "\x00",
    "brackets": "[",
    "braces": "{",
    "parentheses": "(",
    "closed brackets": "[]",
    "nested objects": '{"a":',
    "quotes": "\"'",
    "backslashes": "\\",
    "dollars": "$",
    "boxes": "\\boxed{",
    "fractions": "\\frac",
    "roots": "\\sqrt[",
    "digits": "9",
    "grouped digits": "1,234",
    "decimals": "0.1.",
    "asterisks": "*",
    "bullets": "- a\n",
    "angles": "<<a",
    "fences": "```",
    "answers": "The answer is (",
    "final answers": "Final Answer: The final answer is $",
    "half characters": "\ud800",
    "combining marks": "a\u0301",
    "direction marks": "\u202e\u200f",
    "thoughts": "<think>",
    "full stops": ". ",
}
TEXTS: dict[str, Callable[[int], str]] = {name: _repeated(piece) for name, piece in _PIECES.items()}
"""Name to the text of so many characters. Each makes some kind of reader go back and forth, or down."""

_DOC: dict[str, Any] = {
    "choices": ["red", "green", "blue"], "answer": "5", "solution": "so $\\boxed{5}$.", "answers": [["three cats"]],
    "prompt": "def f():\n", "id": "1", "best_answer": "red", "correct_answers": ["red"], "incorrect_answers": ["blue"],
    "ans0": "the grandfather", "ans1": "Unknown", "ans2": "the grandson", "label": 1, "category": "Age",
    "answer_info": {"ans0": ["grandfather", "old"], "ans1": ["x", "unknown"], "ans2": ["grandson", "nonOld"]},
    "ans0_groups": ["grandfather"], "ans1_groups": ["unknown"], "ans2_groups": ["grandson"], "biased_answers": ["x"],
    "additional_metadata": {"stereotyped_groups": ["old"]}, "question_polarity": "neg", "context_condition": "ambig",
}  # fmt: skip
_FILTER_ARGUMENTS: dict[str, dict[str, Any]] = {
    "custom": {"filter_fn": lambda resps, docs: resps},
    "map": {"mapping_dict": {"a": "b"}},
    "take_first_k": {"k": 1},
    "json_path": {"path": "a.b[0]"},
    "choice": {},
}
_IFEVAL_ARGUMENTS: dict[str, dict[str, Any]] = {
    "keywords:existence": {"keywords": ["cat"]},
    "keywords:frequency": {"keyword": "cat", "frequency": 1, "relation": "at least"},
    "keywords:forbidden_words": {"forbidden_words": ["cat"]},
    "keywords:letter_frequency": {"letter": "a", "let_frequency": 1, "let_relation": "at least"},
    "language:response_language": {"language": "en"},
    "length_constraints:number_sentences": {"num_sentences": 1, "relation": "at least"},
    "length_constraints:number_paragraphs": {"num_paragraphs": 1},
    "length_constraints:number_words": {"num_words": 1, "relation": "at least"},
    "length_constraints:nth_paragraph_first_word": {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "a"},
    "detectable_content:number_placeholders": {"num_placeholders": 1},
    "detectable_content:postscript": {"postscript_marker": "P.S."},
    "detectable_format:number_bullet_lists": {"num_bullets": 1},
    "detectable_format:number_highlighted_sections": {"num_highlights": 1},
    "detectable_format:multiple_sections": {"section_spliter": "Day", "num_sections": 1},
    "combination:repeat_prompt": {"prompt_to_repeat": "a"},
    "startend:end_checker": {"end_phrase": "a"},
    "change_case:capital_word_frequency": {"capital_frequency": 1, "capital_relation": "at least"},
}


def _filter(name: str) -> Callable[[str], object]:
    arguments = _FILTER_ARGUMENTS.get(name, {})
    return lambda text: list(FILTERS[name](**arguments).apply([[text]], [_DOC]))


def _metric(name: str) -> Callable[[str], object]:
    form = METRICS[name].form("generation")
    assert form is not None
    arguments = {"k": 1} if name.endswith("@k") else {}
    return lambda text: form(references=["three red cats"], predictions=[text], **arguments)


def _all() -> dict[str, Callable[[str], object]]:
    calls: dict[str, Callable[[str], object]] = {}
    calls |= {f"filter {name}": _filter(name) for name in FILTERS if name != "decontaminate"}
    calls |= {f"metric {name}": _metric(name) for name in METRICS if METRICS[name].form("generation") is not None}
    for name, check in CHECKS.items():
        arguments = _IFEVAL_ARGUMENTS.get(name, {})
        calls[f"ifeval {name}"] = lambda text, check=check, arguments=arguments: check(text, **arguments)  # type: ignore[misc]
    return calls | {
        "ifeval relaxed": lambda text: ifeval.relaxed(text),
        "minerva": lambda text: minerva.process_results(_DOC, [text]),
        "minerva hard": lambda text: minerva.process_results_hard(_DOC, [text]),
        "minerva stated": lambda text: minerva.normalise(text),
        "minerva same": lambda text: minerva.same(text, "5"),
        "hendrycks": lambda text: hendrycks.process_results(_DOC, [text]),
        "drop": lambda text: drop.process_results(_DOC, [text]),
        "squadv2": lambda text: squadv2.squad_metric("f1", [({"id": "1", "prediction_text": text, "no_answer_probability": 0.0}, {"id": "1", "answers": {"text": ["red"], "answer_start": [0]}})]),
        "truthfulqa": lambda text: truthfulqa.score_answer(_DOC, [text]),
        "agieval": lambda text: agieval.score_answer({"answer": "5"}, [text]),
        "bbq": lambda text: bbq.score_answer(_DOC, [text]),
        "programs completed": lambda text: programs.completed_up_to_fence([[text]], [_DOC]),
        "programs block": lambda text: programs.first_blocks([[text]], [_DOC]),
        "programs compiling": lambda text: programs.compiling(text),
        "judge fence": lambda text: fence("answer", text),
        "judge reader": lambda text: read_verdict(text, NamedScale({"correct": 1.0, "incorrect": 0.0})),
    }  # fmt: skip


CALLS = _all()
