r"""Answers to competition mathematics: where they stand in a solution, and when two of them are the same.

Two answers are the same if their LaTeX is, after the differences that mean nothing are gone: spaces, units, `\dfrac` for
`\frac`, `0.5` for `\frac{1}{2}`. The list is that of Hendrycks et al. 2021 (MATH).
"""

from __future__ import annotations

from assay.timelimit import timed

_DROPPED = ("\n", r"\!", r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$")


def boxed(solution: str) -> str | None:
    r"""What the last box of a solution holds.

    >>> boxed(r"first \boxed{1}, then \boxed{\frac{1}{2}}."), boxed(r"so $\boxed 7$."), boxed("no box")
    ('\\frac{1}{2}', '7', None)
    """
    if "\\boxed " in solution:
        return solution.rpartition("\\boxed ")[2].partition("$")[0]
    start = max(solution.rfind("\\boxed"), solution.rfind("\\fbox") if "\\boxed" not in solution else -1)
    opening = solution.find("{", start)
    if start < 0 or opening < 0:
        return None
    depth = 0
    for position in range(opening, len(solution)):
        depth += {"{": 1, "}": -1}.get(solution[position], 0)
        if depth == 0:
            return solution[opening + 1 : position]
    return None


def equal_answers(first: str, second: str) -> bool:
    r"""
    >>> equal_answers(r"\dfrac12", "0.5"), equal_answers("x = 5", "5"), equal_answers("3", "4")
    (True, True, False)
    """
    return plain(first) == plain(second)


def plain(answer: str) -> str:
    r"""The answer without what means nothing.

    >>> plain(r"\left( \tfrac1{72} \right)"), plain(r"12\text{ cm}"), plain("3/4"), plain(r"\sqrt3")
    ('(\\frac{1}{72})', '12', '\\frac{3}{4}', '\\sqrt{3}')
    """
    units = answer.count("\\text{ ")
    if units > 1:  # text, not a quantity with its unit
        return answer
    text = answer
    for dropped in _DROPPED:
        text = text.replace(dropped, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    text = text.partition("\\text{ ")[0].replace("\\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    text = f"0{text}" if text.startswith(".") else text
    name, equals, value = text.partition("=")
    if equals and "=" not in value and len(name) <= 2:
        text = value
    text = timed(r"\\sqrt([^{])").sub(r"\\sqrt{\1}", text).replace(" ", "")
    text = timed(r"\\frac([^{])([^{])").sub(r"\\frac{\1}{\2}", text)
    text = timed(r"\\frac([^{])\{").sub(r"\\frac{\1}{", text)
    text = "\\frac{1}{2}" if text == "0.5" else text
    if fraction := timed(r"(0|-?[1-9]\d*)/(0|-?[1-9]\d*)").fullmatch(text):
        text = f"\\frac{{{fraction[1]}}}{{{fraction[2]}}}"
    return text
