"""The instructions of IFEval that a program can check: one function each, from the response to whether it complies.

The rules are those of the benchmark's paper (Zhou et al. 2023, table 4). Where a rule counts sentences, a full stop,
question mark or exclamation mark before a space and a capital, digit or quote ends one, unless it ends an abbreviation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from assay.timelimit import timed

CHECKS: dict[str, Callable[..., bool]] = {}
Check = Callable[..., bool]


def check(name: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS[name] = function
        return function

    return register


def _compare(count: int, relation: str | None, wanted: int) -> bool:
    return count < wanted if relation == "less than" else count >= wanted


@check("keywords:existence")
def has_keywords(text: str, keywords: list[str]) -> bool:
    return all(timed(word, re.IGNORECASE).search(text) for word in keywords)


@check("keywords:frequency")
def keyword_frequency(text: str, keyword: str, frequency: int, relation: str) -> bool:
    return _compare(len(timed(keyword.strip(), re.IGNORECASE).findall(text)), relation, frequency)


@check("keywords:forbidden_words")
def lacks_words(text: str, forbidden_words: list[str]) -> bool:
    return not any(timed(rf"\b{word}\b", re.IGNORECASE).search(text) for word in forbidden_words)


@check("keywords:letter_frequency")
def letter_frequency(text: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    return _compare(text.lower().count(letter.lower()), let_relation, let_frequency)


@check("language:response_language")
def is_in_language(text: str, language: str) -> bool:
    return language_of(text) in (language, None)


@check("length_constraints:number_sentences")
def number_sentences(text: str, num_sentences: int, relation: str) -> bool:
    return _compare(count_sentences(text), relation, num_sentences)


@check("length_constraints:number_paragraphs")
def number_paragraphs(text: str, num_paragraphs: int) -> bool:
    """Paragraphs are divided by three asterisks; only the first and the last part may be empty."""
    parts = [part.strip() for part in timed(r"\s?\*\*\*\s?").split(text)]
    return all(parts[1:-1]) and sum(map(bool, parts)) == num_paragraphs


@check("length_constraints:number_words")
def number_words(text: str, num_words: int, relation: str) -> bool:
    return _compare(len(timed(r"\w+").findall(text)), relation, num_words)


@check("length_constraints:nth_paragraph_first_word")
def nth_paragraph_first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = [part.strip() for part in text.split("\n\n")]
    count = sum(map(bool, parts))
    if nth_paragraph > count or not parts[nth_paragraph - 1]:
        return False
    word = timed(r"[^.,?!'\"]*").match(parts[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"'))
    return count == num_paragraphs and word is not None and word[0].lower() == first_word.lower()


@check("detectable_content:number_placeholders")
def number_placeholders(text: str, num_placeholders: int) -> bool:
    # `\[.*?\]` in linear time: of what stands between two closing brackets of a line, one opening bracket is enough.
    count = sum("[" in part for line in text.split("\n") for part in line.split("]")[:-1])
    return count >= num_placeholders


@check("detectable_content:postscript")
def has_postscript(text: str, postscript_marker: str) -> bool:
    known = {"P.P.S": r"\s*p\.\s?p\.\s?s.*$", "P.S.": r"\s*p\.\s?s\..*$"}
    pattern = known.get(postscript_marker.strip(), rf"\s*{postscript_marker.strip().lower()}.*$")
    return timed(pattern, re.MULTILINE).search(text.lower()) is not None


@check("detectable_format:number_bullet_lists")
def number_bullets(text: str, num_bullets: int) -> bool:
    return len(timed(r"^\s*\*[^\*].*$|^\s*-.*$", re.MULTILINE).findall(text)) == num_bullets


@check("detectable_format:constrained_response")
def constrained_response(text: str) -> bool:
    return any(answer in text for answer in ("My answer is yes.", "My answer is no.", "My answer is maybe."))


@check("detectable_format:number_highlighted_sections")
def number_highlights(text: str, num_highlights: int) -> bool:
    single = [marked.strip("*") for marked in timed(r"\*[^\n\*]*\*").findall(text)]
    double = [marked[2:-2] for marked in timed(r"\*\*[^\n\*]*\*\*").findall(text)]
    return sum(bool(marked.strip()) for marked in single + double) >= num_highlights


@check("detectable_format:multiple_sections")
def multiple_sections(text: str, section_spliter: str, num_sections: int) -> bool:
    return len(timed(rf"\s?{section_spliter.strip()}\s?\d+\s?").findall(text)) >= num_sections


@check("detectable_format:json_format")
def is_json(text: str) -> bool:
    body = timed(r"\A```(?:json|Json|JSON)?").sub("", text.strip()).removesuffix("```").strip()
    try:
        json.loads(body)
    except (ValueError, RecursionError):  # brackets without end
        return False
    return True


@check("detectable_format:title")
def has_title(text: str) -> bool:
    return any(title.lstrip("<").rstrip(">").strip() for title in timed(r"<<[^\n]+>>").findall(text))


@check("combination:two_responses")
def two_responses(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    given = [part for part in parts if part]
    return all(parts[1:-1]) and len(given) == 2 and given[0] != given[1]


@check("combination:repeat_prompt")
def repeats_prompt(text: str, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@check("startend:end_checker")
def ends_with(text: str, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@check("startend:quotation")
def is_quoted(text: str) -> bool:
    text = text.strip()
    return len(text) > 1 and text.startswith('"') and text.endswith('"')


@check("change_case:capital_word_frequency")
def capital_words(text: str, capital_frequency: int, capital_relation: str) -> bool:
    return _compare(
        sum(word.isupper() for word in timed(r"[\w'-]+").findall(text)), capital_relation, capital_frequency
    )


@check("change_case:english_capital")
def is_capital_english(text: str) -> bool:
    return text.isupper() and language_of(text) in ("en", None)


@check("change_case:english_lowercase")
def is_lowercase_english(text: str) -> bool:
    return text.islower() and language_of(text) in ("en", None)


@check("punctuation:no_comma")
def has_no_comma(text: str) -> bool:
    return "," not in text


_ABBREVIATION = re.compile(r"\b(?:[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|No|Inc|Ltd|Co|U\.S|Ph\.D)\.$")
_LONGEST = 8
"""No abbreviation is longer, so no more of the text before a full stop is looked at."""
_END = re.compile(r"[.!?]+[\"')\]”’]*(?=\s+[\"'(\[“‘]*[A-Z0-9])")


def count_sentences(text: str) -> int:
    """
    >>> count_sentences("Dr. Who came. Did he? Yes!"), count_sentences("")
    (3, 0)
    """
    ends = [
        end
        for end in _END.finditer(text)
        if not _ABBREVIATION.search(text, max(0, end.start() - _LONGEST), end.start() + 1)
    ]
    return len(ends) + 1 if text.strip() else 0


def language_of(text: str) -> str | None:
    """The code of the language; None for a text without any, such as a number."""
    from assay.errors import MissingPackage

    try:
        import langdetect  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise MissingPackage(
            "checking the language of a response needs langdetect, which is not installed",
            hint="pip install langdetect",
            package="langdetect",
        ) from None
    langdetect.DetectorFactory.seed = 0
    try:
        language: Any = langdetect.detect(text)
    except langdetect.LangDetectException:
        return None
    return str(language)
