"""The backend as a whole: chat, thinking, encoder-decoder models, counts, and requests that cannot be answered."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from assay.errors import ConfigError, ModelError
from assay.instance import Instance, Message
from assay.models.hf import HFLM, selfcheck
from assay.models.hf.stops import StopRules, final_text


def ask(request_type: Any, *arguments: Any) -> Instance:
    return Instance(request_type, {}, arguments, 0)


def test_a_continuation_longer_than_the_context_fails_alone(llama: HFLM) -> None:
    long = " door" * 400
    answers = dict(
        llama.stream("loglikelihood", [ask("loglikelihood", "A", long), ask("loglikelihood", "A", " man")], [0, 0])
    )
    assert answers[0].failure is not None
    assert "256" in answers[0].failure
    assert answers[1].failure is None
    with pytest.raises(ModelError, match="request 0 cannot be answered"):
        llama.loglikelihood([ask("loglikelihood", "A", long)])


def test_a_continuation_without_tokens_fails_alone(llama: HFLM) -> None:
    (answer,) = dict(llama.stream("loglikelihood", [ask("loglikelihood", "A", "")], [0])).values()
    assert answer.failure is not None
    assert "nothing to score" in answer.failure


def test_an_empty_context_is_scored_from_the_prefix_token(llama: HFLM) -> None:
    ids = llama.encoder.encode(["light"], add_special_tokens=False)[0]
    with torch.inference_mode():
        logits = llama.model(torch.tensor([[0, *ids[:-1]]])).logits[0]
    expected = float(torch.log_softmax(logits, -1)[range(len(ids)), ids].sum())
    assert llama.loglikelihood([ask("loglikelihood", "", "light")])[0][0] == pytest.approx(expected, abs=1e-4)


def test_no_requests_no_answers(llama: HFLM) -> None:
    for request_type in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
        assert list(llama.stream(request_type, [], [])) == []  # type: ignore[arg-type]


def test_counting_says_what_would_be_computed(llama: HFLM) -> None:
    requests = [
        ask("loglikelihood", f"Question {i}: How many legs?", f" {x}") for i in range(3) for x in ("eight", "two")
    ]
    before = llama.usage.computed_tokens
    counted = llama.count_tokens("loglikelihood", requests)
    assert llama.usage.computed_tokens == before, "counting computes nothing"
    llama.loglikelihood(requests)
    assert llama.usage.computed_tokens - before == counted
    prompts = [ask("generate_until", f"Question {i}:", {"max_gen_toks": 2}) for i in range(3)]
    before = llama.usage.computed_tokens
    llama.generate_until(prompts)
    assert llama.usage.computed_tokens - before == llama.count_tokens("generate_until", prompts)
    text = [ask("loglikelihood_rolling", "The man walks. " * 3)]
    assert llama.count_tokens("loglikelihood_rolling", text) == len(llama.encoder.encode([text[0].args[0]])[0])


MESSAGES = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "the hen"}]


def test_chat_template_with_an_open_and_a_closed_end(llama: HFLM) -> None:
    assert llama.apply_chat_template(MESSAGES[:1]) == "<s>user\nWhich?</s>\n<s>assistant\n"
    assert llama.apply_chat_template(MESSAGES, add_generation_prompt=False).endswith("<s>assistant\nthe hen")


def test_named_templates(network: Any, tokenizer: Any) -> None:
    import copy

    several = copy.deepcopy(tokenizer)
    several.chat_template = {"default": "D", "tools": "T"}
    model = HFLM(network("llama"), tokenizer=several, threads=1)
    assert model.apply_chat_template(MESSAGES[:1]) == "D"
    assert model.chat_template("tools") == "T"
    assert model.apply_chat_template(MESSAGES[:1]) == "T"
    with pytest.raises(ConfigError, match="Did you mean tools"):
        model.chat_template("tool")


def test_a_template_that_raises_is_named(network: Any, tokenizer: Any) -> None:
    refusing = "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}{{ m['content'] }}{% endfor %}"
    model = HFLM(network("llama"), tokenizer=tokenizer, chat_template=refusing, threads=1)
    system = {"role": "system", "content": "Be brief."}
    assert model.apply_chat_template([system, *MESSAGES[:1]]) == "Which?", "without the system turn it works"
    model = HFLM(network("llama"), tokenizer=tokenizer, chat_template="{{ raise_exception('never') }}", threads=1)
    with pytest.raises(ModelError, match="never"):
        model.apply_chat_template(MESSAGES[:1])


def test_no_template_at_all(network: Any, bare_tokenizer: Any, tmp_path: Any) -> None:
    import copy

    silent = copy.deepcopy(bare_tokenizer)
    silent.chat_template = None
    model = HFLM(network("llama"), tokenizer=silent, threads=1)
    with pytest.raises(ModelError, match="has no chat template"):
        model.apply_chat_template(MESSAGES)
    with pytest.raises(ConfigError, match="neither a template nor a file"):
        HFLM(network("llama"), tokenizer=silent, chat_template="no_such_file.jinja", threads=1)
    (tmp_path / "chat.jinja").write_text("{{ messages[0]['content'] }}")
    model = HFLM(network("llama"), tokenizer=silent, chat_template=str(tmp_path / "chat.jinja"), threads=1)
    assert model.apply_chat_template(MESSAGES) == "Which?"


def test_thinking_needs_its_end_and_generation_tasks(network: Any, tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="think_end_token"):
        HFLM(network("llama"), tokenizer=tokenizer, enable_thinking=True)
    model = HFLM(network("llama"), tokenizer=tokenizer, enable_thinking=True, think_end_token="</think>", threads=1)
    with pytest.raises(ConfigError, match="does not work with loglikelihood"):
        model.loglikelihood([ask("loglikelihood", "A", " b")])


def test_marks_of_thoughts_are_found_in_the_template(network: Any, tokenizer: Any) -> None:
    template = "{{ messages[0]['content'] }}{% if enable_thinking is not false %}<think>{% endif %}{# </think> #}"
    model = HFLM(network("llama"), tokenizer=tokenizer, chat_template=template, threads=1)
    assert model.generations.thoughts == ("<think>", "</think>")
    assert model.info().max_gen_toks == model.max_length // 2
    prompt = str(model.to_context([Message("user", "Why?")]))
    (answer,) = [
        one for _, one in model.stream("generate_until", [ask("generate_until", prompt, {"max_gen_toks": 4})], [0])
    ]
    assert (answer.answer, answer.stop_reason) == ("", "length")
    assert answer.reasoning
    assert answer.reasoning_tokens
    quiet = HFLM(network("llama"), tokenizer=tokenizer, chat_template=template, enable_thinking=False, threads=1)
    (answer,) = [
        one for _, one in quiet.stream("generate_until", [ask("generate_until", "Why?", {"max_gen_toks": 4})], [0])
    ]
    assert (bool(answer.answer), answer.reasoning, quiet.info().max_gen_toks) == (True, None, 256)


def test_a_special_token_can_mark_the_end_of_thinking(llama: HFLM) -> None:
    rules = StopRules(("\n\n",), frozenset({1}), "</s>", 500, "<s>")
    text = llama.encoder.encode(["thoughts<s> 12\n\nmore"], add_special_tokens=False)[0]
    assert final_text(text, rules, llama.encoder) == ("thoughts", "12")


def test_encoder_decoder_models_work_plainly(t5: HFLM) -> None:
    assert not t5.check.passed
    (found,) = t5.loglikelihood([ask("loglikelihood", "Question: Which animal?", " the hen")])
    context = t5.encoder.encode(["Question: Which animal?"])[0]
    labels = t5.encoder.encode([" the hen"], add_special_tokens=False)[0]
    with torch.inference_mode():
        logits = t5.model(input_ids=torch.tensor([context]), labels=torch.tensor([labels])).logits[0]
    expected = float(torch.log_softmax(logits, -1)[range(len(labels)), labels].sum())
    assert found[0] == pytest.approx(expected, abs=1e-4)
    text = t5.generate_until([ask("generate_until", "Question: Which animal?", {"max_gen_toks": 6})])[0]
    output = t5.model.generate(torch.tensor([context]), max_new_tokens=6, do_sample=False)
    assert text == t5.encoder.decode(output[0].tolist()[1:])


def test_rolling_of_an_encoder_decoder_model(t5: HFLM) -> None:
    assert t5.loglikelihood_rolling([ask("loglikelihood_rolling", "The man walks.")])[0] < 0


def test_answers_say_how_many_tokens_they_took(llama: HFLM) -> None:
    def tokens(text: str) -> int:
        return len(llama.tokenizer(text, add_special_tokens=False)["input_ids"])

    context, continuation = "Question: Which animal lays eggs? Answer:", " the hen."
    pair = Instance("loglikelihood", {}, (context, continuation), 0)
    (answer,) = dict(llama.stream("loglikelihood", [pair], [0])).values()
    assert answer.tokens == (tokens(context), tokens(context + continuation) - tokens(context))
    text = Instance("loglikelihood_rolling", {}, (context,), 0)
    (answer,) = dict(llama.stream("loglikelihood_rolling", [text], [0])).values()
    assert answer.tokens == (0, tokens(context))
    prompt = Instance("generate_until", {}, (context, {"until": [], "max_gen_toks": 5}), 0)
    (answer,) = dict(llama.stream("generate_until", [prompt], [0])).values()
    assert answer.tokens == (tokens(context), 5)


def test_a_model_object_is_left_as_it_was_after_a_stop(network: Any, tokenizer: Any) -> None:
    """A run that was interrupted must not keep its owner, or the next run, from using the model."""
    model = HFLM(network("llama"), tokenizer=tokenizer, threads=1)
    assert dict(model.stream("loglikelihood", [ask("loglikelihood", "A", " b")], [0], stop=lambda: True)) == {}
    assert network("llama")(torch.tensor([[1, 2, 3]])).logits.shape[1] == 3
    again = HFLM(network("llama"), tokenizer=tokenizer, threads=1)
    assert again.loglikelihood([ask("loglikelihood", "A", " b")])


def test_a_model_that_gives_nan_by_the_tree_is_scored_plainly(
    network: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = selfcheck.score_by_tree

    def broken(runner: Any, requests: Any, budget: int) -> Any:
        yield from ((i, (float("nan"), False) if i == 3 else value) for i, value in real(runner, requests, budget))

    assert selfcheck.self_check(network("llama")).passed
    monkeypatch.setattr(selfcheck, "score_by_tree", broken)
    assert not selfcheck.self_check(network("llama")).passed


def test_sampling_left_to_transformers_takes_no_top_k_unless_told(llama: HFLM, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    generate = llama.model.generate
    monkeypatch.setattr(
        llama.model, "generate", lambda **options: given.append(options["top_k"]) or generate(**options)
    )
    for settings in ({}, {"top_k": 7}):
        request = ask("generate_until", "A", {"max_gen_toks": 2, "temperature": 1.0, "typical_p": 0.9, **settings})
        llama.generate_until([request])
    assert given == [0, 7]


def test_a_continuation_beyond_an_encoder_decoder_model_fails(t5: HFLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(t5, "max_length", 8)
    engine = dataclasses.replace(t5.loglikelihoods.engine, max_length=8)
    monkeypatch.setattr(t5.loglikelihoods, "engine", engine)
    (answer,) = dict(t5.stream("loglikelihood", [ask("loglikelihood", "A", " many words " * 20)], [0])).values()
    assert answer.answer is None
    assert "the model reads 8" in str(answer.failure)
