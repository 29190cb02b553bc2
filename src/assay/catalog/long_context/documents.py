"""RULER's questions on documents: those that hold the answer among as many others as fit.

Questions are read from files that the user names. Wording, sizes and draws are as in lm-evaluation-harness (`ruler_qa_*`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from assay.catalog.long_context.making import MOST_BYTES, Doc, WantedDocs, each_length, grow, text_hash
from assay.errors import DataError
from assay.paths import read_regular

ROOM, STEP, SHUFFLE_SEED = 32, 10, 42
_TASK = "Answer the question based on the given documents. Only give me the answer and do not output any other words."


class DocumentQuestion(NamedTuple):
    text: str
    answers: list[str]
    holding: list[int]
    """Documents that hold the answer."""
    near: list[int]
    """Others on the same subject."""


class Collection(NamedTuple):
    questions: list[DocumentQuestion]
    documents: list[str]


def squad(squad: str = "", **given: Any) -> dict[str, Any]:
    return _questions(read_json(squad, "SQuAD 2.0's dev-v2.0.json", "squad"), squad_collection, given)


def hotpot(hotpot: str = "", **given: Any) -> dict[str, Any]:
    return _questions(read_json(hotpot, "HotpotQA's hotpot_dev_distractor_v1.json", "hotpot"), hotpot_collection, given)


def _questions(text: str, collection_of: Any, given: dict[str, Any]) -> dict[str, Any]:
    try:
        collection: Collection = collection_of(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"the file of questions is not what it should be: {type(error).__name__}: {error}",
            hint="Name the file as its authors publish it.",
        ) from error
    wanted = WantedDocs.of(given)
    facts = {"task": collection_of.__name__, "questions": text_hash(text)}
    return wanted.made(lambda: make_docs(wanted, collection), **facts)


def read_json(named: str, what: str, key: str) -> str:
    if not named:
        raise DataError(
            f"this task needs {what}, which does not come with it", hint=f"Fetch it and name it: --metadata {key}=FILE."
        )
    try:
        return read_regular(Path(named).expanduser(), MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        raise DataError(f"{named} cannot be read: {error}", hint=f"Name {what}: --metadata {key}=FILE.") from None


def squad_collection(data: Any) -> Collection:
    """Questions that have an answer."""
    paragraphs = [[each["context"] for each in article["paragraphs"]] for article in data["data"]]
    documents = sorted({text for texts in paragraphs for text in texts})
    number = {text: at for at, text in enumerate(documents)}
    questions = []
    for article, texts in zip(data["data"], paragraphs):
        for paragraph in article["paragraphs"]:
            own = number[paragraph["context"]]
            near = [number[text] for text in texts if number[text] != own]
            questions += [
                DocumentQuestion(each["question"], [answer["text"] for answer in each["answers"]], [own], near)
                for each in paragraph["qas"]
                if not each["is_impossible"]
            ]
    return Collection(questions, documents)


def hotpot_collection(data: Any) -> Collection:
    texts = [[f"{title}\n{''.join(sentences)}" for title, sentences in each["context"]] for each in data]
    documents = sorted({text for of_one in texts for text in of_one})
    number = {text: at for at, text in enumerate(documents)}
    questions = [
        DocumentQuestion(each["question"], [each["answer"]], [number[text] for text in of_one], [])
        for each, of_one in zip(data, texts)
    ]
    return Collection(questions, documents)


def make_docs(wanted: WantedDocs, collection: Collection) -> Iterator[Doc]:
    return each_length(wanted, lambda length: _docs(wanted, collection, length))


def _docs(wanted: WantedDocs, collection: Collection, length: int) -> Iterator[Doc | None]:
    rng = random.Random(wanted.seed)
    questions, documents = collection

    def text_of(count: int) -> str:
        return f"{prompt(questions[0], documents, count, rng)} {questions[0].answers}"

    most = max(1, grow(text_of, wanted.tokens, length - ROOM, STEP, start=STEP, most=len(documents)))
    for index, question in enumerate(questions[: wanted.docs]):
        least = len(question.holding)
        for count in [*range(max(most, least), least, -STEP), least]:
            text = prompt(question, documents, count, rng)
            taken = wanted.tokens(text) + ROOM
            if taken <= length:
                yield {
                    "index": index,
                    "input": text,
                    "outputs": question.answers,
                    "length": taken,
                    "max_length": length,
                    "gen_prefix": "Answer:",
                }
                break


def prompt(question: DocumentQuestion, documents: list[str], count: int, rng: random.Random) -> str:
    """So many documents, first those that hold the answer, then those near them, then any; in an order that is fixed."""
    chosen = [*question.holding]
    if count >= len(documents):
        chosen = [*range(len(documents))]
    elif count - len(chosen) > len(question.near):
        chosen += question.near
        known = set(chosen)
        others = [at for at in range(len(documents)) if at not in known]
        chosen += rng.sample(others, max(0, count - len(chosen)))
    else:
        chosen += rng.sample(question.near, max(0, count - len(chosen)))
    random.Random(SHUFFLE_SEED).shuffle(chosen)
    context = "\n\n".join(f"Document {number}:\n{documents[at]}" for number, at in enumerate(chosen, 1))
    return f"{_TASK}\n\nThe following are given documents.\n\n{context}\n\n{_TASK}\n\nQuestion: {question.text}"
