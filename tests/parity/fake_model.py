"""A deterministic stand-in for a language model: every answer is a hash of the request.

The definition is the docstring of `oracle.py` beside the goldens; this is a second implementation of it. Answers of
goldens tagged `hints` are no function of the prompt; they are replayed from the golden.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from assay.instance import Instance

PLAIN_TEXTS = [
    "The answer is {n}.",
    "So the answer is {n}.\n#### {n}",
    "#### {n}",
    "{n}",
    " {n}\n\nQ: What is next?\nA: {n}",
    "First we add, then we get {n}. The final answer is {n}",
    "Thus the value is $\\boxed{{n}}$.",
    "Final Answer: The final answer is ${n}$. I hope it is correct.",
    "La respuesta es {n}. The answer is 1,{n}00.",
    "{L}",
    " {L}",
    "({L})",
    "{L}.",
    "The best answer is {L}.",
    "So the answer is ({L}).",
    "Let's see. the answer is ({L}).\n\nQuestion: another one",
    "Answer: {L}\nBecause of {w}.",
    "yes",
    "no",
    "Yes",
    "No.",
    " True",
    "False",
    "So the answer is Yes.",
    "So the answer is False.",
    "maybe",
    "entailment",
    "not_entailment",
    "choice1",
    "valid",
    "Not enough information",
    "unknown",
    "unanswerable",
    "Paris",
    " London.",
    "the {w}",
    "{w}",
    " {w}\n",
    "{w}, {w}",
    "{line}",
    " {line}\n\n{line}",
    "It is {w}, I think. The answer is {w}.",
    "I have no comment.",
    "* first point\n* second point\n* third point\n\nP.S. {w}",
    "<<{w}>>\n\nthis is written in lower case only and has no commas. is there anything else i can help with?",
    '{"name": "{w}", "value": {n}}',
    "",
    "\n\n",
]
CODE_TEXTS = [
    "    return {n}\n",
    "    pass\n",
    "    return []\n",
    "    return True\n\ndef other():\n    return {n}\n",
    "    return sorted(set([{n}, 1, 2]))\n\nprint({n})\n",
    "    x = {n}\n    return x if x else None\n",
    "def f(*args):\n    return {n}\n[DONE]\nmore",
    "```python\ndef f(*args):\n    return {n}\n```\nThat is all.",
    "assert f({n}) == {n}[/ANSWER]",
    "[ANSWER]\nassert f(1) == {n}\n[/ANSWER]",
    "[]",
    "'{w}'",
    "    return (",
    "",
]
SLOT = re.compile(r"\{(n|L|w|line)\}")


def digest(*parts: str) -> bytes:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()


def unit(d: bytes) -> float:
    """The first eight bytes as a double in [0, 1)."""
    return (int.from_bytes(d[:8], "big") >> 11) / 2**53


def loglikelihood(context: str, continuation: str) -> tuple[float, bool]:
    d = digest(context, continuation)
    return -(0.5 + 8.0 * unit(d) + 0.1 * len(continuation)), d[8] < 64


def rolling(text: str) -> float:
    return -(len(text) * (0.5 + unit(digest("rolling", text))))


def generate(context: str, settings: Mapping[str, Any], draw: int = 0) -> str:
    d = digest(context, str(draw))
    texts = CODE_TEXTS if "def " in context or "assert " in context else PLAIN_TEXTS
    slots = {"n": str(d[4] % 20), "L": "ABCDE"[d[5] % 5], "w": _words(context, d), "line": _line(context)}
    text = SLOT.sub(lambda match: slots[match[1]], texts[int.from_bytes(d[:4], "big") % len(texts)])
    until = settings.get("until") or []
    for stop in [until] if isinstance(until, str) else until:
        if stop:
            text = text.split(stop)[0]
    return text


def _words(context: str, d: bytes) -> str:
    words = context.split()[-60:]
    if not words:
        return ""
    start = int.from_bytes(d[6:8], "big") % len(words)
    return " ".join(words[start : start + 1 + d[8] % 4])


def _line(context: str) -> str:
    lines = [stripped for line in context.split("\n") if (stripped := line.strip())]
    return lines[-2] if len(lines) > 1 else "".join(lines)


def chat(messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
    text = "".join(f"<|{m['role']}|>\n{m['content']}<|end|>\n" for m in messages)
    return f"{text}<|assistant|>\n" if add_generation_prompt else text.removesuffix("<|end|>\n")


class FakeModel:
    """The functions above behind the LM contract; with `recorded`, generation is replayed from a golden."""

    tokenizer_name = "fake-lm"

    def __init__(self, recorded: Mapping[str, Sequence[str]] | None = None) -> None:
        self.recorded = recorded

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return [loglikelihood(*request.args[:2]) for request in requests]

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return [rolling(request.args[0]) for request in requests]

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        seen: Counter[str] = Counter()
        answers = []
        for request in requests:
            context, settings = request.args[:2]
            k = seen[context]
            seen[context] += 1
            if self.recorded is not None:
                responses = self.recorded[context]
                answers.append(responses[k % len(responses)])
            else:
                answers.append(generate(context, settings, k if settings.get("do_sample") else 0))
        return answers

    def chat_template(self, name: bool | str | None = None) -> str:
        return "<|role|>\\n content <|end|>\\n"

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
        return chat(messages, add_generation_prompt)

    def fingerprint(self) -> str:
        return "fake-lm" if self.recorded is None else f"fake-lm-replay-{id(self.recorded)}"


def recorded_responses(golden: Mapping[str, Any]) -> dict[str, list[str]]:
    """Context to its recorded generations, in order; a doc stands in the golden once per filter and counts once."""
    found: dict[str, list[str]] = defaultdict(list)
    for rows in golden["samples"].values():
        first = rows[0]["filter"] if rows else None
        for row in rows:
            if row["filter"] != first:
                continue
            for arguments, responses in zip(row["arguments"], row["resps"]):
                if responses and isinstance(responses[0], str):
                    found[arguments[0]] += responses
    return dict(found)
