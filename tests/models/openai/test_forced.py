"""Log-likelihoods from llama.cpp's own server, token by token, against the same float32 weights through `hf`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.llama_server import Gateway, start, write_float32, write_model
from tests.models.openai.test_real_server import SMALL, arc_docs

import assay
from assay.errors import AssayError
from assay.instance import Instance, Response
from assay.models import load_model
from assay.models.base import LM, NoLikelihoods
from assay.results import read_columns

pytest.importorskip("torch")
WORDS = [
    "the",
    "sun",
    "a",
    "stone",
    "moon",
    "lamp",
    "gives",
    "light",
    "river",
    "was",
    "wide",
    "and",
    "é",
    "😀",
    "東京",
    "under",
    "over",
    "<|im_end|>",
]


def text(rng: random.Random, length: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(length))


def choices(docs: int, *, words: int = 20) -> list[Instance]:
    """Four choices a doc, of one to four words."""
    rng = random.Random(0)
    contexts = [f"Question {doc}: {text(rng, words)}?\nAnswer:" for doc in range(docs)]
    return [pair(context, f" {text(rng, 1 + n)}") for context in contexts for n in range(4)]


def pair(context: str, continuation: str) -> Instance:
    return Instance("loglikelihood", {}, (context, continuation), 0)


def rolling(texts: list[str]) -> list[Instance]:
    return [Instance("loglikelihood_rolling", {}, (each,), 0) for each in texts]


def connect(url: str, **more: Any) -> LM:
    return load_model("local-completions", {"base_url": url, "model": "tiny", "backoff": 0.01, **more})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture(scope="module")
def url(path: Path) -> Iterator[str]:
    server = start(path, exact=True)
    yield server.listening_address
    del server


@pytest.fixture(scope="module")
def hf(path: Path) -> LM:
    return load_model("hf", {"pretrained": str(path), "dtype": "float32"})


def test_sixty_docs_are_as_hf_has_them_and_each_prompt_is_evaluated_once(url: str, hf: LM) -> None:
    model, requests = connect(url), choices(60)
    found, expected = model.loglikelihood(requests), hf.loglikelihood(requests)
    assert max(abs(one[0] - two[0]) for one, two in zip(found, expected)) < 1e-3
    assert [one[1] for one in found] == [two[1] for two in expected]
    usage, tokens = model.usage, model.text_tokens
    assert usage is not None
    contexts = sum(tokens(context) or 0 for context in {request.args[0] for request in requests})
    continuations = sum(tokens(request.args[1]) or 0 for request in requests)
    # By the server's own count of what it did not find in its cache.
    assert contexts / 2 < usage.computed_tokens <= contexts + continuations
    assert usage.prompt_tokens > 10 * usage.computed_tokens
    assert usage.retries == 0
    model.close()


def test_a_long_text_is_scored_in_windows(url: str, path: Path) -> None:
    """A window is a token shorter than the context: one place is for the token that the server generates."""
    hf = load_model("hf", {"pretrained": str(path), "dtype": "float32", "max_length": 511})
    model, rng = connect(url), random.Random(1)
    texts = rolling([text(rng, 10), text(rng, 150), "", "é"])
    found, expected = model.loglikelihood_rolling(texts), hf.loglikelihood_rolling(texts)
    assert (model.text_tokens(texts[1].args[0]) or 0) > 512
    assert max(abs(one - two) for one, two in zip(found, expected)) < 1e-2
    model.close()


def test_a_choice_that_was_listed_beside_another_needs_no_request(url: str) -> None:
    model = connect(url)
    listed = [token for token in model.likeliest_tokens(["The sun"])[0] if token.isalpha()][:4]
    assert len(listed) == 4
    found = model.loglikelihood([pair("The sun", letter) for letter in listed])
    assert model.usage is not None
    assert model.usage.generated_tokens == 2  # one for the list, one for all four choices
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
    model.close()


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_number_of_slots_changes_nothing(path: Path, url: str, at_once: int) -> None:
    server, requests = start(path, 512 * at_once, at_once=at_once, exact=True), choices(8)
    other, model = connect(url), connect(server.listening_address)
    found, expected = model.loglikelihood(requests), other.loglikelihood(requests)
    assert max(abs(one[0] - two[0]) for one, two in zip(found, expected)) < 1e-4
    model.close()
    other.close()
    del server


def test_what_cannot_be_scored_fails_alone(url: str) -> None:
    model = connect(url)
    requests = [pair("a", " b"), pair("a", ""), pair("a", "\ud83d"), pair("word " * 600, " b"), pair("", "b")]
    answers = dict(model.stream("loglikelihood", requests, [0] * 5))
    assert {at for at, answer in answers.items() if answer.failure is None} == {0, 4}
    assert "context" in str(answers[3].failure)
    model.close()


def test_a_request_that_fails_is_sent_again_and_the_walk_goes_on(url: str) -> None:
    """Every seventh request is answered 500."""
    seen: list[int] = []

    def change(body: dict[str, Any]) -> dict[str, Any] | None:
        seen.append(0)
        return None if len(seen) % 7 == 0 else body

    requests = choices(5, words=4)
    with Gateway(url, change) as gateway:
        model, plain = connect(gateway.url), connect(url)
        found, expected = model.loglikelihood(requests), plain.loglikelihood(requests)
        assert max(abs(one[0] - two[0]) for one, two in zip(found, expected)) < 1e-4
        assert model.usage is not None
        assert model.usage.retries == len(seen) // 7
        model.close()
        plain.close()


def test_a_stop_leaves_the_rest_undone(url: str) -> None:
    model, requests = connect(url), choices(20)
    answers: dict[int, Response] = {}
    for at, answer in model.stream("loglikelihood", requests, [0] * len(requests), lambda: len(answers) >= 8):
        answers[at] = answer
    assert 8 <= len(answers) < len(requests)
    assert all(answer.failure is None for answer in answers.values())
    model.close()


# ------------------------------------------------------------------------------------- which way is exact on this server


def without_bias(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "logit_bias"}


def few_listed(body: dict[str, Any]) -> dict[str, Any]:
    """What takes no bias, and lists five at most."""
    return {**without_bias(body), **({"logprobs": 5} if "logprobs" in body else {})}


def after_sampling(body: dict[str, Any]) -> dict[str, Any]:
    """The server reports what the probabilities were after sampling: 1 for whatever is forced."""
    return {**body, "post_sampling_probs": True}


def ways(model: LM) -> dict[str, bool | None]:
    return {check.name: check.passed for check in model.own_checks(1e-3)}


def test_selftest_says_which_ways_are_exact(url: str) -> None:
    model = connect(url)
    found = {"echo": None, "forced tokens": True, "lists of the vocabulary": True}
    assert ways(model) == {f"likelihoods by {name}": passed for name, passed in found.items()}
    model.close()


def test_a_server_that_forces_nothing_is_read_by_lists_of_its_vocabulary(url: str) -> None:
    requests = choices(3, words=3)
    with Gateway(url, without_bias) as gateway:
        model, plain = connect(gateway.url), connect(url)
        assert ways(model)["likelihoods by forced tokens"] is None
        found, expected = model.loglikelihood(requests), plain.loglikelihood(requests)
        assert max(abs(one[0] - two[0]) for one, two in zip(found, expected)) < 1e-4
        model.close()
        plain.close()


@pytest.mark.parametrize("change", [few_listed, after_sampling])
def test_a_server_without_an_exact_way_is_refused_before_the_first_request(
    url: str, change: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    with Gateway(url, change) as gateway:
        model = connect(gateway.url)
        assert not model.capabilities().likelihoods
        with pytest.raises(NoLikelihoods, match="forced tokens"):
            model.loglikelihood(choices(1))
        assert set(ways(model).values()) == {None}
        model.close()
        gateway.bodies.clear()
        with pytest.raises(AssayError, match="likelihood"):
            assay.evaluate(
                model="local-completions",
                model_args={"base_url": gateway.url, "model": "tiny"},
                tasks=["arc_easy"],
                num_fewshot=0,
                data_dir=arc_docs(tmp_path),
                store=str(tmp_path / "store.sqlite"),
            )
        assert not any("Which of these" in str(body) for body in gateway.bodies)


def test_choices_of_a_task_run_end_to_end(url: str, hf: LM, tmp_path: Path) -> None:
    shared: dict[str, Any] = {"tasks": ["arc_easy"], "num_fewshot": 0, "data_dir": arc_docs(tmp_path)}
    shared |= {"store": str(tmp_path / "store.sqlite"), "bootstrap_iters": 0}
    there = assay.evaluate(model="local-completions", model_args={"base_url": url, "model": "tiny"}, **shared)
    here = assay.evaluate(model=hf, **shared)
    assert there.tasks["arc_easy"].health.failed == 0
    assert [score.estimate.value for score in there.tasks["arc_easy"].scores.values()] == [
        score.estimate.value for score in here.tasks["arc_easy"].scores.values()
    ]


@pytest.mark.wide
@pytest.mark.skipif(not SMALL.is_dir(), reason="`assay fetch --model smollm2-135m` was not run")
def test_sixty_docs_of_a_real_model_in_float32_are_as_hf_has_them(tmp_path: Path) -> None:
    write_float32(next(SMALL.rglob("*.gguf")), tmp_path / "float32.gguf")
    server = start(tmp_path / "float32.gguf", n_ctx=1024, exact=True)
    shared: dict[str, Any] = {"tasks": ["demo_capitals_en"], "limit": 60, "bootstrap_iters": 0, "log_samples": True}
    shared |= {"store": str(tmp_path / "store.sqlite")}
    given = {"base_url": server.listening_address, "model": "small"}
    there = assay.evaluate(model="local-completions", model_args=given, output_path=str(tmp_path / "there"), **shared)
    given = {"pretrained": str(tmp_path / "float32.gguf")}
    here = assay.evaluate(model="hf", model_args=given, output_path=str(tmp_path / "here"), **shared)
    del server
    found, expected = choice_logprobs(there), choice_logprobs(here)
    assert len(found) == len(expected) == 240
    assert max(abs(one - two) for one, two in zip(found, expected)) < 1e-3


def choice_logprobs(result: assay.Results) -> list[float]:
    """Of each choice of each doc, from the samples that the run kept."""
    assert result.path is not None
    rows = sorted(read_columns(next(Path(result.path).rglob("*.parquet")), ["doc_id", "filtered_resps"]))
    return [ll for _, text in rows for ll, _ in json.loads(text)]
