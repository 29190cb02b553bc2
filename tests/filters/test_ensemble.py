"""Chains of filters, and what they say about responses that could not be parsed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from assay.config import FilterConfig, FilterStep, FunctionRef
from assay.errors import ConfigError, ScoringError
from assay.filters import (
    DEFAULT_FILTER,
    Filter,
    FilterEnsemble,
    Lowercase,
    RemoveWhitespace,
    TakeFirstK,
    build_filter,
)
from assay.instance import Instance


def instance(*resps, doc_id=0, **fields):
    return Instance(
        "generate_until", {"n": doc_id}, ("q", {}), 0, doc_id, "demo", len(resps), resps=list(resps), **fields
    )


def ensemble(*steps, name="f"):
    return FilterEnsemble.from_config(FilterConfig(name=name, filter=list(steps)))


def test_steps_run_in_order():
    docs = [instance(" #### 5 ")]
    ensemble("remove_whitespace", "regex", "take_first").apply(docs)
    assert docs[0].filtered_resps == {"f": "5"}


def test_a_task_without_filters_takes_the_first_response():
    docs = [instance("a", "b")]
    FilterEnsemble.from_config(DEFAULT_FILTER).apply(docs)
    assert docs[0].filtered_resps == {"none": "a"}


def test_an_empty_chain_leaves_the_list():
    docs = [instance("a", "b")]
    ensemble().apply(docs)
    assert docs[0].filtered_resps["f"] == ["a", "b"]


def test_no_instances_is_no_error():
    ensemble("regex", "take_first").apply([])


@pytest.mark.parametrize(
    ("last", "flags"),
    [
        ("take_first", [True]),
        ({"function": "take_first_k", "k": 2}, [True, False]),
        ("majority_vote", []),
        ("lowercase", [True, False, False]),
    ],
)
def test_flags_follow_the_responses(last, flags):
    docs = [instance("none", "#### 4", "#### 4")]
    ensemble("regex", last).apply(docs)
    assert docs[0].unparsed.get("f", []) == flags


def test_a_majority_of_unparsed_responses_is_unparsed():
    docs = [instance("none", "none either", "#### 4"), instance("#### 1", "#### 2", "none", doc_id=1)]
    chain = ensemble("regex", "majority_vote", "take_first")
    chain.apply(docs)
    assert [doc.filtered_resps["f"] for doc in docs] == ["[invalid]", "1"]
    assert [doc.unparsed.get("f") for doc in docs] == [[True], None]


def test_failed_requests_are_left_alone():
    docs = [instance(failure="the server went away"), instance("#### 1", doc_id=1)]
    ensemble("regex", "take_first").apply(docs)
    assert docs[0].filtered_resps == {}
    assert docs[1].filtered_resps == {"f": "1"}


def test_contaminated_docs_are_dropped(tmp_path: Path):
    known = tmp_path / "known.txt"
    known.write_text("once upon a time there was a fox\n", encoding="utf-8")
    texts = ["He said: Once upon a time, there was a fox!", "an entirely different and quite new story"]
    docs = [Instance("generate_until", {"text": text}, ("q", {}), 0, i, resps=["x"]) for i, text in enumerate(texts)]
    ensemble({"function": "decontaminate", "path": str(known), "n": 5}, "take_first").apply(docs)
    assert [doc.filtered_resps for doc in docs] == [{}, {"f": "x"}]


def test_decontaminate_needs_its_file():
    with pytest.raises(ConfigError, match="no file"):
        ensemble({"function": "decontaminate", "path": "/nowhere"})


class Shouting(Filter):
    def apply(self, resps, docs):
        return (f"{entry[0]}{docs[i]['n']}!" for i, entry in enumerate(resps))


def test_a_class_is_a_filter_and_sees_the_docs():
    docs = [instance("a"), instance("b", doc_id=1)]
    ensemble({"function": Shouting}).apply(docs)
    assert [doc.filtered_resps["f"] for doc in docs] == ["a0!", "b1!"]


def test_functions_of_task_files_are_filters(tmp_path: Path):
    (tmp_path / "utils.py").write_text("def first(resps, docs):\n    return [r[0].upper() for r in resps]\n")
    docs = [instance("a")]
    ensemble({"function": "custom", "filter_fn": FunctionRef("utils.first", tmp_path)}).apply(docs)
    assert docs[0].filtered_resps["f"] == "A"


def test_a_failing_filter_names_filter_task_and_doc():
    docs = [instance("a"), instance(None, doc_id=7)]
    with pytest.raises(ScoringError, match=r"filter 'f', step Lowercase, task 'demo', doc 7: AttributeError"):
        ensemble("lowercase").apply(docs)


def test_a_filter_that_loses_entries_is_caught():
    with pytest.raises(ScoringError, match=r"\b2 entries .*\b1\b"):
        ensemble({"function": "custom", "filter_fn": lambda resps, docs: resps[:1]}).apply(
            [instance("a"), instance("b")]
        )


def test_wrong_arguments_are_a_config_error():
    with pytest.raises(ConfigError, match="patern"):
        build_filter(FilterStep(function="regex", kwargs={"regex_patern": "x"}))
    with pytest.raises(ConfigError, match="Did you mean regex"):
        build_filter(FilterStep(function="regx"))


def test_classes_and_functions_that_make_filters_stand_for_them():
    docs = [instance("A b ")]
    FilterEnsemble("f", [Lowercase, RemoveWhitespace(), partial(TakeFirstK, k=1)]).apply(docs)
    assert docs[0].filtered_resps["f"] == ["a b"]
