"""The n-gram model is a language model: its probabilities are what the definition says, and they sum to one."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError, ModelError
from assay.instance import Instance, Response
from assay.models import load_model
from assay.models.ngram import ByteNgrams


def ask(kind: str, *arguments: Any) -> Instance:
    return Instance(kind, {}, arguments, 0)  # type: ignore[arg-type]


def by_definition(text: bytes, context: bytes, byte: int, order: int) -> float:
    """Witten-Bell straight from the formula, for texts short enough to count by hand."""
    result = 1 / 256
    for length in range(min(order - 1, len(context)) + 1):
        suffix = context[len(context) - length :]
        follow = Counter(text[i + length] for i in range(len(text) - length) if text[i : i + length] == suffix)
        total, kinds = sum(follow.values()), len(follow)
        if total:
            result = (follow[byte] + kinds * result) / (total + kinds)
    return result


@given(st.binary(min_size=1, max_size=30), st.binary(max_size=6), st.integers(1, 8))
def test_probabilities_follow_the_definition_and_sum_to_one(text: bytes, context: bytes, order: int) -> None:
    probabilities = np.exp(ByteNgrams(text, order).logprobs(context))
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    used = context[max(0, len(context) - order + 1) :]
    for byte in {*text, 0, 255}:
        assert probabilities[byte] == pytest.approx(by_definition(text, used, byte, order), rel=1e-9)


def test_rare_bytes_at_the_edge_of_the_packed_range() -> None:
    text = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff" * 3
    assert np.exp(ByteNgrams(text, 8).logprobs(b"\xff" * 7))[255] > 0.9


def test_a_loglikelihood_is_the_sum_over_its_bytes() -> None:
    model = load_model("ngram")
    whole, _ = model.loglikelihood([ask("loglikelihood", "The river", " is wide.")])[0]
    parts = [("The river", " is"), ("The river is", " wide"), ("The river is wide", ".")]
    assert whole == pytest.approx(sum(v for v, _ in model.loglikelihood([ask("loglikelihood", *p) for p in parts])))


def test_rolling_is_the_likelihood_after_an_empty_context() -> None:
    model = load_model("ngram")
    assert model.loglikelihood_rolling([ask("loglikelihood_rolling", "Salt é")])[0] == pytest.approx(
        model.loglikelihood([ask("loglikelihood", "", "Salt é")])[0][0]
    )
    assert model.loglikelihood_rolling([ask("loglikelihood_rolling", "")]) == [0.0]


def test_greedy_text_is_what_is_greedy_says() -> None:
    model = load_model("ngram")
    text = model.generate_until([ask("generate_until", "The mill at", {"max_gen_toks": 20})])[0]
    assert model.loglikelihood([ask("loglikelihood", "The mill at", text)])[0][1] is True
    assert model.loglikelihood([ask("loglikelihood", "The mill at", "#" + text)])[0][1] is False


def test_it_knows_its_text() -> None:
    model = load_model("ngram")
    right, wrong = model.loglikelihood(
        [ask("loglikelihood", "The capital of France is", c) for c in (" Paris.", " Tokyo.")]
    )
    assert right[0] > wrong[0]


def test_generation_stops_and_says_why() -> None:
    model = load_model("ngram")
    settings: list[dict[str, Any]] = [{"until": ["."]}, {"until": [], "max_gen_toks": 5}, {"max_gen_toks": 0}]
    requests = [ask("generate_until", "Question: What do bees make?\nAnswer: Bees", s) for s in settings]
    answers = dict(model.stream("generate_until", requests, [0, 0, 0]))
    assert answers[0].answer == " make honey and wax"
    assert [answers[i].stop_reason for i in range(3)] == ["stop", "length", "length"]
    assert answers[2].answer == ""
    ended = dict(model.stream("generate_until", [ask("generate_until", "Bees make honey and wax", {})], [0]))
    assert ended[0] == Response(".", "eos")


def test_draws_are_reproducible_whatever_is_asked_beside_them() -> None:
    model = load_model("ngram")
    request = ask("generate_until", "The", {"temperature": 1.0, "max_gen_toks": 30})
    many = [a.answer for _, a in model.stream("generate_until", [request] * 4, [0, 1, 2, 3])]
    assert len(set(many)) == 4
    assert next(iter(model.stream("generate_until", [request], [2])))[1].answer == many[2]


def test_sampling_follows_the_distribution() -> None:
    model = load_model("ngram", {"order": 1})
    request = ask("generate_until", "x", {"temperature": 1.0, "max_gen_toks": 1})
    texts = [a.answer for _, a in model.stream("generate_until", [request] * 2000, range(2000))]
    expected = math.exp(model.loglikelihood([ask("loglikelihood", "x", "e")])[0][0])
    share = texts.count("e") / 2000
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 2000)


def test_text_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("abcd\n\nabcd\n")
    model = load_model("ngram", {"text_file": str(tmp_path / "t.txt"), "order": 3})
    assert model.generate_until([ask("generate_until", "a", {})]) == ["bcd"]
    assert model.fingerprint() != load_model("ngram", {"order": 3}).fingerprint()


@pytest.mark.parametrize("content", [None, "", "\n\n \n"])
def test_a_bad_text(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "t.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ModelError, match="training text"):
        load_model("ngram", {"text_file": str(path)})


def test_a_bad_order() -> None:
    with pytest.raises(ConfigError, match="order is 9"):
        load_model("ngram", {"order": 9})
