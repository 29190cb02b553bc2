"""Backends against a server: what is sent, what comes back, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.asking import NGRAM, ask, close_to, connect, generations, pairs, with_tokens
from tests.models.openai.faulty_server import FaultyServer

from assay.errors import ConfigError, ModelError
from assay.instance import Message, Response
from assay.models import LM, load_model

# -- what is asked and what comes back ------------------------------------------------------------------------------


def test_loglikelihoods_are_those_of_the_model_behind_the_server() -> None:
    likely = NGRAM.generate_until([ask("generate_until", "The mill at", {"max_gen_toks": 9})])[0]
    requests = [*pairs(12), ask("loglikelihood", "The mill at", likely)]
    with FaultyServer() as server:
        model = connect(server)
        answers = model.loglikelihood(requests)
        assert close_to(answers, NGRAM.loglikelihood(requests))
        assert answers[-1][1] is True
        # A space at the end of the context is scored with the continuation, as everywhere in this field.
        moved = model.loglikelihood([ask("loglikelihood", "Tea ", "should")])
        assert close_to(moved, NGRAM.loglikelihood([ask("loglikelihood", "Tea", " should")]))
        model.close()


def test_an_empty_context_needs_a_prefix() -> None:
    with FaultyServer() as server:
        model = connect(server)
        with pytest.raises(ModelError, match=r"eos_string"):
            model.loglikelihood([ask("loglikelihood", "", "Salt")])
        model.close()
        model = connect(server, eos_string="\0")
        requests = [ask("loglikelihood", "", "Salt")]
        assert close_to(model.loglikelihood(requests), NGRAM.loglikelihood(requests))
        rolling = [ask("loglikelihood_rolling", text) for text in ("The river is", "", "é")]
        assert model.loglikelihood_rolling(rolling) == pytest.approx(NGRAM.loglikelihood_rolling(rolling))
        model.close()


def test_with_a_tokenizer_ids_are_sent_and_long_texts_are_cut() -> None:
    with FaultyServer() as server:
        model = with_tokens(connect(server, max_length=40))
        requests = [ask("loglikelihood", "x" * 100 + " The river is", " wide"), ask("loglikelihood", "", "Salt é")]
        assert close_to(model.loglikelihood(requests), NGRAM.loglikelihood(requests))
        assert all(isinstance(body["prompt"], list) and len(body["prompt"]) <= 39 for body in server.bodies[1:])
        text = "The river Orle begins in a field that nobody would look at twice. " * 3
        value = model.loglikelihood_rolling([ask("loglikelihood_rolling", text)])[0]
        # Windows forget what lies before them, so only the order of magnitude is that of the whole.
        assert value == pytest.approx(NGRAM.loglikelihood_rolling([ask("loglikelihood_rolling", text)])[0], rel=0.3)
        answer = dict(model.stream("loglikelihood", [ask("loglikelihood", "a", "b" * 60)], [0]))[0]
        assert "60 tokens, but max_length is 40" in str(answer.failure)
        model.close()


def test_a_tokenizer_of_transformers_brings_its_chat_template_and_its_ids(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    raw = tokenizers.Tokenizer(tokenizers.models.BPE({"<s>": 0, **{c: i + 1 for i, c in enumerate("abc yz")}}, []))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %} y{% endif %}"
    )
    tokenizer.save_pretrained(tmp_path)
    with FaultyServer() as server:
        model = connect(server, tokenizer=str(tmp_path))
        assert model.apply_chat_template([{"role": "user", "content": "abc"}]) == "abc y"
        assert model.chat_template() == tokenizer.chat_template
        model._echo_works = True
        model.loglikelihood([ask("loglikelihood", "ab ", "c"), ask("loglikelihood", "", "ab")])
        assert sorted(body["prompt"] for body in server.bodies) == [[0, 1, 2], [1, 2, 4, 3]]
        model.close()
        model = connect(server)
        with pytest.raises(ModelError, match="local-chat-completions"):
            model.apply_chat_template([{"role": "user", "content": "abc"}])
        model.close()


def test_generation_is_the_models_own_and_says_why_it_ended() -> None:
    requests = generations(10)
    with FaultyServer() as server:
        model = connect(server)
        answers = dict(model.stream("generate_until", requests, [0] * 10))
        expected = dict(NGRAM.stream("generate_until", requests, [0] * 10))
        assert [answers[i].answer for i in range(10)] == [expected[i].answer for i in range(10)]
        assert [answers[i].stop_reason == "length" for i in range(10)] == [
            expected[i].stop_reason == "length" for i in range(10)
        ]
        usage = model.usage
        assert usage.prompt_tokens == sum(len(str(r.args[0]).encode()) for r in requests)
        model.close()


def test_prompts_go_out_in_the_order_of_the_prefix_tree() -> None:
    requests = generations(20)
    random.Random(0).shuffle(requests)
    with FaultyServer() as server:
        model = connect(server, num_concurrent=1)
        model.generate_until(requests)
        model.close()
        sent = [body["prompt"] for body in server.bodies]
    assert sent == sorted(sent)
    assert len(sent) == 20


def test_draws_have_their_own_seeds() -> None:
    request = ask("generate_until", "The", {"temperature": 1.0, "max_gen_toks": 20})
    with FaultyServer() as server:
        model = connect(server)
        first = [a.answer for _, a in sorted(model.stream("generate_until", [request] * 4, [0, 1, 2, 3]))]
        again = dict(model.stream("generate_until", [request], [2]))[0].answer
        model.close()
    assert len(set(first)) == 4
    assert again == first[2]


def test_settings_that_only_python_takes_for_equal_are_sent_as_they_are() -> None:
    with FaultyServer() as server:
        model = connect(server)
        model.generate_until([ask("generate_until", f"{i}", {"flag": value}) for i, value in enumerate([1, True, 1.0])])
        model.close()
        sent = {body["prompt"]: repr(body["flag"]) for body in server.bodies}
    assert sent == {"0": "1", "1": "True", "2": "1.0"}


def test_at_most_four_stops_are_sent_and_all_are_obeyed() -> None:
    request = ask("generate_until", "The river", {"until": ["Q", "W", "Z", "X", " "], "max_gen_toks": 30})
    with FaultyServer() as server:
        model = connect(server)
        text = model.generate_until([request])[0]
        model.close()
    assert len(server.bodies[0]["stop"]) == 4
    assert " " not in text


def test_chat_sends_messages_and_cannot_score() -> None:
    messages = [{"role": "user", "content": "What do bees make?"}]
    with FaultyServer() as server:
        model = connect(server, "local-chat-completions", price_in=1.0, price_out=2.0)
        prompt = model.to_context(messages)
        assert prompt == (Message("user", "What do bees make?"),)
        requests = [
            ask("generate_until", prompt, {"until": ["."]}),
            ask("generate_until", "plain", {"max_gen_toks": 3}),
        ]
        texts = model.generate_until(requests)
        asked = NGRAM.apply_chat_template(messages)
        assert texts[0] == NGRAM.generate_until([ask("generate_until", asked, {"until": ["."]})])[0]
        assert sorted(body["messages"][0]["content"] for body in server.bodies) == ["What do bees make?", "plain"]
        assert model.usage.cost == pytest.approx((20 * 1.0 + 10 * 2.0) / 1e6)
        with pytest.raises(ModelError, match="cannot score"):
            list(model.stream("loglikelihood", pairs(1), [0]))
        model.close()


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_what_comes_with_an_answer_is_kept(field: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    request = ask("generate_until", "The river", {"until": ["."], "max_gen_toks": 90})
    with FaultyServer(beside={field: "I think.", "tool_calls": [call], "content": None}) as server:
        model = connect(server, "local-chat-completions")
        response = dict(model.stream("generate_until", [request], [0]))[0]
        model.close()
    expected = Response("", "tool_calls", tokens=(10, 5), reasoning="I think.", tool_calls=(call,), model="ngram-2")
    assert response == expected


def test_what_a_completions_server_gives_beside_the_text_is_kept() -> None:
    with FaultyServer(beside={"reasoning": "I think.", "tool_calls": ["no call"]}) as server:
        model = connect(server)
        response = dict(model.stream("generate_until", generations(1), [0]))[0]
        model.close()
    assert (response.reasoning, response.tool_calls, response.model) == ("I think.", (), None)


@pytest.mark.parametrize(
    ("name", "has"), [("gpt-4o", True), ("o3-mini", False), ("gpt-5", False), ("gpt-3.5-turbo", True)]
)
def test_reasoning_models_get_neither_temperature_nor_stops(name: str, has: bool) -> None:
    with FaultyServer() as server:
        model = connect(server, "openai-chat", model=name)
        model.generate_until([ask("generate_until", "x", {"until": ["."]})])
        model.close()
    assert ("temperature" in server.bodies[0]) is has
    assert ("stop" in server.bodies[0]) is has
    assert "max_completion_tokens" in server.bodies[0]


def test_the_answer_after_the_thoughts_is_taken() -> None:
    with FaultyServer() as server:
        model = connect(server, think_end_token="is")
        request = ask("generate_until", "Six times", {"until": ["."], "max_gen_toks": 40})
        response = dict(model.stream("generate_until", [request], [0]))[0]
        model.close()
    assert "stop" not in server.bodies[0]
    assert "is" not in response.answer
    assert "." not in response.answer
    assert response.reasoning is not None
    assert NGRAM.generate_until([ask("generate_until", "Six times", {"max_gen_toks": 40})])[0].startswith(
        response.reasoning
    )


# -- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_key": "sk-x"}, "export OPENAI_API_KEY"),
        ({"header": {"Authorization": "Bearer x"}}, "would be written"),
        ({"base_url": "http://me:secret@host/v1"}, "password"),
        ({"base_url": "localhost:8000"}, "base_url is"),
        ({"base_url": "http://localhost:80000/v1"}, "base_url is"),
        ({"base_url": None}, "no server was given"),
        ({"tokenizer_backend": "bpe"}, "huggingface or tiktoken"),
        ({"tokenized_requests": True}, "needs a tokenizer"),
        ({"base_ulr": "x"}, "Did you mean base_url"),
    ],
)
def test_wrong_settings_are_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_model("local-completions", {"base_url": "http://localhost:1/v1", "model": "m", **settings})
    assert "secret" not in str(caught.value)


def test_the_only_model_of_a_server_needs_no_name() -> None:
    with FaultyServer() as server:
        model: LM = load_model("local-completions", {"base_url": server.url})
        assert model.model == "ngram"  # type: ignore[attr-defined]
        model.close()


def test_openai_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        load_model("openai-completions", {"model": "davinci-002"})


def test_a_query_stays_at_the_end_of_the_address() -> None:
    with FaultyServer() as server:
        deployment = f"{server.url}/deployments/mine?api-version=2024-10-21"
        model = load_model("local-chat-completions", {"base_url": deployment, "backoff": 0.01})
        assert model.generate_until(generations(1)) != [""]
        model.close()
    assert server.paths == [
        f"/v1/deployments/mine{page}?api-version=2024-10-21" for page in ("/models", "/chat/completions")
    ]
