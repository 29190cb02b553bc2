"""Models that the tree does not fit: prefixes kept as states, rows decoded together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.hf.conftest import make_tokenizer
from tests.models.hf.families import build

from assay.instance import Instance
from assay.models.hf import HFLM
from assay.models.hf.state import StateRunner, branch, join, select

SHARED = "Question: Which animal lays eggs? Answer: the hen. " * 4
WIDE = pytest.mark.wide
STATES = [
    "qwen3_next",
    "gptj",
    *(pytest.param(name, marks=WIDE) for name in ("lfm2", "bloom", "falcon_alibi", "mamba2", "falcon_h1")),
]
BATCHES = ["mamba", pytest.param("jamba", marks=WIDE)]
"""One of each class in `make test`: recurrent layers, an attention of its own, a cache that cannot be continued."""


def make(name: str) -> HFLM:
    network = build(name, vocab_size=512)
    return HFLM(network, tokenizer=make_tokenizer(), threads=1, max_length=250)


def prompts(count: int, **settings: Any) -> list[Instance]:
    ends = ("How many legs has a spider?", "What do plants need to grow? Answer:", "A woman", "1 + 1 =", "Then she")
    texts = [SHARED + ends[index % 5] + " and" * (index // 5) for index in range(count)]
    return [Instance("generate_until", {}, (text, {"max_gen_toks": 8, "until": [], **settings}), 0) for text in texts]


def alone(lm: HFLM, instance: Instance) -> str:
    """What transformers' own `generate` says to this prompt by itself."""
    tokens = torch.tensor([lm.encoder.encode_prompts([instance.args[0]])[0]])
    with torch.inference_mode():
        ids = lm.model.generate(tokens, max_new_tokens=8, do_sample=False, attention_mask=torch.ones_like(tokens))
    return str(lm.encoder.decode(ids[0, tokens.shape[1] :].tolist()))


@pytest.mark.parametrize("name", STATES)
def test_a_shared_prefix_is_computed_once_and_scores_are_those_of_plain_passes(name: str) -> None:
    lm = make(name)
    assert lm.check.way == "state"
    asked = [
        (f"{SHARED} Question {i}: how many legs?", f" {word}") for i in range(4) for word in ("eight", "two of them")
    ]
    instances = [Instance("loglikelihood", {}, request, 0) for request in asked]
    found = lm.loglikelihood(instances)
    whole = sum(len(pair.context) + len(pair.continuation) - 1 for pair in lm.loglikelihoods.encode(asked))
    assert lm.usage.computed_tokens < whole / 3
    plain = HFLM(lm.model, tokenizer=lm.tokenizer, threads=1, max_length=250, tree=False).loglikelihood(instances)
    for ours, theirs in zip(found, plain):
        assert ours[0] == pytest.approx(theirs[0], abs=1e-3)


@pytest.mark.parametrize("max_rows", [3, 64])
@pytest.mark.parametrize("name", [*STATES, *BATCHES])
def test_texts_are_those_of_generate_for_one_prompt_at_a_time(name: str, max_rows: int) -> None:
    lm = make(name)
    lm.generations.max_rows = lm.generations.most_rows = max_rows
    instances = prompts(7)
    assert lm.generate_until(instances) == [alone(lm, instance) for instance in instances]


def test_draws_do_not_depend_on_company() -> None:
    lm = make("lfm2")
    instances = prompts(6, temperature=1.0, do_sample=True)
    together = dict(lm.stream("generate_until", instances, [0, 1, 2, 0, 1, 2]))
    for index, instance in enumerate(instances):
        ((_, answer),) = lm.stream("generate_until", [instance], [index % 3])
        assert answer == together[index]


def test_results_and_table_say_that_and_why_the_tree_was_not_used(tmp_path: Path) -> None:
    import assay

    rows = [{"country": "France", "capitals": ["Paris", "Rome"]}, {"country": "Italy", "capitals": ["Rome", "Paris"]}]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "capitals.yaml").write_text(
        f"task: capitals\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/docs.jsonl}}}}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: 'The capital of {{country}} is'\n"
        "doc_to_choice: '{{capitals}}'\ndoc_to_target: 0\nmetric_list: [{metric: acc}]\n"
    )
    result = assay.evaluate(
        model=make("gptj"),
        tasks=["capitals"],
        include_path=[str(tmp_path)],
        limit=2,
        run_dir=str(tmp_path / "run"),
        store=str(tmp_path / "store.sqlite"),
        bootstrap_iters=0,
    )
    assert result.model["inference"]["way"] == "state"
    assert any("The prefix tree was not used (0 of its 3 layers" in line for line in result.remarks)


def test_a_prompt_inside_of_another_is_answered_by_itself() -> None:
    lm = make("gptj")
    instances = [Instance("generate_until", {}, (SHARED[:cut], {"max_gen_toks": 8}), 0) for cut in (40, 100, 160, 160)]
    assert lm.generate_until(instances) == [alone(lm, instance) for instance in instances]


def test_rows_of_several_lengths_are_joined_and_leave() -> None:
    model = build("qwen3_next")
    runner = StateRunner(model)
    rows = [[5, 6, 7], [8, 9, 10, 11, 12], [13, 14]]
    caches = [runner.fresh() for _ in rows]
    for cache, row in zip(caches, rows):
        runner.extend(cache, [row], 1)
    joined = join([branch(caches[0], 1), caches[1], caches[2]])
    select(joined, [0, 2], spare=2)
    found = runner.decode(joined, [20, 21], [3, 2])
    for place, tokens in enumerate(([5, 6, 7, 20], [13, 14, 21])):
        with torch.inference_mode():
            expected = model(torch.tensor([tokens])).logits[0, -1]
        assert torch.allclose(found[place], expected, atol=1e-4)
