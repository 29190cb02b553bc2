"""Prompts that a model cannot read whole are said before they are asked, or refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigError
from assay.instance import Instance, Message
from assay.models import LM
from assay.models.ngram import NgramLM
from assay.run.needs import MOST, say_what_is_too_long


class Counting(NgramLM):
    """Reads so many words in all."""

    def __init__(self, context: int | None, *, cuts: bool, counts: bool = True) -> None:
        super().__init__()
        self.context, self.cuts, self.counts, self.asked = context, cuts, counts, 0

    @property
    def cuts_prompts(self) -> bool:
        return self.cuts

    def context_length(self) -> int | None:
        return self.context

    def text_tokens(self, text: str) -> int | None:
        self.asked += 1
        return len(text.split()) if self.counts else None


def ask(words: int, task: str = "sums", length: int = 4) -> Instance:
    made = Instance("generate_until", {}, ("word " * words, {"max_gen_toks": length}), 0)
    made.task_name = task
    return made


def said(lm: LM, instances: Sequence[Instance]) -> list[str]:
    lines: list[str] = []
    say_what_is_too_long(lm, instances, lines.append)
    return lines


def test_prompts_that_are_cut_are_counted_by_task() -> None:
    lm = Counting(20, cuts=True)
    asked = [*(ask(n) for n in (3, 16, 17, 30)), ask(40, "long"), ask(2, "long")]
    assert said(lm, asked) == [
        "sums: 2 of 4 prompts are longer than the 20 tokens that this model can read, including the answer: they are "
        "cut on the left. Fewer shots (--num_fewshot) make them shorter.",
        "long: 1 of 2 prompts are longer than the 20 tokens that this model can read, including the answer: they are "
        "cut on the left. Fewer shots (--num_fewshot) make them shorter.",
    ]


def test_where_a_server_would_decline_them_that_is_said_and_where_none_fits_the_task_is_refused() -> None:
    lm = Counting(20, cuts=False)
    assert "the server will reject them" in said(lm, [ask(3), ask(30)])[0]
    with pytest.raises(ConfigError, match="2 of 2 prompts are longer than the 20 tokens"):
        said(lm, [ask(40), ask(30)])
    assert len(said(Counting(20, cuts=True), [ask(40), ask(30)])) == 1


def test_texts_that_must_fit_are_not_counted_and_the_others_only_until_some_fit() -> None:
    short = Counting(200, cuts=True)
    assert said(short, [ask(30) for _ in range(100)]) == []
    assert short.asked == 0
    close = Counting(60, cuts=True)
    assert said(close, [ask(50) for _ in range(100)]) == []
    assert close.asked < 12
    many = Counting(60, cuts=True)
    assert f"at least {MOST} of 301 prompts" in said(many, [*(ask(80) for _ in range(300)), ask(1)])[0]
    assert many.asked == MOST


def test_the_choices_of_a_question_count_with_it_and_chats_by_their_text() -> None:
    lm = Counting(10, cuts=True)
    scored = Instance("loglikelihood", {}, ("word " * 10, " two words"), 0)
    assert len(said(lm, [scored])) == 1
    assert said(lm, [Instance("loglikelihood", {}, ("word " * 9, " two words"), 0)]) == []
    chat = Instance("generate_until", {}, ((Message("user", "word " * 30),), {"max_gen_toks": 2}), 0)
    assert len(said(lm, [chat])) == 1


@pytest.mark.parametrize("lm", [Counting(None, cuts=False), Counting(20, cuts=False, counts=False)])
def test_a_model_that_cannot_say_is_asked_all_the_same(lm: LM) -> None:
    assert said(lm, [ask(100)]) == []


def test_a_run_says_it_before_the_first_request(tmp_path: Path) -> None:
    import assay

    class Stops(Counting):
        def stream(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("asked")

    (tmp_path / "docs.jsonl").write_text(json.dumps({"q": "word " * 50, "a": "x"}) + "\n")
    head = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/docs.jsonl}}}}\ntest_split: test\n"
    body = "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {max_gen_toks: 4}\n"
    (tmp_path / "long.yaml").write_text(f"task: long\n{head}{body}")
    with pytest.raises(ConfigError, match="long: 1 of 1 prompts"):
        assay.evaluate(
            model=Stops(20, cuts=False), tasks=["long"], include_path=[str(tmp_path)], store=str(tmp_path / "s")
        )
