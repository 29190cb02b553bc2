"""Texts, questions and a tokenizer for RULER's tasks, made here: what is compared is what two programs make of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import assay

ESSAYS = "baber/paul_graham_essays"
"""Where lm-evaluation-harness looks for essays: a directory of that name goes before the hub."""
_WORDS = ["time", "work", "idea", "people", "start", "company", "problem", "thing", "world", "mind", "good", "large"]


def write_tokenizer(place: Path) -> Path:
    """A small one that knows the words of the prompts."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=3000, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    code = sorted((Path(assay.__file__).parent / "catalog" / "long_context").glob("*.py"))
    raw.train_from_iterator([*(path.read_text() for path in code), *_WORDS], trainer)
    PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>").save_pretrained(place)
    return place


def sentences(rng: random.Random, count: int) -> str:
    made = [" ".join(rng.choices(_WORDS, k=rng.randint(4, 15))).capitalize() + rng.choice(".!?") for _ in range(count)]
    return "  ".join(made)


def write_essays(folder: Path) -> Path:
    rng = random.Random(5)
    path = folder / ESSAYS / "train.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps({"text": sentences(rng, 200)}) + "\n" for _ in range(10)))
    return path


def squad_file() -> dict[str, object]:
    rng = random.Random(6)
    return {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": sentences(rng, 5),
                        "qas": [
                            {
                                "question": sentences(rng, 1),
                                "answers": [{"text": rng.choice(_WORDS)}, {"text": rng.choice(_WORDS)}],
                                "is_impossible": rng.random() < 0.2,
                            }
                            for _ in range(6)
                        ],
                    }
                    for _ in range(6)
                ]
            }
            for _ in range(20)
        ]
    }


def hotpot_file() -> list[dict[str, object]]:
    rng = random.Random(7)
    return [
        {
            "question": sentences(rng, 1),
            "answer": rng.choice(_WORDS),
            "context": [
                [f"{rng.choice(_WORDS)} {rng.random()}", [sentences(rng, 1), sentences(rng, 1)]] for _ in range(3)
            ],
        }
        for _ in range(510)
    ]
