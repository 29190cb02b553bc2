r"""How a choice is announced in twenty languages: the words before a label ("the answer is"), and after it ("is correct").

One row a language, with examples that a test reads. Words are matched without regard to case.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Announcement:
    """`before` stands right before a label or the text of a choice; `after` right after a label. Both are patterns."""

    language: str
    before: tuple[str, ...]
    after: str
    examples: tuple[str, ...]
    """Each states B."""


_ASIDE = r"(?:(?:therefore|thus|then|hence|indeed|clearly|probably|most likely|likely|definitely|simply|actually|still)[,\s]+)*"
_NOUN = r"(?:(?:the\s+)?(?:option|choice|letter|answer|alternative|either|both)\s*:?\s*){0,2}"
_BE = r"(?:\s+(?:is|was|remains|would be|must be|should be|will be|has to be|appears to be|seems to be)\b\s*:?|\s*[:=])"
_RIGHT = r"(?:correct|right|best|most\s+\w+|proper|final|only|closest|appropriate|accurate)"
_ABOUT = r"(?:\s+(?:choice|option|letter|to|for|of|in|among|from|here|that|which|based|given|according|I|we|you)\b[^.!?\n:=]{0,80}?)?"

LANGUAGES: tuple[Announcement, ...] = (
    Announcement(
        "English",
        (
            rf"\banswer{_ABOUT}{_BE}\s*{_ASIDE}{_NOUN}",
            rf"\b{_RIGHT}\s+(?:\w+\s+)?(?:option|choice|statement|alternative|letter|response|selection|one){_ABOUT}{_BE}\s*{_ASIDE}{_NOUN}",
            rf"\b(?:I|we)(?:'d|'ll|\s+would|\s+will)?\s+(?:therefore\s+)?(?:choose|pick|select|go with|answer)\s+{_NOUN}",
            r"\bclosest\s+(?:one\s+)?is\s+" + _NOUN,
            r"\bmy\s+(?:choice|pick|selection)\s+is\s+" + _NOUN,
        ),
        r"(?:is|would be|must be)\s+"
        + _ASIDE
        + r"(?:the\s+)?(?:only\s+|most\s+)?(?:correct|right|best|appropriate\s+(?:answer|choice))\b",
        (
            "The answer is (B).",
            "The best answer to the question is therefore B.",
            "I would go with B.",
            "B is correct.",
        ),
    ),
    Announcement(
        "German",
        (
            r"\b(?:antwort|lösung)(?:\s+(?:auf|zu)\b[^.!?\n:]{0,60}?)?(?:\s+(?:ist|lautet|wäre)\b\s*:?|\s*:)\s*(?:(?:daher|also|somit|folglich)\s+)?(?:(?:die\s+)?(?:option|antwort|buchstabe)\s*)?",
            r"\brichtig(?:e\s+\w+)?\s+ist\s+(?:(?:daher|also|somit)\s+)?(?:(?:die\s+)?(?:option|antwort)\s*)?",
        ),
        r"ist\s+(?:daher\s+|also\s+|somit\s+)?(?:die\s+)?(?:richtig|korrekt)",
        ("Die richtige Antwort ist B.", "Die Antwort lautet (B).", "Richtig ist also Antwort B.", "B ist richtig."),
    ),
    Announcement(
        "French",
        (
            r"\b(?:réponse|solution)(?:\s+(?:à|correcte|exacte|finale|juste)\b[^.!?\n:]{0,60}?)?(?:\s+(?:est|serait)\b\s*:?|\s*:)\s*(?:(?:donc|bien)\s+)?(?:(?:la\s+|l')?(?:réponse|option|lettre)\s*)?",
            r"\bbonne\s+(?:réponse|option)\s+est\s+(?:donc\s+)?(?:(?:la\s+|l')?(?:réponse|option|lettre)\s*)?",
        ),
        r"est\s+(?:donc\s+)?(?:la\s+)?(?:bonne|correcte?|juste|exacte?)",
        ("La réponse est B.", "La bonne réponse est donc la lettre B.", "Réponse : (B)", "B est correcte."),
    ),
    Announcement(
        "Spanish",
        (
            r"\b(?:respuesta|opción\s+correcta|solución)(?:\s+(?:correcta|final|a)\b[^.!?\n:]{0,60}?)?(?:\s+(?:es|sería)\b\s*:?|\s*:)\s*(?:(?:por\s+tanto|entonces)[,\s]+)?(?:(?:la\s+)?(?:opción|letra|respuesta)\s*)?(?:la\s+)?",
        ),
        r"es\s+(?:la\s+)?(?:opción\s+|respuesta\s+)?correcta",
        ("La respuesta es B.", "La respuesta correcta es la opción (B).", "Respuesta: B", "B es correcta."),
    ),
    Announcement(
        "Italian",
        (
            r"\b(?:risposta|opzione\s+corretta|soluzione)(?:\s+(?:corretta|esatta|giusta|finale|a)\b[^.!?\n:]{0,60}?)?(?:\s+(?:è|sarebbe)(?!\w)\s*:?|\s*:)\s*(?:(?:quindi|dunque)\s+)?(?:(?:la\s+|l')?(?:opzione|lettera|risposta)\s*)?(?:la\s+)?",
        ),
        r"è\s+(?:la\s+)?(?:risposta\s+|opzione\s+)?(?:corretta|giusta|esatta)",
        ("La risposta è B.", "La risposta corretta è quindi la lettera B.", "Risposta: (B)", "B è corretta."),
    ),
    Announcement(
        "Portuguese",
        (
            r"\b(?:resposta|alternativa\s+correta|opção\s+correta)(?:\s+(?:correta|certa|final|para|a)\b[^.!?\n:]{0,60}?)?(?:\s+(?:é|seria)(?!\w)\s*:?|\s*:)\s*(?:(?:portanto|então)[,\s]+)?(?:(?:a\s+)?(?:opção|letra|alternativa|resposta)\s*)?",
        ),
        r"é\s+(?:a\s+)?(?:resposta\s+|alternativa\s+|opção\s+)?(?:correta|certa)",
        ("A resposta é B.", "A resposta correta é a letra B.", "Resposta: (B)", "B é a alternativa correta."),
    ),
    Announcement(
        "Dutch",
        (
            r"\bantwoord(?:\s+op\b[^.!?\n:]{0,60}?)?(?:\s+(?:is|luidt)\b\s*:?|\s*:)\s*(?:(?:dus|daarom)\s+)?(?:(?:optie|antwoord|letter)\s*)?",
        ),
        r"is\s+(?:dus\s+)?(?:het\s+)?(?:juist|correct|goed)",
        ("Het antwoord is B.", "Het juiste antwoord is dus optie B.", "Antwoord: (B)", "B is juist."),
    ),
    Announcement(
        "Polish",
        (
            r"\b(?:odpowiedź|odpowiedzią)(?:\s+(?:na|prawidłowa|poprawna)\b[^.!?\n:]{0,60}?)?(?:\s+(?:to|jest|brzmi)\b\s*:?|\s*:)\s*(?:(?:więc|zatem|odpowiedź|opcja)\s+){0,2}",
        ),
        r"jest\s+(?:\w+\s+)?(?:prawidłow|poprawn)\w+",
        ("Odpowiedź to B.", "Prawidłowa odpowiedź to (B).", "Poprawną odpowiedzią jest B.", "Odpowiedź: B"),
    ),
    Announcement(
        "Finnish",
        (r"\bvastaus(?:\s+kysymykseen)?(?:\s+(?:on|olisi)\b\s*:?|\s*:)\s*(?:(?:siis|siten|vaihtoehto)\s+){0,2}",),
        r"on\s+(?:siis\s+)?(?:oikein|oikea)",
        ("Vastaus on B.", "Oikea vastaus on siis vaihtoehto B.", "Vastaus: (B)", "B on oikein."),
    ),
    Announcement(
        "Swedish",
        (
            r"\bsvar(?:et)?(?:\s+på\b[^.!?\n:]{0,60}?)?(?:\s+är(?!\w)\s*:?|\s*:)\s*(?:(?:alltså|därför|alternativ)\s+){0,2}",
        ),
        r"är\s+(?:alltså\s+)?(?:det\s+)?(?:rätt|korrekt)",
        ("Svaret är B.", "Det rätta svaret är alltså alternativ B.", "Svar: (B)", "B är rätt."),
    ),
    Announcement(
        "Danish",
        (r"\bsvar(?:et)?(?:\s+på\b[^.!?\n:]{0,60}?)?(?:\s+er\b\s*:?|\s*:)\s*(?:(?:altså|derfor|mulighed)\s+){0,2}",),
        r"er\s+(?:altså\s+)?(?:det\s+)?(?:rigtig|korrekt)\w*",
        ("Svaret er B.", "Det rigtige svar er altså mulighed B.", "Svar: (B)", "B er korrekt."),
    ),
    Announcement(
        "Czech",
        (
            r"\b(?:odpověď|odpovědí)(?:\s+na\b[^.!?\n:]{0,60}?)?(?:\s+(?:je|zní)\b\s*:?|\s*:)\s*(?:(?:tedy|tudíž|možnost)\s+){0,2}",
        ),
        r"je\s+(?:tedy\s+)?(?:správn)\w+",
        ("Odpověď je B.", "Správná odpověď je tedy možnost B.", "Odpověď: (B)", "B je správná odpověď."),
    ),
    Announcement(
        "Russian",
        (
            r"\b(?:ответ|ответом|вариант)(?:\s+(?:на|является)\b[^.!?\n:]{0,60}?)?(?:\s*[:—–-]|\s+(?:это|является)|(?=\s+\(?[A-Z]\)?(?:[.\s]|$)))\s*(?:(?:это|вариант|буква)\s+){0,2}",
        ),
        r"(?:—\s*|является\s+|это\s+)?(?:правильн|верн)\w+",
        ("Ответ: B", "Правильный ответ — (B).", "Правильный ответ: вариант B.", "Ответ B."),
    ),
    Announcement(
        "Ukrainian",
        (
            r"\b(?:відповідь|відповіддю)(?:\s+на\b[^.!?\n:]{0,60}?)?(?:\s*[:—–-]|\s+(?:це|є))\s*(?:(?:це|варіант|літера)\s+){0,2}",
        ),
        r"(?:—\s*|є\s+|це\s+)?(?:правильн|вірн)\w+",
        ("Відповідь: B", "Правильна відповідь — (B).", "Правильна відповідь: варіант B.", "Відповідь це B."),
    ),
    Announcement(
        "Turkish",
        (r"\b(?:cevap|yanıt)(?:\s*[:=]|(?=\s+\(?[A-Z]\)?(?:[.'’\s]|$)))\s*(?:seçenek\s+)?",),
        r"(?:şıkkı|seçeneği)?\s*(?:doğru)\w*",
        ("Cevap: B", "Doğru cevap B'dir.", "Doğru yanıt (B).", "B seçeneği doğrudur."),
    ),
    Announcement(
        "Chinese",
        (
            r"(?:答案|正确选项|正确的选项)(?:应该|应当|应)?(?:是|为|选|選|為|:)\s*(?:选项|選項)?",
            r"(?:故|应|所以|因此|我)(?:选择?|選擇?)\s*(?:选项)?",
        ),
        r"(?:选项)?\s*(?:是)?\s*正确(?:的|答案)",
        ("答案是B。", "正确答案为（B）。", "所以选B。", "答案：B"),
    ),
    Announcement(
        "Japanese",
        (r"(?:答え|正解|回答|解答|正しい選択肢)\s*(?:は|:)\s*(?:選択肢\s*)?",),
        r"(?:が|は)\s*(?:正解|正しい)",
        ("答えはBです。", "正解は（B）です。", "回答：B", "Bが正解です。"),
    ),
    Announcement(
        "Korean",
        (r"(?:정답|답|답변)\s*(?:은|는|:)\s*(?:선택지\s*)?",),
        r"(?:가|이)\s*(?:정답|맞)",
        ("정답은 B입니다.", "답은 (B)입니다.", "정답: B", "B가 정답입니다."),
    ),
    Announcement(
        "Arabic",
        (
            r"(?:الإجابة|الجواب|الاجابة)(?:\s+(?:الصحيحة|الصحيح|النهائية))?\s*(?:هي|هو|:)\s*:?\s*(?:الخيار\s+|الحرف\s+)?",
        ),
        r"(?:هي|هو)\s+(?:الإجابة|الجواب|الخيار)\s+(?:الصحيحة|الصحيح)",
        ("الإجابة هي B.", "الإجابة الصحيحة هي (B).", "الجواب هو B.", "الإجابة: B"),
    ),
    Announcement(
        "Hindi",
        (r"(?:उत्तर|जवाब)\s*(?:है|:|(?=\s*\(?[A-Z]\)?(?:\s|$|।)))\s*:?\s*(?:विकल्प\s+)?",),
        r"(?:सही)\s*है",
        ("उत्तर: B", "सही उत्तर B है।", "सही उत्तर है (B)।", "B सही है।"),
    ),
)

STATED = "|".join(f"(?:{pattern})" for row in LANGUAGES for pattern in row.before)
_AFTER = "|".join(f"(?:{row.after})" for row in LANGUAGES)
_ONE = r"(?:[(\[]|(?<![A-Za-z0-9(\[]))(?P<{}>[A-Z]{{1,2}}|\d{{1,2}})(?![A-Za-z0-9'’])[)\]]?"
BY_LABEL = (
    rf"(?:\b(?:option|choice|answer)\s+)?{_ONE.format('label')}"
    rf"(?:\s*(?:,|and|or|und|oder|et|ou|y|o|e)\s*{_ONE.format('second')})?\s*(?:(?:are\s+(?:both\s+)?correct)|{_AFTER})"
)
JOINED = r"\s*(?:,\s*)?(?:/|&|\bor\b|\band\b|\boder\b|\bund\b|\bou\b|\bet\b|\by\b|\bo\b|\be\b|\bof\b|\ben\b|\blub\b|\bi\b|\btai\b|\bja\b|\beller\b|\boch\b|\bog\b|\bnebo\b|\ba\b|\bили\b|\bи\b|\bабо\b|\bта\b|\bveya\b|\bve\b|或|和|または|と|또는|와|과|أو|و|या|और|[,、，]|\n\s*(?=[A-Z]{1,2}[.)] ))\s*(?:(?:the\s+)?(?:option|choice|answer)\s+)?"
"""What joins two labels of which none is chosen."""
NEGATED = r"\b(?:not|never|cannot|incorrect|wrong|nicht|keine?|pas|no|não|non|niet|nie|ei|inte|ikke|není|не)\b|n't\b|değil|不|ない|아니|ليس|नहीं"
SUPPOSED = r"\b(?:if|whether|unless|suppose|supposing|assume|assuming|wenn|falls|ob|si|se|als|jeśli|jos|om|hvis|pokud|если|якщо)\s+(?:that\s+)?(?:(?:the|your|my|this|die|la|el|il|a|het|correct|right|final|best|richtige)\s+)*$"
CONNECTIVES = "because|since|as|for|due|based|given|which|where|when|with|weil|denn|da|car|parce|porque|perché|poiché|omdat|ponieważ|koska|eftersom|fordi|protože|çünkü"
"""Words that may follow a label that stands in a sentence."""
KEYS = r"(?:final_?|correct_?)?(?:answer|choice|option|label|letter|antwort|réponse|respuesta|risposta|resposta|antwoord|odpowiedź|vastaus|svar|odpověď|ответ|відповідь|cevap|答案|回答|정답|الإجابة|उत्तर)"
NEW_QUESTION = r"^(?:question|frage|pregunta|domanda|pergunta|vraag|pytanie|kysymys|fråga|spørgsmål|otázka|вопрос|питання|soru|问题|質問|질문|السؤال|प्रश्न)\s*(?:\d+\s*)?:"
