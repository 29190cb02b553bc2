"""Collecting: which filters see all docs at once, and the column that goes from the scorer to the file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.filters import FILTERS, Filter, register_filter, works_per_doc
from assay.filters.extraction import RegexFilter
from assay.metrics import AGGREGATIONS
from assay.results import MetricColumn, MetricKey, SampleRow, SampleWriter, read_samples

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
    classes = {name: FILTERS[name] for name in FILTERS}
    ours = [name for name, each in classes.items() if vars(sys.modules[each.__module__]).get(each.__name__) is each]
    ours = [name for name in ours if classes[name].__module__.startswith("assay.filters.")]
    silent = [name for name in ours if not works_per_doc(FILTERS[name].__new__(FILTERS[name]))]
    assert silent == ["custom"]
    assert len(ours) > 12


def test_columns_go_to_the_file_as_the_scorer_gave_them(tmp_path: Path) -> None:
    """Numbers in columns, other values as JSON, labels beside them; rows of a filter have the scores of that filter."""
    path = tmp_path / "samples.parquet"
    numbers = MetricColumn(MetricKey("acc", "strict"), AGGREGATIONS["mean"])
    numbers.extend([7, 9], [1.0, 0.0])
    numbers.labels = {9: 1.0}
    texts = MetricColumn(MetricKey("bleu", "loose"), AGGREGATIONS["bleu"])
    texts.extend([9], [("a", "b")])
    nowhere = MetricColumn(MetricKey("acc", "of a scorer's own"), AGGREGATIONS["mean"])
    nowhere.extend([7], [1.0])
    rows = [
        SampleRow(doc_id, "h", "r", name, "{}", "0", "[]", "[]", "[]", other={"read_by": ["rule"]})
        for doc_id in (7, 8, 9)
        for name in ("strict", "loose")
    ]
    writer = SampleWriter(path)
    writer.add_docs(iter(rows), [numbers, texts, nowhere])
    writer.close()
    found = {(row["doc_id"], row["filter"]): row for row in read_samples(path)}
    assert [found[7, "strict"]["metric:acc"], found[8, "strict"]["metric:acc"], found[7, "loose"]["metric:acc"]] == [
        1.0,
        None,
        None,
    ]
    assert found[9, "strict"]["label:acc"] == 1.0
    assert json.loads(found[9, "loose"]["other"]) == {"bleu": ["a", "b"], "read_by": ["rule"]}
    assert json.loads(found[7, "loose"]["other"]) == {"read_by": ["rule"]}
