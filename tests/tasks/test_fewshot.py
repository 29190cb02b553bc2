"""Which docs become shots: the draws of lm-evaluation-harness, and never the doc that is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tasks.made_up import TEST, TRAIN, arguments, make_task

from assay.compat.lm_eval.samplers import ContextSampler
from assay.errors import DataError
from assay.tasks import SAMPLERS, RequestOptions, Sampler
from assay.tasks.fewshot import EvalDoc, FewshotPool, RandomSampler


def shots_of(context: str) -> list[str]:
    """The names of the docs before the one that is asked about."""
    return [part.split("\n")[0].removeprefix("Q: ") for part in context.split("\n\n")[:-1]]


def drawn(task: Any, n: int, **options: Any) -> list[list[str]]:
    return [shots_of(asked[0][0]) for asked in arguments(task, num_fewshot=n, **options)]


def reference_draws(pool: list[Any], asked: list[Any], n: int, seed: int, *, excluding: bool) -> list[list[Any]]:
    """The rule of lm-evaluation-harness, written down once more on docs."""
    generator, found = Random(seed), []
    for doc in asked:
        if not excluding:
            found.append(generator.sample(pool, n))
            continue
        kept = [shot for shot in generator.sample(pool, n + 1) if shot != doc][:n]
        if len(kept) < n:
            kept = generator.sample([shot for shot in pool if shot != doc], n)
        found.append(kept)
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=4, max_size=25), st.integers(1, 3), st.integers(0, 9))
def test_draws_with_the_doc_excluded_follow_the_reference(pool: list[int], n: int, seed: int) -> None:
    if len({*pool}) <= n + 1:
        return
    asked = sorted({*pool})
    if any(sum(x != doc for x in pool) < n for doc in asked):
        return
    docs = FewshotPool([{"q": number} for number in pool])
    sampler = RandomSampler(docs, seed)
    draws = [sampler.draw(n, EvalDoc(-1, {"q": number}, docs, is_excluded=True)) for number in asked]
    mine = [[pool[position] for position in draw.shots] for draw in draws]
    assert mine == reference_draws(pool, asked, n, seed, excluding=True)


def test_draws_without_exclusion_follow_the_reference() -> None:
    expected = reference_draws([doc["q"] for doc in TRAIN], TEST, 4, 1234, excluding=False)
    assert drawn(make_task(fewshot_split="train"), 4) == expected
    assert drawn(make_task(fewshot_split="train"), 4, fewshot_seed=7) != expected


def test_neither_split_named_still_draws_one_more() -> None:
    """`None == None` counts as the same split; many task files have their shots from it."""
    task = make_task(test_split=None, validation_split="test", training_split="train")
    assert drawn(task, 2) == reference_draws(
        [doc["q"] for doc in TRAIN], [doc["q"] for doc in TEST], 2, 1234, excluding=True
    )


def test_first_n() -> None:
    assert drawn(make_task(fewshot_config={"sampler": "first_n"}), 3) == [["tr0", "tr1", "tr2"]] * 8
    own = make_task(fewshot_split="test", fewshot_config={"sampler": "first_n"})
    assert drawn(own, 2)[:3] == [["te1", "te2"], ["te0", "te2"], ["te0", "te1"]]
    assert drawn(own, 0) == [[]] * 8


def test_indices_restrict_the_pool() -> None:
    task = make_task(fewshot_config={"fewshot_indices": [3, 5, 7]})
    assert {name for names in drawn(task, 2) for name in names} == {"tr3", "tr5", "tr7"}


def test_listed_samples_and_a_function_that_gives_them() -> None:
    samples = [{"q": "one", "label": 0}, {"q": "two", "label": 1}]
    for listed in (samples, lambda: samples):
        task = make_task(fewshot_config={"samples": listed, "sampler": "first_n"})
        assert drawn(task, 2)[0] == ["one", "two"]


def test_a_sampler_class_of_a_task_file() -> None:
    class Last(ContextSampler):
        def sample(self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any) -> Any:
            return self.df[-n:]

    assert drawn(make_task(fewshot_config={"sampler": Last}), 2)[0] == ["tr28", "tr29"]


def test_a_sampler_class_cannot_give_a_doc_itself_either() -> None:
    class First(ContextSampler):
        def sample(self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any) -> Any:
            assert eval_doc is None, "test only: lm-evaluation-harness does not pass the doc"
            return self.df[:n]

    task = make_task(training_split=None, fewshot_config={"sampler": First})
    names = drawn(task, 2)
    assert names[2:] == [["te0", "te1"]] * 6
    assert "te0" not in names[0]
    assert names[0][1] == "te1"
    assert names[1][0] == "te0"
    assert task.fewshot_replaced == 2


def test_a_sampler_class_that_gives_the_doc_twice_gets_two_others() -> None:
    class First(ContextSampler):
        def sample(self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any) -> Any:
            return self.df[:n]

    docs = [{"q": name, "label": 0} for name in "aabcc"]
    task = make_task(test=docs, training_split=None, fewshot_config={"sampler": First})
    assert drawn(task, 3, limit=1) == [["c", "c", "b"]]


# ---------------------------------------------------------------------- samplers that look at docs


class Nearest(Sampler):
    """The shots that share most words with the question, the nearest last."""

    def __init__(self, docs: Any, seed: int | None) -> None:
        super().__init__(docs, seed)
        self.words = [{*doc["q"].split()} for doc in docs]

    def sample(self, n: int, eval_doc: dict[str, Any], candidates: Sequence[int]) -> Sequence[int]:
        asked = {*eval_doc["q"].split()}
        return nlargest(n, candidates, key=lambda position: len(self.words[position] & asked))[::-1]


TOWNS = ["capital of France", "river of France", "capital of old Peru", "longest word"]
ASKED = ["the capital of Peru", "longest river of France"]


def as_docs(questions: list[str]) -> list[dict[str, Any]]:
    return [{"q": question, "label": 0} for question in questions]


def test_a_sampler_chooses_by_what_the_docs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLERS._entries, "nearest", Nearest)
    task = make_task(train=as_docs(TOWNS), test=as_docs(ASKED), fewshot_config={"sampler": "nearest"})
    assert drawn(task, 2) == [["capital of France", "capital of old Peru"], ["capital of France", "river of France"]]


def test_a_sampler_class_of_ours_in_a_task_file() -> None:
    task = make_task(train=as_docs(TOWNS), test=as_docs(ASKED), fewshot_config={"sampler": Nearest})
    assert drawn(task, 1) == [["capital of old Peru"], ["river of France"]]


@pytest.mark.parametrize("split", [None, "test"])
def test_the_nearest_doc_is_never_the_doc_itself(split: str | None) -> None:
    docs = as_docs([*TOWNS, TOWNS[0]])
    task = make_task(test=docs, training_split=None, fewshot_split=split, fewshot_config={"sampler": Nearest})
    names = drawn(task, 2)
    assert names[0] == ["capital of old Peru", "river of France"]
    assert all(name not in shots for name, shots in zip(TOWNS, names))
    assert task.fewshot_replaced == 0, "its draws are no other harness's, so none was changed"


def test_a_sampler_that_chooses_what_it_was_not_offered() -> None:
    class Stubborn(Sampler):
        def sample(self, n: int, eval_doc: dict[str, Any], candidates: Sequence[int]) -> Sequence[int]:
            return [0]

    with pytest.raises(DataError, match=r"doc 0: Stubborn chose \[0\], expected 2 of the positions"):
        drawn(make_task(fewshot_config={"sampler": Stubborn}), 2)
    with pytest.raises(DataError, match=r"doc 0: Stubborn chose \[0\], expected 1 of the positions"):
        drawn(make_task(training_split=None, fewshot_config={"sampler": Stubborn}), 1)


@pytest.mark.parametrize(("sampler", "most"), [("first_n", 3), ("default", 8 * 3)])
def test_only_what_is_drawn_is_read(sampler: str, most: int) -> None:
    class Counted(list[Any]):
        read: ClassVar[set[int]] = set()

        def __getitem__(self, position: Any) -> Any:
            self.read.add(position)
            return super().__getitem__(position)

    pool = Counted({"q": f"tr{i}", "label": 0} for i in range(1000))
    task = make_task(fewshot_config={"samples": [], "sampler": sampler})
    task.fewshot_docs = lambda: pool  # type: ignore[method-assign]
    assert [len(shots) for shots in drawn(task, 3)] == [3] * 8
    assert 0 < len(pool.read) <= most


def test_own_process_docs_of_the_pool() -> None:
    task = make_task(
        fewshot_split="train", fewshot_config={"process_docs": lambda docs: docs.select([4]), "sampler": "first_n"}
    )
    assert drawn(task, 1)[0] == ["tr4"]


def test_an_explicit_null_leaves_the_pool_unprocessed() -> None:
    fields: dict[str, Any] = {"process_docs": lambda docs: docs.map(lambda doc: {"q": doc["q"].upper()})}
    task = make_task(fewshot_split="train", fewshot_config={"process_docs": None, "sampler": "first_n"}, **fields)
    assert arguments(task, num_fewshot=1)[0][0][0] == "Q: tr0\nA: x\n\nQ: TE0\nA:"


# ---------------------------------------------------------------------- the doc among its own shots


def test_a_doc_is_never_its_own_shot_and_no_other_prompt_changes() -> None:
    """Test split only: lm-evaluation-harness draws from it without looking, and some docs draw themselves."""
    docs = [{"q": f"te{i}", "label": i % 2} for i in range(12)]
    task = make_task(test=docs, training_split=None)
    names = [doc["q"] for doc in docs]
    leaky = reference_draws(names, names, 3, 1234, excluding=False)
    mine = drawn(task, 3)
    own = [i for i, name in enumerate(names) if name in leaky[i]]
    assert own, "the case must occur for the test to mean anything"
    for i, (there, here) in enumerate(zip(leaky, mine)):
        assert names[i] not in here
        assert len({*here}) == 3
        if i in own:
            assert [a for a, b in zip(there, here) if a == b] == [name for name in there if name != names[i]]
        else:
            assert here == there
    assert task.fewshot_replaced == len(own)
    marked = [r.doc_id for r in task.iter_requests(RequestOptions(num_fewshot=3)) if r.shot_replaced]
    assert marked == own


def test_a_copy_of_the_doc_in_the_training_split_counts_as_the_doc() -> None:
    task = make_task(train=[TEST[0], *TRAIN[:2]], fewshot_split="train")
    for names in drawn(task, 2)[:1]:
        assert "te0" not in names


def test_a_doc_that_is_unequal_to_itself_is_found_by_its_place() -> None:
    docs = [{"q": f"te{i}", "label": 0, "x": float("nan")} for i in range(3)]
    task = make_task(test=docs, training_split=None)
    for i, names in enumerate(drawn(task, 2)):
        assert f"te{i}" not in names


def test_docs_get_their_shots_whoever_else_is_asked() -> None:
    task = make_task(fewshot_split="train")
    everything = arguments(task, num_fewshot=3)
    assert arguments(task, num_fewshot=3, only=(2, 5)) == [everything[2], everything[5]]


def test_docs_get_their_shots_in_whatever_order_they_are_asked() -> None:
    task = make_task(training_split=None)
    everything = arguments(task, num_fewshot=3)
    replaced = task.fewshot_replaced
    order = [5, 0, 3, 1, 4, 2]
    assert arguments(task, num_fewshot=3, only=order) == [everything[i] for i in order]
    assert task.fewshot_replaced == replaced


# ---------------------------------------------------------------------- too many


@pytest.mark.parametrize("sampler", ["default", "first_n"])
def test_more_shots_than_docs(sampler: str) -> None:
    with pytest.raises(DataError, match="doc 0: 31 shots were requested, but the few-shot split has 30 docs"):
        arguments(make_task(fewshot_split="train", fewshot_config={"sampler": sampler}), num_fewshot=31)


@pytest.mark.parametrize("sampler", ["default", "first_n"])
@pytest.mark.parametrize("split", [None, "test"])
def test_as_many_shots_as_docs_where_one_is_the_doc_itself(sampler: str, split: str | None) -> None:
    task = make_task(training_split=None, fewshot_split=split, fewshot_config={"sampler": sampler})
    with pytest.raises(DataError, match="itself"):
        arguments(task, num_fewshot=8)


def test_an_unknown_sampler() -> None:
    with pytest.raises(Exception, match="few-shot sampler 'frist_n'"):
        arguments(make_task(fewshot_config={"sampler": "frist_n"}), num_fewshot=1)


def test_a_task_that_fixes_no_shots_keeps_none() -> None:
    assert drawn(make_task(num_fewshot=0), 5)[0] == []
    assert len(drawn(make_task(num_fewshot=2), 5)[0]) == 5


def test_every_shot_is_rendered_once() -> None:
    calls: list[str] = []

    def text(doc: dict[str, Any]) -> str:
        calls.append(doc["q"])
        return str(doc["q"])

    task = make_task(doc_to_text=text, fewshot_split="train", fewshot_config={"sampler": "first_n"})
    arguments(task, num_fewshot=5)
    assert [calls.count(f"tr{i}") for i in range(5)] == [1] * 5
