"""The words before a question and before its answer, in twenty languages and those that somebody adds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from assay.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Words:
    """The words before a question and before its answer; `spaced` is False where words are written without spaces."""

    question: str
    answer: str
    spaced: bool = True


_LANGUAGES: dict[tuple[str, str, str], Words] = {
    ("English", "en", "eng"): Words("Question: ", "Answer:"),
    ("German", "de", "deu"): Words("Frage: ", "Antwort:"),
    ("French", "fr", "fra"): Words("Question : ", "Réponse :"),
    ("Spanish", "es", "spa"): Words("Pregunta: ", "Respuesta:"),
    ("Italian", "it", "ita"): Words("Domanda: ", "Risposta:"),
    ("Portuguese", "pt", "por"): Words("Pergunta: ", "Resposta:"),
    ("Dutch", "nl", "nld"): Words("Vraag: ", "Antwoord:"),
    ("Polish", "pl", "pol"): Words("Pytanie: ", "Odpowiedź:"),
    ("Finnish", "fi", "fin"): Words("Kysymys: ", "Vastaus:"),
    ("Swedish", "sv", "swe"): Words("Fråga: ", "Svar:"),
    ("Danish", "da", "dan"): Words("Spørgsmål: ", "Svar:"),
    ("Czech", "cs", "ces"): Words("Otázka: ", "Odpověď:"),
    ("Russian", "ru", "rus"): Words("Вопрос: ", "Ответ:"),
    ("Ukrainian", "uk", "ukr"): Words("Питання: ", "Відповідь:"),
    ("Turkish", "tr", "tur"): Words("Soru: ", "Cevap:"),
    ("Chinese", "zh", "zho"): Words("问题：", "答案：", spaced=False),
    ("Japanese", "ja", "jpn"): Words("質問：", "回答：", spaced=False),
    ("Korean", "ko", "kor"): Words("질문: ", "정답:"),
    ("Arabic", "ar", "ara"): Words("السؤال: ", "الإجابة:"),
    ("Hindi", "hi", "hin"): Words("प्रश्न: ", "उत्तर:"),
}


class Language(StrEnum):
    """The languages whose words are known, also by their English names and their codes."""

    ENG = "English"
    DEU = "German"
    FRA = "French"
    SPA = "Spanish"
    ITA = "Italian"
    POR = "Portuguese"
    NLD = "Dutch"
    POL = "Polish"
    FIN = "Finnish"
    SWE = "Swedish"
    DAN = "Danish"
    CES = "Czech"
    RUS = "Russian"
    UKR = "Ukrainian"
    TUR = "Turkish"
    ZHO = "Chinese"
    JPN = "Japanese"
    KOR = "Korean"
    ARA = "Arabic"
    HIN = "Hindi"


_BY_NAME = {name.lower(): words for names, words in _LANGUAGES.items() for name in names}
QUESTION_WORDS = "|".join(sorted({words.question.rstrip(" :：") for words in _LANGUAGES.values()}))
ANSWER_WORDS = "|".join(sorted({words.answer.rstrip(" :：") for words in _LANGUAGES.values()}))
"""Alternatives of a regular expression: how a question or an answer is announced in any of the languages."""


def words_of(language: Any) -> Words:
    """The words of a language, given by its English name or its two- or three-letter code.

    >>> words_of("German") == words_of("de") == words_of("DEU")
    True
    >>> words_of("fi")
    Words(question='Kysymys: ', answer='Vastaus:', spaced=True)
    """
    name = str(getattr(language, "value", language))
    words = _BY_NAME.get(name.lower())
    if words is None:
        known = [names[0] for names in _LANGUAGES]
        raise ConfigError(
            f"no words are known for the language {name!r}",
            hint=did_you_mean(name, [*known, *_BY_NAME])
            or f"Known: {', '.join(known)}. Or set question_prefix and cue_text.",
        )
    return words


def add_language(*names: str, question: str, answer: str, spaced: bool = True) -> None:
    """Adds the words for a language, under these names and codes.

    >>> add_language("Esperanto", "eo", "epo", question="Demando: ", answer="Respondo:")
    >>> words_of("eo").answer
    'Respondo:'
    """
    _BY_NAME.update({name.lower(): Words(question, answer, spaced) for name in names})
