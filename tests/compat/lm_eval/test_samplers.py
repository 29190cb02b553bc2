"""Few-shot samplers that task files of lm-evaluation-harness derive from, beside its own."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from assay.compat.lm_eval import samplers as ours
from assay.compat.lm_eval.class_tasks import ConfigurableTask
from assay.config import TaskConfig
from assay.errors import DataError
from assay.tasks import RequestOptions, Task

DOCS = [{"q": f"Q{i}"} for i in range(10)]


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The module of an installed copy; it imports nothing but the standard library."""
    place = Path(os.environ.get("ASSAY_LM_EVAL_TASKS", ".cache/lm-eval"))
    found = [path for path in (place / "lm_eval/api/samplers.py", place.parent / "api/samplers.py") if path.is_file()]
    if not found:
        pytest.skip("no copy of lm-evaluation-harness is at hand")
    spec = importlib.util.spec_from_file_location("their_samplers", found[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draws(module: Any, name: str, seed: int, docs: list[dict[str, str]], eval_doc: Any, **options: Any) -> list[Any]:
    """Three draws in a row: the generator goes on between them."""
    sampler = getattr(module, name)(docs, rnd=seed, **options)
    return [list(sampler.sample(2, eval_doc)) for _ in range(3)]


@pytest.mark.parametrize("name", ["ContextSampler", "FirstNSampler"])
@pytest.mark.parametrize("eval_doc", [None, DOCS[0], DOCS[7], {"q": "elsewhere"}])
def test_the_same_seed_draws_the_same_docs(theirs: Any, name: str, eval_doc: Any) -> None:
    copies = [*DOCS, DOCS[7], DOCS[7]]
    for seed in range(20):
        for docs in (DOCS, copies):
            assert draws(ours, name, seed, docs, eval_doc) == draws(theirs, name, seed, docs, eval_doc)


def test_indices_other_docs_and_another_seed_mean_the_same(theirs: Any) -> None:
    found = []
    for module in (ours, theirs):
        sampler = module.ContextSampler(DOCS, rnd=1, fewshot_indices=[1, 3, 5, 7])
        seen = [sampler.sample(2), sampler.fewshot_docs(), sampler.sample(2, df=DOCS[:3]), sampler.df]
        seen += [sampler.replace_df(DOCS[2:]).fewshot_docs(), sampler.set_rnd(4).sample(1, DOCS[5])]
        found.append([*seen, sampler.rm_eval_doc(1, [1, 2, 1, 3]), sampler.rm_eval_doc(1, [1, 2, 3, 4], 2)])
    assert found[0] == found[1]


def test_what_it_draws_is_known() -> None:
    """A recorded draw, so that a clone without a copy of lm-evaluation-harness holds it too."""
    assert [doc["q"] for doc in ours.ContextSampler(DOCS, rnd=1234).sample(2, DOCS[0])] == ["Q7", "Q1"]


def test_more_than_there_are_is_an_error_in_words() -> None:
    for name in ("ContextSampler", "FirstNSampler"):
        with pytest.raises(DataError, match="requested from 10"):
            getattr(ours, name)(DOCS).sample(11)
    with pytest.raises(KeyError, match="first_n"):
        ours.get_sampler("first_m")


class Popping(ConfigurableTask):
    """Takes `class` out of its config, as some classes do that hand the rest on."""

    def __init__(self, config: dict[str, Any]) -> None:
        assert config.pop("class") is Popping
        super().__init__(config=config)

    def has_test_docs(self) -> bool:
        return True

    def test_docs(self) -> Any:
        return DOCS


def test_a_class_may_take_itself_out_of_its_config() -> None:
    config = TaskConfig(**{"task": "popping", "class": Popping, "doc_to_text": "q", "doc_to_target": "q"})
    requests = next(iter(Task.from_config(config).iter_requests(RequestOptions())))
    assert requests.instances[0].arguments[0] == "Q0"
