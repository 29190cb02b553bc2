"""RULER's prompts as lm-evaluation-harness's own code makes them, from the same words, essays, questions and random state."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parity.goldens import tasks_directory
from tests.parity.ruler_inputs import hotpot_file, squad_file, write_essays, write_tokenizer

from assay.catalog.long_context.word_lists import Pairs, words_of
from assay.tasks import RequestOptions, TaskManager

pytestmark = [pytest.mark.parity]
LENGTHS = {"niah_multikey_2": 4096, "ruler_cwe": 8192}
"""Longer where that makes other steps or repeats; 2,048 is enough to see the rest."""
DOCS = 60


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("wonderwords")
    nltk = pytest.importorskip("nltk")
    try:
        nltk.data.find("tokenizers/punkt_tab")
    except LookupError:
        pytest.skip("nltk has no punkt_tab")
    folder = tmp_path_factory.mktemp("ruler")
    write_tokenizer(folder / "tokenizer")
    write_essays(folder)
    (folder / "squad.json").write_text(json.dumps(squad_file()))
    (folder / "hotpot.json").write_text(json.dumps(hotpot_file()))
    return folder


def prompts(task: Any, docs: int) -> list[tuple[Any, Any]]:
    requests = task.iter_requests(RequestOptions(limit=docs))
    return [(each.instances[0].arguments, each.target) for each in requests]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3"),
        *("niah_multivalue", "niah_multiquery", "ruler_vt", "ruler_cwe", "ruler_fwe", "ruler_qa_squad"),
        "ruler_qa_hotpot",
    ],
)
def test_prompts_are_those_of_lm_evaluation_harness(name: str, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tasks_directory()
    if theirs is None:
        pytest.skip("no task files of lm-evaluation-harness")
    monkeypatch.chdir(inputs)
    monkeypatch.setenv("ASSAY_HOME", str(inputs / "home"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(inputs / "cache"))
    given: dict[str, Any] = {"tokenizer": str(inputs / "tokenizer"), "max_seq_lengths": [LENGTHS.get(name, 2048)]}
    own = {"essays": str(next(inputs.rglob("train.jsonl"))), "docs_per_length": DOCS}
    own |= {"squad": str(inputs / "squad.json"), "hotpot": str(inputs / "hotpot.json")}
    ours = TaskManager(metadata={**given, **own}).load([name]).tasks[name]
    other = TaskManager(include_defaults=False, lm_eval=theirs, metadata=given).load([name]).tasks[name]
    if name.startswith("ruler_qa"):  # their questions come from an address on the net, ours from a file
        kind = name.removeprefix("ruler_qa_")
        reading = other.config.custom_dataset.load().__globals__
        monkeypatch.setitem(reading, "download_json", lambda url: json.loads((inputs / f"{kind}.json").read_text()))
    random.seed(0)
    np.random.seed(1234)
    assert prompts(ours, DOCS) == prompts(other, DOCS)


def test_pairs_of_words_stand_in_the_order_of_their_texts() -> None:
    pytest.importorskip("wonderwords")
    adjectives, nouns = words_of("adjective")[::5], words_of("noun")[::40]
    assert list(Pairs(adjectives, nouns)) == sorted({f"{a}-{n}" for a in adjectives for n in nouns})
