r"""Stylers for models that give no likelihoods of a given text: the model writes its answer, or its first token counts.

>>> question, choices = "Capital of France?", ["Berlin", "Paris", "London"]
>>> style = GenerateStyle()
>>> print(style.get_instruction_text(question, choices))
Question: Capital of France?
A. Berlin
B. Paris
C. London
Answer with the letter of the right choice alone.
Answer:
>>> style.get_fewshot_target_text(choices, 1)
'B'

>>> style = CoTStyle()
>>> print(style.get_instruction_text(question, choices).splitlines()[-2])
Think step by step. End with this sentence, with the letter of the right choice in place of X: The answer is (X).
>>> style.get_fewshot_target_text(choices, 1)
'The answer is (B).'

The wording is one for chats and for plain prompts: the cue closes the question, so that an assistant's turn holds the
answer and nothing else. All of it can be given in a task file: `style: {name: cot, instruction: …, statement: …}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from assay.errors import ConfigError
from assay.tasks.languages import words_of
from assay.tasks.styles import STYLERS, MCStyle, ResponseType
from assay.templates import get_n_letters


class Instructions(NamedTuple):
    """What is said before the answer, and how it is stated: `X` stands for the label."""

    label_only: str
    reason_first: str
    statement: str


@dataclass(frozen=True)
class GenerateStyle(MCStyle):
    """Choices are listed with labels, and the model writes the label of its answer."""

    response_type: ClassVar[ResponseType] = ResponseType.COMPLETION
    metrics: ClassVar[tuple[str, ...]] = ("exact_match",)
    task_style: ClassVar[str] = "generate"
    generation_kwargs: ClassVar[Mapping[str, Any]] = {"until": ["\n\n"], "do_sample": False}

    instruction: str = "Answer with the letter of the right choice alone."

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        asked = super().get_instruction_text(raw_question, choices)
        return "\n".join(part for part in (asked.rstrip("\n"), self.instruction, self.cue_text) if part)

    def get_cue_text(self) -> str:
        return ""

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        return get_n_letters(len(choices))[correct_index]

    def get_possible_completions(self, choices: Sequence[str], correct_index: int | None = None) -> list[str] | None:
        return None

    @classmethod
    def for_language(cls, language: Any, **options: Any) -> Self:
        """
        >>> GenerateStyle.for_language("de").instruction
        'Antworte nur mit dem Buchstaben der richtigen Antwort.'
        """
        own = {"instruction": instructions_of(language).label_only}
        return super().for_language(language, **{**own, **options})


@dataclass(frozen=True)
class CoTStyle(GenerateStyle):
    """Choices are listed with labels; the model reasons first and ends with a fixed sentence that names the label."""

    task_style: ClassVar[str] = "chain_of_thought"
    generation_kwargs: ClassVar[Mapping[str, Any]] = {"until": [], "do_sample": False, "max_gen_toks": 1024}

    instruction: str = (
        "Think step by step. End with this sentence, with the letter of the right choice in place of X: {statement}"
    )
    statement: str = "The answer is (X)."

    def __post_init__(self) -> None:
        if "X" not in self.statement:
            raise ConfigError(
                f"style cot: the statement {self.statement!r} has no X, where the label goes",
                hint="Write it like The answer is (X).",
            )

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        return super().get_instruction_text(raw_question, choices).replace("{statement}", self.statement)

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        return self.statement.replace("X", self.get_ground_truth(choices, correct_index))

    @classmethod
    def for_language(cls, language: Any, **options: Any) -> Self:
        """
        >>> CoTStyle.for_language("fr").get_fewshot_target_text(["Oui", "Non"], 0)
        'La réponse est (A).'
        """
        words = instructions_of(language)
        own = {"instruction": words.reason_first, "statement": words.statement}
        return super().for_language(language, **{**own, **options})


@dataclass(frozen=True)
class LettersStyle(GenerateStyle):
    """Worded like `GenerateStyle`, but nothing is generated: the labels are compared by the probabilities that the model
    gives the first token of its answer; servers return the most likely ones (`top_logprobs`)."""

    response_type: ClassVar[ResponseType] = ResponseType.LETTERS
    metrics: ClassVar[tuple[str, ...]] = ("acc",)
    task_style: ClassVar[str] = "letters"

    def get_possible_completions(self, choices: Sequence[str], correct_index: int | None = None) -> list[str] | None:
        return get_n_letters(len(choices))


STYLERS.add("gen", GenerateStyle)
STYLERS.add("cot", CoTStyle)
STYLERS.add("letters", LettersStyle)


_INSTRUCTIONS: dict[str, Instructions] = {
    "en": Instructions(
        "Answer with the letter of the right choice alone.",
        "Think step by step. End with this sentence, with the letter of the right choice in place of X: {statement}",
        "The answer is (X).",
    ),
    "de": Instructions(
        "Antworte nur mit dem Buchstaben der richtigen Antwort.",
        "Denke Schritt für Schritt nach. Schließe mit diesem Satz, mit dem Buchstaben der richtigen Antwort anstelle von "
        "X: {statement}",
        "Die Antwort ist (X).",
    ),
    "fr": Instructions(
        "Réponds uniquement par la lettre de la bonne réponse.",
        "Réfléchis étape par étape. Termine par cette phrase, avec la lettre de la bonne réponse à la place de X : "
        "{statement}",
        "La réponse est (X).",
    ),
    "es": Instructions(
        "Responde solo con la letra de la opción correcta.",
        "Piensa paso a paso. Termina con esta frase, con la letra de la opción correcta en lugar de X: {statement}",
        "La respuesta es (X).",
    ),
    "it": Instructions(
        "Rispondi solo con la lettera della risposta corretta.",
        "Ragiona passo dopo passo. Concludi con questa frase, con la lettera della risposta corretta al posto di X: "
        "{statement}",
        "La risposta è (X).",
    ),
    "pt": Instructions(
        "Responda apenas com a letra da opção correta.",
        "Pense passo a passo. Termine com esta frase, com a letra da opção correta no lugar de X: {statement}",
        "A resposta é (X).",
    ),
    "nl": Instructions(
        "Antwoord alleen met de letter van het juiste antwoord.",
        "Denk stap voor stap na. Eindig met deze zin, met de letter van het juiste antwoord in plaats van X: {statement}",
        "Het antwoord is (X).",
    ),
    "pl": Instructions(
        "Odpowiedz tylko literą poprawnej odpowiedzi.",
        "Pomyśl krok po kroku. Zakończ tym zdaniem, z literą poprawnej odpowiedzi w miejscu X: {statement}",
        "Odpowiedź to (X).",
    ),
    "fi": Instructions(
        "Vastaa vain oikean vaihtoehdon kirjaimella.",
        "Ajattele vaihe vaiheelta. Lopeta tähän lauseeseen, jossa X:n paikalla on oikean vaihtoehdon kirjain: {statement}",
        "Vastaus on (X).",
    ),
    "sv": Instructions(
        "Svara endast med bokstaven för rätt alternativ.",
        "Tänk steg för steg. Avsluta med denna mening, med bokstaven för rätt alternativ i stället för X: {statement}",
        "Svaret är (X).",
    ),
    "da": Instructions(
        "Svar kun med bogstavet for den rigtige mulighed.",
        "Tænk trin for trin. Slut med denne sætning, med bogstavet for den rigtige mulighed i stedet for X: {statement}",
        "Svaret er (X).",
    ),
    "cs": Instructions(
        "Odpověz pouze písmenem správné odpovědi.",
        "Přemýšlej krok za krokem. Zakonči touto větou, s písmenem správné odpovědi místo X: {statement}",
        "Odpověď je (X).",
    ),
    "ru": Instructions(
        "Ответь только латинской буквой правильного варианта.",
        "Рассуждай шаг за шагом. Закончи этим предложением, поставив вместо X латинскую букву правильного варианта: "
        "{statement}",
        "Ответ: (X).",
    ),
    "uk": Instructions(
        "Відповідай лише латинською літерою правильного варіанта.",
        "Міркуй крок за кроком. Закінчи цим реченням, поставивши замість X латинську літеру правильного варіанта: "
        "{statement}",
        "Відповідь: (X).",
    ),
    "tr": Instructions(
        "Yalnızca doğru seçeneğin harfiyle cevap ver.",
        "Adım adım düşün. X yerine doğru seçeneğin harfini yazarak şu cümleyle bitir: {statement}",
        "Cevap: (X).",
    ),
    "zh": Instructions(
        "只回答正确选项的字母。",
        "请逐步思考。最后用这句话结束，并把 X 换成正确选项的字母：{statement}",
        "答案是 (X)。",
    ),
    "ja": Instructions(
        "正しい選択肢の文字だけで答えてください。",
        "段階的に考えてください。最後は次の文で終え、X を正しい選択肢の文字に置き換えてください：{statement}",
        "答えは (X) です。",
    ),
    "ko": Instructions(
        "정답의 문자만 답하세요.",
        "단계별로 생각하세요. 마지막은 다음 문장으로 끝내고 X 자리에 정답의 문자를 쓰세요: {statement}",
        "정답은 (X)입니다.",
    ),
    "ar": Instructions(
        "أجب بحرف الخيار الصحيح فقط.",
        "فكر خطوة بخطوة. اختم بهذه الجملة مع وضع حرف الخيار الصحيح مكان X: {statement}",
        "الإجابة هي (X).",
    ),
    "hi": Instructions(
        "केवल सही विकल्प का अक्षर लिखकर उत्तर दें।",
        "चरण दर चरण सोचें। अंत में X की जगह सही विकल्प का अक्षर रखकर यह वाक्य लिखें: {statement}",
        "उत्तर: (X)।",
    ),
}


def instructions_of(language: Any) -> Instructions:
    """By the same names as the words before questions and answers."""
    by_words = {words_of(code): given for code, given in _INSTRUCTIONS.items()}
    return by_words[words_of(language)]
