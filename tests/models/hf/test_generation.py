"""Generation by shared prefixes against transformers' own `generate`, one prompt at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from assay.errors import ConfigError
from assay.instance import Instance
from assay.models.hf import HFLM
from assay.models.hf.rows import RowGenerator

SHOTS = "Question: Which animal lays eggs? Answer: the hen. " * 6


def ask(context: str, **kwargs: Any) -> Instance:
    return Instance("generate_until", {}, (context, kwargs), 0)


@cache
def own_generate(model: HFLM, context: str, tokens: int) -> list[int]:
    ids = torch.tensor([model.encoder.encode([context])[0]])
    with torch.inference_mode():
        output = model.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=1
        )
    found: list[int] = output[0, ids.shape[1] :].tolist()
    return found


def contexts() -> list[str]:
    """Shared examples longer than what is copied, a second set of them, and prompts that share nothing."""
    other = "The man walks to the door and opens it. " * 8
    return [
        *(f"{SHOTS}Question: {question}" for question in ("What do plants need?", "How many legs?", "Which?", "日本")),
        *(f"{other}{what}" for what in ("Then", "A woman", "Then she")),
        SHOTS + "Question:",
        "1 + 1 =",
        "A",
    ]


@pytest.mark.parametrize(("budget", "rows"), [(512, 64), (40, 3), (4096, 1)])
def test_greedy_rows_equal_generate_one_by_one(any_model: HFLM, budget: int, rows: int) -> None:
    any_model.generations.engine.budget.tokens = budget
    any_model.generations.max_rows = any_model.generations.most_rows = rows
    for limit in (1, 12):
        prompts = any_model.generations.prepare([(text, {"max_gen_toks": limit}) for text in contexts()], [0] * 10)
        runner = any_model.generations.engine.runner
        assert runner is not None
        generator = RowGenerator(runner, any_model.encoder, tokens_per_pass=budget, max_rows=rows, cache_bytes=1 << 30)
        found = dict(generator.run(prompts))
        assert found == {i: own_generate(any_model, text, limit) for i, text in enumerate(contexts())}


def test_answers_are_text_with_the_reason_they_ended(llama: HFLM) -> None:
    answers = dict(llama.stream("generate_until", [ask(text, max_gen_toks=6) for text in contexts()], [0] * 10))
    for index, text in enumerate(contexts()):
        ids = own_generate(llama, text, 6)
        assert answers[index].answer == llama.encoder.decode(ids)
        assert answers[index].stop_reason == ("eos" if ids[-1] == 1 else "length")


def test_a_stop_string_split_over_tokens_ends_its_own_row_only(llama: HFLM) -> None:
    texts = contexts()[:4]
    full = llama.generate_until([ask(text, max_gen_toks=16) for text in texts])
    ids = own_generate(llama, texts[0], 16)
    # From the middle of one token to the middle of a later one.
    cut = len(llama.encoder.decode(ids[:5])) - 1
    stop = full[0][cut : cut + 4]
    assert len(llama.encoder.encode([stop])[0]) > 1
    answers = dict(
        llama.stream("generate_until", [ask(text, max_gen_toks=16, until=[stop]) for text in texts], [0] * 4)
    )
    assert answers[0].answer == full[0][: full[0].index(stop)]
    assert answers[0].stop_reason == "stop"
    for index in range(4):
        assert answers[index].answer == full[index].split(stop)[0]


def test_generation_does_not_go_on_after_a_stop_string(llama: HFLM) -> None:
    text = contexts()[0]
    full = llama.generate_until([ask(text, max_gen_toks=40)])[0]
    before = llama.usage.generated_tokens
    llama.generate_until([ask(text, max_gen_toks=40, until=full[2:4])])
    assert llama.usage.generated_tokens - before < 10


@pytest.mark.parametrize("alias", ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"])
def test_the_length_goes_by_four_names(llama: HFLM, alias: str) -> None:
    (answer,) = dict(llama.stream("generate_until", [ask("A woman", **{alias: 3})], [0])).values()
    assert answer.answer == llama.encoder.decode(own_generate(llama, "A woman", 3))


def test_a_draw_belongs_to_its_prompt_and_number_whatever_the_batch(llama: HFLM) -> None:
    sampled = {"max_gen_toks": 10, "do_sample": True, "temperature": 1.0, "top_p": 0.95}
    requests = [ask(text, **sampled) for text in contexts() for _ in range(3)]
    draws = [draw for _ in contexts() for draw in range(3)]
    together = dict(llama.stream("generate_until", requests, draws))
    for index in (0, 1, 2, 7, 29):
        alone = dict(llama.stream("generate_until", [requests[index]], [draws[index]]))
        assert alone[0] == together[index]
    assert len({together[draw].answer for draw in range(3)}) > 1, "draws of one prompt differ"


def test_greedy_draws_are_computed_once(llama: HFLM) -> None:
    before = llama.usage.generated_tokens
    answers = dict(llama.stream("generate_until", [ask("A woman", max_gen_toks=5)] * 4, [0, 1, 2, 3]))
    assert len({answer.answer for answer in answers.values()}) == 1
    assert llama.usage.generated_tokens - before <= 5


def test_repeats_share_the_prompt(llama: HFLM) -> None:
    before = llama.usage.computed_tokens
    list(llama.stream("generate_until", [ask(SHOTS, max_gen_toks=4, temperature=0.8)] * 20, list(range(20))))
    assert llama.usage.computed_tokens - before == len(llama.encoder.encode([SHOTS])[0])


def test_a_long_context_is_cut_from_the_left(llama: HFLM) -> None:
    long = "Question: " * 400 + "How many legs has a spider?"
    (prompt,) = llama.generations.prepare([(long, {"max_gen_toks": 20})], [0])
    assert len(prompt.tokens) == llama.max_length - 20
    assert list(prompt.tokens) == llama.encoder.encode([long])[0][-len(prompt.tokens) :]


def test_no_room_for_a_prompt_is_an_error_that_names_both_numbers(llama: HFLM) -> None:
    with pytest.raises(ConfigError, match=r"256.*256"):
        llama.generate_until([ask("A", max_gen_toks=256)])


def test_no_tokens_wanted_none_generated(llama: HFLM) -> None:
    (answer,) = dict(llama.stream("generate_until", [ask("A", max_gen_toks=0)], [0])).values()
    assert (answer.answer, answer.stop_reason) == ("", "length")


def test_an_empty_prompt_is_continued_from_the_prefix_token(llama: HFLM) -> None:
    assert isinstance(llama.generate_until([ask("", max_gen_toks=3)])[0], str)


def test_repetition_penalty_is_that_of_transformers(llama: HFLM) -> None:
    prompts = llama.generations.prepare([("A woman", {"max_gen_toks": 8, "repetition_penalty": 1.7})], [0])
    ids = torch.tensor([list(prompts[0].tokens)])
    expected = llama.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=8,
        do_sample=False,
        repetition_penalty=1.7,
        pad_token_id=1,
    )
    runner = llama.generations.engine.runner
    assert runner is not None
    generator = RowGenerator(runner, llama.encoder, tokens_per_pass=64, max_rows=4, cache_bytes=1 << 30)
    assert dict(generator.run(prompts))[0] == expected[0, ids.shape[1] :].tolist()


def test_settings_beyond_the_common_ones_are_left_to_transformers(llama: HFLM) -> None:
    found = llama.generate_until([ask("A woman", max_gen_toks=6, num_beams=2)])[0]
    ids = torch.tensor([llama.encoder.encode(["A woman"])[0]])
    expected = llama.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, num_beams=2, do_sample=False, pad_token_id=1
    )
    assert found == llama.encoder.decode(expected[0, ids.shape[1] :].tolist())
    with pytest.raises(ConfigError, match="rejected by transformers"):
        llama.generate_until([ask("A woman", max_gen_toks=6, no_such_setting=2)])


def test_out_of_memory_takes_fewer_rows_and_loses_nothing(llama: HFLM, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [ask(text, max_gen_toks=5) for text in contexts()]
    monkeypatch.setattr(llama.generations, "max_rows", 8)
    monkeypatch.setattr(llama.generations.engine.budget, "tokens", 512)
    expected = llama.generate_until(requests)
    real = RowGenerator._advance

    def cramped(self: RowGenerator) -> Any:
        if len(self._rows) > 3:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return real(self)

    monkeypatch.setattr(RowGenerator, "_advance", cramped)
    assert llama.generate_until(requests) == expected
    assert llama.generations.max_rows < 4


def test_a_small_cache_takes_fewer_rows(llama: HFLM) -> None:
    prompts = llama.generations.prepare([(text, {"max_gen_toks": 4}) for text in contexts()], [0] * 10)
    runner = llama.generations.engine.runner
    assert runner is not None
    generator = RowGenerator(runner, llama.encoder, tokens_per_pass=512, max_rows=64, cache_bytes=1)
    assert len(dict(generator.run(prompts))) == 10


@pytest.mark.parametrize("name", ["rwkv", "mamba", "gpt2"])
def test_fallback_generation_in_batches_says_what_each_prompt_says_alone(name: str, tokenizer: Any) -> None:
    """Greedy and drawn, prompts of several lengths and limits; a family that padding would change is not padded."""
    from tests.models.hf.families import build

    network = build(name, vocab_size=512)
    lm = HFLM(network, tokenizer=tokenizer, threads=1, tree=False)
    prompts = ["The man walks to the door and", "1 + 1 =", "Question: Which animal lays eggs? Answer:", "2 + 2 ="]
    greedy = {"until": ["zz"], "max_gen_toks": 5}
    drawn = {"until": [], "max_gen_toks": 8, "do_sample": True, "temperature": 0.9}
    asked = [Instance("generate_until", {}, (text, how), 0) for text in prompts for how in (greedy, drawn)]
    together = {index: response.answer for index, response in lm.stream("generate_until", asked, [3] * len(asked))}
    assert lm.generations._pads is (name != "rwkv")
    for index, instance in enumerate(asked):
        ((_, alone),) = lm.stream("generate_until", [instance], [3])
        assert together[index] == alone.answer
