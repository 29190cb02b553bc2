r"""MATH with worked solutions: four of them are shown, and the answer is what follows "The final answer is".

Answers are normalised by the rules that the Minerva paper prints (Lewkowycz et al. 2022, appendix D), and then compared
as expressions by sympy. `math_verify` reads the whole solution and judges by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from assay.catalog.mathematics.answers import boxed
from assay.errors import MissingPackage
from assay.timelimit import timed

NO_ANSWER = "[invalidanswer]"
_REPLACED = (
    ("an ", ""),
    ("a ", ""),
    (".$", "$"),
    ("\\$", ""),
    ("\\ ", ""),
    (" ", ""),
    ("mbox", "text"),
    (",\\text{and}", ","),
    ("\\text{and}", ","),
    ("\\text{m}", "\\text{}"),
)
_UNITS = [
    "square",
    "ways",
    "integers",
    "dollars",
    "mph",
    "inches",
    "ft",
    "hours",
    "km",
    "units",
    "sue",
    "points",
    "feet",
    "minutes",
    "digits",
    "cents",
    "degrees",
    "cm",
    "gm",
    "pounds",
    "meters",
    "meals",
    "edges",
    "students",
    "childrentickets",
    "multiples",
]
_SIGNS = (
    "\\ldots",
    "\\text{s}",
    "\\text{.}",
    "\\text{\ns}",
    "\\text{}^2",
    "\\text{}^3",
    "\\text{\n}",
    "\\text{}",
    "\\mathrm{th}",
    "^\\circ",
    "^{\\circ}",
    "\\;",
    ",\\!",
    "{,}",
    '"',
    "\\dots",
)


def process_docs(dataset: Any) -> Any:
    return dataset.map(lambda doc: {"answer": normalise(boxed(doc["solution"]) or "")})


def process_docs_hard(dataset: Any) -> Any:
    """The hardest problems only, as on the leaderboard."""
    hard = dataset.filter(lambda doc: doc["level"] == "Level 5")
    return hard.map(lambda doc: {"answer": boxed(doc["solution"]) or NO_ANSWER})


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, int]:
    answer = normalise(stated_answer(results[0]))
    return {"exact_match": int(same(answer, doc["answer"])), "math_verify": int(verified(doc["solution"], results[0]))}


def process_results_hard(doc: dict[str, Any], results: Sequence[str]) -> dict[str, int]:
    stated = stated_answer(results[0])
    original = stated != NO_ANSWER and same(normalise(stated), normalise(doc["answer"]))
    return {
        "exact_match": int(verified(doc["solution"], results[0], latex_only=True)),
        "exact_match_original": int(original),
    }


def stated_answer(text: str) -> str:
    """
    >>> stated_answer("Final Answer: The final answer is $5$. I hope it is correct."), stated_answer("It is 5.")
    ('$5$', '[invalidanswer]')
    """
    found = timed(r"Final Answer: The final answer is(.*?). I hope it is correct.").search(
        f"{text}I hope it is correct."
    )
    return found[1].strip() if found else NO_ANSWER


def normalise(answer: str) -> str:
    r"""
    >>> normalise(r"$x = 2\pi$ cm"), normalise(r"\frac12"), normalise("12,000"), normalise("0,1")
    ('2\\pi', '\\frac{1}{2}', '12000', '0,1')
    """
    text = answer.rpartition("=")[2]
    for unit in _UNITS:
        text = timed(rf"(?<!\\)\b{unit}\b").sub("", text)
    for before, after in _REPLACED:
        text = text.replace(before, after)
    for unit in _UNITS:
        # Names of commands stay whole: "ft" is also a part of \left.
        parts = timed(r"(\\[a-zA-Z]+)").split(text)
        text = "".join(part if place % 2 else part.replace(unit, "") for place, part in enumerate(parts))
    for sign in _SIGNS:
        text = text.replace(sign, "")
    text = timed(r"(.*?)(\$)(.*?)(\$)(.*)").sub(r"$\3$", text)
    for command in ("text", "textbf", "overline"):
        text = timed(rf"\\{command}\{{(.*?)\}}").sub(r"\1", text)
    text = timed(r"\\boxed\{(.*)\}").sub(r"\1", text)
    text = timed(r"frac([^{])(.)").sub(r"frac{\1}{\2}", text)
    text = timed(r"sqrt(\[[^\]]*\])(\w)").sub(r"sqrt\1{\2}", text)
    text = timed(r"sqrt(?!\[)([^{])").sub(r"sqrt{\1}", text).replace("$", "")
    return text.replace(",", "") if timed(r"-?\d{1,3}(,\d{3})+").fullmatch(text) else text


def same(first: str, second: str) -> bool:
    """Equal as text, or as expressions; what sympy cannot read in five seconds is not equal."""
    if first and first == second:
        return True
    sympy = _import("sympy")
    parse_latex = _import("sympy.parsing.latex").parse_latex
    from assay.timelimit import signals_work_here, within

    def difference_is_zero() -> bool:
        return bool(sympy.simplify(parse_latex(first) - parse_latex(second)) == 0)

    try:
        return within(5, difference_is_zero) if signals_work_here() else difference_is_zero()
    except ImportError:
        raise
    except Exception:  # sympy raises anything at all on text that is no formula, and then the two are not equal
        return False


def verified(solution: str, text: str, *, latex_only: bool = False) -> bool:
    library = _import("math_verify")
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it repeats what it could not read, all of it
    options = {"extraction_config": [library.LatexExtractionConfig()]} if latex_only else {}
    return bool(library.verify(library.parse(solution, **options), library.parse(text)))


def _import(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"scoring worked solutions of MATH needs {error.name}, which is not installed",
            hint='pip install sympy "antlr4-python3-runtime==4.11.*" math-verify',
            package=str(error.name),
        ) from None
