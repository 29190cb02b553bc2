"""Collecting: which filters see all docs at once, and the column that goes from the scorer to the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.filters import FILTERS, Filter, register_filter, works_per_doc
from assay.filters.extraction import RegexFilter

DOCS = 4000
SEEN: list[int] = []


class Counting(Filter):
    def apply(self, resps: Any, docs: Any) -> Any:
        SEEN.append(len(docs))
        return resps


class CountingByDoc(Counting):
    per_doc = True


class Overriding(RegexFilter):
    def apply(self, resps: Any, docs: Any) -> Any:
        return resps


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(FILTERS._entries)
    SEEN.clear()
    register_filter("counting")(Counting)
    register_filter("counting_by_doc")(CountingByDoc)
    register_filter("a_function")(lambda resps, docs: SEEN.append(len(docs)) or resps)
    yield
    FILTERS._entries = before


def run(filter_name: str, tmp_path: Path, **settings: Any) -> Any:
    task = {
        "task": "numbers",
        "output_type": "generate_until",
        "custom_dataset": lambda **_: {"test": [{"q": f"{i}?", "a": "x"} for i in range(DOCS)]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "filter_list": [{"name": "none", "filter": [filter_name, "take_first"]}],
        "metric_list": ["exact_match"],
    }
    return assay.evaluate(model="dummy", tasks=[task], store=str(tmp_path / "store"), bootstrap_iters=0, **settings)


@pytest.mark.parametrize("name", ["counting", "a_function"])
def test_a_registered_filter_that_does_not_say_so_sees_all_docs_at_once(name: str, tmp_path: Path) -> None:
    run(name, tmp_path)
    assert SEEN == [DOCS]


def test_a_filter_that_works_doc_by_doc_is_given_them_as_they_come(tmp_path: Path) -> None:
    run("counting_by_doc", tmp_path)
    assert sum(SEEN) == DOCS
    assert len(SEEN) > 1


def test_a_class_with_an_apply_of_its_own_does_not_inherit_the_word_of_another() -> None:
    assert works_per_doc(RegexFilter(r"x"))
    assert not works_per_doc(Overriding(r"x"))
    assert not works_per_doc(object())


def test_every_built_in_filter_but_the_one_for_functions_works_doc_by_doc() -> None:
    ours = [name for name in FILTERS if FILTERS.home(name).startswith("assay.filters") and name != "a_function"]
    silent = [name for name in ours if not works_per_doc(FILTERS[name].__new__(FILTERS[name]))]
    assert silent == ["custom"]
    assert len(ours) > 12
