"""The dummy's answers depend on the question and nothing else."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assay.instance import Instance
from assay.models import load_model


def ask(kind: str, *arguments: Any) -> Instance:
    return Instance(kind, {}, arguments, 0)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=10), st.randoms())
def test_order_and_batch_do_not_matter(pairs: list[tuple[str, str]], shuffler: random.Random) -> None:
    model = load_model("dummy")
    alone = {pair: model.loglikelihood([ask("loglikelihood", *pair)])[0] for pair in pairs}
    shuffler.shuffle(pairs)
    assert model.loglikelihood([ask("loglikelihood", *pair) for pair in pairs]) == [alone[pair] for pair in pairs]


def test_draws_of_a_prompt_differ_and_repeat() -> None:
    model = load_model("dummy")
    requests = [ask("generate_until", "a", {"until": ["\n"]})] * 5
    first = [answer.answer for _, answer in model.stream("generate_until", requests, range(5))]
    again = [answer.answer for _, answer in model.stream("generate_until", requests[:2], [3, 4])]
    assert len(set(first)) > 1
    assert again == first[3:]


def test_stop_strings_cut() -> None:
    model = load_model("dummy")
    texts = model.generate_until([ask("generate_until", str(i), {"until": " "}) for i in range(20)])
    assert all(" " not in text for text in texts)


def test_loglikelihoods_are_finite_and_negative_and_differ_by_seed() -> None:
    requests = [ask("loglikelihood", "c", str(i)) for i in range(200)]
    one, two = load_model("dummy").loglikelihood(requests), load_model("dummy", {"seed": 1}).loglikelihood(requests)
    assert all(-50 < value <= 0 for value, _ in one)
    assert one != two
    assert 10 < sum(greedy for _, greedy in one) < 100


def test_lone_surrogates_are_answered() -> None:
    assert load_model("dummy").loglikelihood([ask("loglikelihood", "\ud83d", "\udc00")])
