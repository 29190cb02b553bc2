"""A real server on loopback: llama.cpp, on a model of a few kilobytes made here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.llama_server import start, write_float32, write_model

import assay
from assay.instance import Instance, Message
from assay.models import load_model
from assay.paths import assay_home
from assay.results import read_columns


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    server = start(path)
    yield server.listening_address
    del server


def ask(prompt: str, **settings: Any) -> Instance:
    return Instance("generate_until", {}, (prompt, {"max_gen_toks": 8, **settings}), 0)


@pytest.mark.parametrize("name", ["local-completions", "local-chat-completions"])
def test_generation_is_the_same_alone_and_among_many(url: str, name: str) -> None:
    model = load_model(name, {"base_url": url, "model": "tiny", "num_concurrent": 4})
    requests = [ask(f"Question {i} about the weather") for i in range(10)]
    together = model.generate_until(requests)
    assert [model.generate_until([request])[0] for request in requests[:3]] == together[:3]
    assert len(set(together)) > 1
    answers = dict(model.stream("generate_until", requests, [0] * 10))
    assert {answer.stop_reason for answer in answers.values()} <= {"length", "stop"}
    usage = model.usage
    assert usage is not None
    assert usage.generated_tokens > 0
    assert usage.prompt_tokens >= usage.computed_tokens > 0
    model.close()


def test_sampled_draws_can_be_asked_for_again(url: str) -> None:
    model = load_model("local-completions", {"base_url": url, "model": "tiny"})
    request = ask("Tell me", temperature=1.0)
    draws = [a.answer for _, a in sorted(model.stream("generate_until", [request] * 3, [0, 1, 2]))]
    assert len(set(draws)) == 3
    assert dict(model.stream("generate_until", [request], [1]))[0].answer == draws[1]
    model.close()


def arc_docs(folder: Path) -> str:
    """A mirror of the hub with a few questions in ARC's own columns."""
    texts = ["the sun", "a stone", "the moon", "a lamp"]
    rows = [
        {
            "id": f"made_{n}",
            "question": f"Which of these gives light in case {n}?",
            "choices": {"text": texts[n % 4 :] + texts[: n % 4], "label": ["A", "B", "C", "D"]},
            "answerKey": "ABCD"[-n % 4],
        }
        for n in range(6)
    ]
    place = folder / "hub" / "allenai" / "ai2_arc" / "ARC-Easy"
    place.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "hub")


@pytest.mark.parametrize("name", ["local-completions", "local-chat-completions"])
def test_every_form_of_arc_easy_runs_end_to_end(url: str, name: str, tmp_path: Path) -> None:
    forms = [f"arc_easy:{form}" for form in ("gen", "cot", "letters")]
    result = assay.evaluate(
        model=name,
        model_args={"base_url": url, "model": "tiny", "num_concurrent": 2},
        tasks=forms,
        limit=3,
        num_fewshot=0,
        gen_kwargs={"max_gen_toks": 8},
        data_dir=arc_docs(tmp_path),
        store=str(tmp_path / "store.sqlite"),
        bootstrap_iters=0,
    )
    assert list(result.tasks) == forms
    assert [task.health.failed for task in result.tasks.values()] == [0, 0, 0]
    assert {key.metric for key in result.tasks["arc_easy:letters"].scores} == {"acc"}


@pytest.mark.parametrize("name", ["local-completions", "local-chat-completions"])
def test_what_it_can_be_asked_for_is_found_out(url: str, name: str) -> None:
    model = load_model(name, {"base_url": url, "model": "tiny"})
    able = model.capabilities()
    assert (able.likelihoods, able.top_logprobs, able.stop_strings) == (name == "local-completions", True, True)
    # llama.cpp answers an image that its model cannot see with a 500, which is no reason to try again.
    assert (able.images, able.tools) == (False, name == "local-chat-completions")
    assert (able.seeds, able.continues) == (True, True)
    assert model.transport.retries == 0
    assert model.context_length() == 512
    model.close()


def test_the_beginning_of_an_answer_is_no_part_of_the_answer(url: str) -> None:
    """llama.cpp returns it; the answer after "abcab" is what follows it, and no stop string is found within it."""
    model = load_model("local-chat-completions", {"base_url": url, "model": "tiny"})
    begun = (Message("user", "Go on"), Message("assistant", "abcab"))
    [whole] = model.generate_until([Instance("generate_until", {}, (begun, {"max_gen_toks": 8}), 0)])
    [cut] = model.generate_until([Instance("generate_until", {}, (begun, {"max_gen_toks": 8, "until": ["ca"]}), 0)])
    assert model.returns_beginnings
    assert not whole.startswith("abcab")
    assert cut == whole.split("ca")[0]
    model.close()


@pytest.mark.parametrize("name", ["local-completions", "local-chat-completions"])
def test_it_counts_the_tokens_of_a_text(url: str, name: str) -> None:
    model = load_model(name, {"base_url": url, "model": "tiny"})
    assert model.text_tokens("the sum") == 6  # "th" is one
    assert not model.cuts_prompts
    model.close()


# ---------------------------------------------------------------------- the small real model, where it has been pulled

SMALL = assay_home() / "models" / "smollm2-135m"


@pytest.mark.wide
@pytest.mark.skipif(not SMALL.is_dir(), reason="`assay fetch --model smollm2-135m` was not run")
def test_letters_agree_with_the_likelihoods_of_the_same_prompt(tmp_path: Path) -> None:
    """The same weights on both sides: llama.cpp's kernels for quantised weights also round the activations, which moves
    the labels of so small a model by more than they lie apart."""
    write_float32(next(SMALL.rglob("*.gguf")), tmp_path / "float32.gguf")
    server = start(tmp_path / "float32.gguf", n_ctx=4096, exact=True)
    shared: dict[str, Any] = {"tasks": ["demo_capitals_en:letters"], "bootstrap_iters": 0, "limit": 100}
    shared |= {"store": str(tmp_path / "store.sqlite"), "log_samples": True}
    there = assay.evaluate(
        model="local-completions",
        model_args={"base_url": server.listening_address, "model": "small", "num_concurrent": 2},
        output_path=str(tmp_path / "there"),
        **shared,
    )
    here = assay.evaluate(
        model="hf", model_args={"pretrained": "smollm2-135m"}, output_path=str(tmp_path / "here"), **shared
    )
    del server
    found, expected = log_probabilities(there), log_probabilities(here)
    assert len(found) == len(expected) == 400
    assert max(abs(one - two) for one, two in zip(found, expected)) < 0.02
    same = [best(found[at : at + 4]) == best(expected[at : at + 4]) for at in range(0, 400, 4)]
    assert sum(same) / len(same) >= 0.95


def best(values: list[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def log_probabilities(result: assay.Results) -> list[float]:
    """Of each label of each doc, from the samples that the run kept."""
    assert result.path is not None
    file = next(Path(result.path).rglob("*.parquet"))
    rows = sorted(read_columns(file, ["doc_id", "filtered_resps"]))
    return [ll for _, text in rows for ll, _ in json.loads(text)[0]]
