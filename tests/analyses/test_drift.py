"""`assay drift`: exact on two local models, bounds on lists of likeliest tokens, a gate, and intervals that cover."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from tests.models.hf.conftest import make_network, make_tokenizer  # noqa: E402

from assay.analyses.drift import (  # noqa: E402
    DriftOptions,
    Passage,
    bundled_passages,
    findings,
    measure_drift,
    passages_of_file,
    passages_of_tasks,
)
from assay.analyses.drift.bounds import bounds_of  # noqa: E402
from assay.analyses.drift.engine import drift_parts, mean_kl  # noqa: E402
from assay.cli.drift import command  # noqa: E402
from assay.errors import ConfigError, DataError  # noqa: E402
from assay.instance import Instance  # noqa: E402
from assay.models import LM, TokenDivergences  # noqa: E402
from assay.models.hf import HFLM  # noqa: E402

START = "The river runs past the town"
PASSAGES = [
    Passage(f"{START} and number {i} is where the boats come home", "river" if i % 2 else "town") for i in range(12)
]
FEW = DriftOptions(continuations=4, continuation_tokens=6)


def model(change: float = 0.0) -> HFLM:
    network = copy.deepcopy(make_network("llama"))
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in network.parameters():
            parameter.add_(change * torch.randn(parameter.shape, generator=generator))
    return HFLM(network, tokenizer=make_tokenizer(), threads=1)


def plain_kl(a: HFLM, b: HFLM, text: str) -> np.ndarray:
    """As it is defined, without tree or blocks."""
    tokens = torch.tensor([make_tokenizer()(text)["input_ids"]])
    with torch.inference_mode():
        left, right = (torch.log_softmax(lm.model(tokens).logits[0].double(), -1) for lm in (a, b))
    return (left.exp() * (left - right)).sum(-1).numpy()


def test_a_model_does_not_drift_from_itself() -> None:
    drift = measure_drift(model(), model(), PASSAGES, FEW)
    assert drift.is_exact
    assert drift.whole.kl.value == 0.0
    assert drift.whole.kl.high is None  # that no token drifts does not mean that none can
    assert drift.bounds == (0.0, 0.0)  # but the same distributions keep every limit
    assert drift.whole.same_first.value == 1.0
    assert drift.continued is not None
    assert drift.continued.value == 0.0


def test_the_tree_gives_the_divergence_of_each_token_once() -> None:
    a, b = model(), model(0.02)
    first, second = PASSAGES[0].text, PASSAGES[1].text
    shared = len(make_tokenizer()(START + " and number ")["input_ids"]) - 1
    values = [plain_kl(a, b, first), plain_kl(a, b, second)]
    same = 0
    ids = [make_tokenizer()(text)["input_ids"] for text in (first, second)]
    while ids[0][same] == ids[1][same]:
        same += 1
    assert same >= shared
    expected = np.concatenate([values[0], values[1][same:]])
    blocks = list(a.token_divergences(b, [first, second], 10_000) or ())
    found = np.concatenate([block.kl for block in blocks])
    assert len(found) == len(expected)
    np.testing.assert_allclose(np.sort(found), np.sort(expected), rtol=1e-3, atol=1e-7)
    assert {int(text) for block in blocks for text in block.texts} == {0, 1}


def test_more_change_is_more_drift_by_position_and_domain() -> None:
    small, large = (measure_drift(model(), model(change), PASSAGES, FEW) for change in (0.002, 0.05))
    assert 0 < (small.whole.kl.value or 0) < (large.whole.kl.value or 0) / 10
    assert {part.name for part in large.parts if part.kind == "domain"} == {"river", "town"}
    assert sum(part.tokens for part in large.parts if part.kind == "position") == large.whole.tokens
    page = findings(large).to_html()
    assert "domain river" in page


def test_only_so_many_tokens_are_read() -> None:
    assert (
        measure_drift(model(), model(0.01), PASSAGES, DriftOptions(max_tokens=20, continuations=0)).whole.tokens == 20
    )


@pytest.mark.parametrize(
    ("change", "limit", "verdict"), [(0.0, 0.01, "within"), (0.1, 1e-6, "beyond"), (0.02, None, None)]
)
def test_a_limit_is_kept_broken_or_not_given(change: float, limit: float | None, verdict: str | None) -> None:
    drift = measure_drift(model(), model(change), PASSAGES, DriftOptions(continuations=0, max_kl=limit))
    assert drift.verdict == verdict


def test_a_limit_inside_the_interval_cannot_be_told() -> None:
    free = measure_drift(model(), model(0.05), PASSAGES[:3], DriftOptions(continuations=0))
    drift = measure_drift(model(), model(0.05), PASSAGES[:3], DriftOptions(continuations=0, max_kl=free.whole.kl.value))
    assert drift.verdict == "open"


def test_models_with_other_tokens_are_refused() -> None:
    other = HFLM(make_network("llama"), tokenizer=make_tokenizer(specials=False), threads=1)
    with pytest.raises(ConfigError, match="tokens"):
        measure_drift(model(), other, PASSAGES, FEW)


class Listing(LM):
    """A server's view of a local model: its likeliest tokens, and nothing else."""

    def __init__(self, inner: HFLM, most: int) -> None:
        self.inner, self.most = inner, most

    def likeliest_tokens(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        tops = self.inner.likeliest_tokens(prompts)
        return [dict(sorted(each.items(), key=lambda item: -item[1])[: self.most]) for each in tops]

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return self.inner.loglikelihood(requests)

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return self.inner.loglikelihood_rolling(requests)

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [str(answer) for answer in self.inner.generate_until(requests)]


def test_lists_of_likeliest_tokens_bound_what_whole_distributions_show() -> None:
    a, b = model(), model(0.05)
    options = DriftOptions(continuations=0, max_kl=1e-9)
    bounds = measure_drift(a, Listing(b, 20), PASSAGES, options)
    assert not bounds.is_exact
    assert bounds.variation is not None
    low, high = (each.value or 0.0 for each in bounds.variation)
    assert 0 < low < high <= 1
    assert bounds.verdict == "beyond"
    prompt = PASSAGES[0].text
    whole = plain_kl(a, b, prompt)[-1]
    (p,), (q,) = a.likeliest_tokens([prompt]), Listing(b, 20).likeliest_tokens([prompt])
    assert 0 < bounds_of(p, q).kl <= whole + 1e-9


def test_a_lower_bound_never_keeps_a_limit() -> None:
    a = model()
    drift = measure_drift(a, Listing(a, 5), PASSAGES, DriftOptions(continuations=0, max_kl=100.0))
    assert drift.verdict == "open"


@given(st.integers(2, 30), st.integers(1, 10), st.integers(0, 1_000))
def test_bounds_hold_for_any_two_distributions(tokens: int, listed: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet(np.full(tokens, 0.4), 2) + 1e-12
    p, q = p / p.sum(), q / q.sum()
    a, b = ({str(i): math.log(side[i]) for i in np.argsort(-side)[:listed]} for side in (p, q))
    found = bounds_of(a, b)
    assert found.kl <= float((p * np.log(p / q)).sum()) + 1e-9
    assert found.variation_low - 1e-9 <= float(np.abs(p - q).sum()) / 2 <= found.variation_high + 1e-9


@pytest.mark.parametrize("tries", [300, pytest.param(3000, marks=pytest.mark.wide)])
def test_the_interval_of_a_mean_divergence_covers_on_clustered_and_skewed_tokens(tries: int) -> None:
    generator, held = np.random.default_rng(3), 0
    texts = np.repeat(np.arange(60), 20)
    for _ in range(tries):
        scale = generator.lognormal(0, 0.5, 60)[texts]
        kl = 1e-3 * scale * generator.exponential(1, len(texts))
        estimate = mean_kl(kl, texts)
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= 1e-3 * math.exp(0.125) <= estimate.high
    assert held / tries > 0.95 - 2.6 * math.sqrt(0.95 * 0.05 / tries) - 0.01


@pytest.mark.parametrize("tries", [400, pytest.param(4000, marks=pytest.mark.wide)])
def test_a_gate_is_wrong_in_one_of_twenty_at_most_on_either_side(tries: int) -> None:
    """The limit is the true mean: whatever is shown, within or beyond, is wrong."""
    generator, wrong = np.random.default_rng(5), np.zeros(2)
    texts = np.repeat(np.arange(60), 20)
    limit = 1e-3 * math.exp(0.125)
    for _ in range(tries):
        kl = 1e-3 * generator.lognormal(0, 0.5, 60)[texts] * generator.exponential(1, len(texts))
        bounds = mean_kl(kl, texts, level=0.90)
        assert bounds.low is not None
        assert bounds.high is not None
        wrong += [bounds.low > limit, bounds.high <= limit]
    assert (wrong / tries < 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / tries) + 0.01).all(), wrong / tries


@pytest.mark.parametrize("tries", [100, pytest.param(1000, marks=pytest.mark.wide)])
def test_intervals_of_every_column_cover_for_all_tokens_and_by_domain(tries: int) -> None:
    """Texts of unequal length that differ as wholes: tokens of one stand together."""
    generator = np.random.default_rng(7)
    truth = {"kl": 2e-3 * math.exp(0.125), "same_first": 0.96, "entropy": 2.5, "entropy_change": 0.01}
    held = {(name, part): 0 for name in truth for part in ("all", "river")}
    for _ in range(tries):
        lengths = generator.integers(5, 40, 60)
        texts = np.repeat(np.arange(60), lengths)

        def of_texts(values: np.ndarray, texts: np.ndarray = texts) -> np.ndarray:
            return values[texts]

        entropy = 2.5 + of_texts(generator.normal(0, 0.3, 60)) + generator.normal(0, 1, len(texts))
        change = 0.01 + of_texts(generator.normal(0, 0.01, 60)) + generator.normal(0, 0.05, len(texts))
        tokens = TokenDivergences(
            texts=texts,
            places=np.concatenate([np.arange(length) for length in lengths]),
            kl=2e-3 * of_texts(generator.lognormal(0, 0.5, 60)) * generator.exponential(1, len(texts)),
            same_first=(generator.random(len(texts)) < of_texts(generator.beta(24, 1, 60))).astype(float),
            entropy_a=entropy,
            entropy_b=entropy + change,
        )
        parts = {part.name: part for part in drift_parts(tokens, ["river", "town"] * 30)}
        for name, part in held:
            estimate = getattr(parts[part], name)
            held[name, part] += estimate.low <= truth[name] <= estimate.high
    least = 0.95 - 2.6 * math.sqrt(0.95 * 0.05 / tries) - 0.01
    assert {key: count / tries for key, count in held.items() if count / tries < least} == {}


@pytest.mark.parametrize("count", [30, 60, 200])
@pytest.mark.parametrize("tries", [100, pytest.param(1000, marks=pytest.mark.wide)])
def test_long_texts_among_short_ones_leave_no_interval_that_misses(count: int, tries: int) -> None:
    """One text in seven is long and drifts otherwise, as where files are read together with docs of tasks."""
    generator = np.random.default_rng(3)
    shown = missed = 0
    of_long, of_short = 89.5 / 7, 8 * 6 / 7  # tokens, on average
    truth = (of_long + 0.8 * of_short) / (of_long + of_short)
    for _ in range(tries):
        is_long = generator.random(count) < 1 / 7
        lengths = np.where(is_long, generator.integers(40, 140, count), generator.integers(5, 12, count))
        means = np.where(is_long, generator.lognormal(-0.32, 0.8, count), 0.8)
        texts = np.repeat(np.arange(count), lengths)
        estimate = mean_kl(means[texts] * generator.exponential(1, len(texts)), texts)
        if estimate.low is None:
            assert "differ so much in length" in estimate.method
        else:
            shown += 1
            missed += not estimate.low <= truth <= estimate.high
    assert (shown > 0.9 * tries) == (count == 200)
    assert missed / tries < 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / tries) + 0.01


def test_texts_come_from_files_tasks_and_the_sample(tmp_path: Path) -> None:
    plain, lines = tmp_path / "story.txt", tmp_path / "more.jsonl"
    plain.write_text("One.\nStill one.\n\nTwo.\n\n\n")
    lines.write_text('{"text": "x y", "domain": "d"}\n\n{"text": "z"}\n')
    assert passages_of_file(plain) == [Passage("One.\nStill one.", "story"), Passage("Two.", "story")]
    assert passages_of_file(lines) == [Passage("x y", "d"), Passage("z", "more")]
    (tmp_path / "bad.jsonl").write_text('{"text": 3}\n')
    with pytest.raises(DataError, match="line 1: no text"):
        passages_of_file(tmp_path / "bad.jsonl")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="contains no text"):
        passages_of_file(tmp_path / "empty.txt")
    assert len({passage.domain for passage in bundled_passages()}) == 6
    capitals = passages_of_tasks(["demo_capitals_en"], 3)
    assert len(capitals) == 3
    assert {passage.domain for passage in capitals} == {"demo_capitals_en"}


def test_the_verb_ends_with_the_exit_code_of_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name, change in (("a", 0.0), ("b", 0.1)):
        model(change).model.save_pretrained(tmp_path / name)
        make_tokenizer().save_pretrained(tmp_path / name)
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": passage.text}) + "\n" for passage in PASSAGES))
    base = [str(tmp_path / "a"), "--texts", str(texts), "--continuations", "2"]

    def code(*more: str) -> int:
        return CliRunner().invoke(command, [*base, *more]).exit_code

    assert code(str(tmp_path / "a"), "--max_kl", "0.01") == 0
    assert code(str(tmp_path / "b"), "--max_kl", "0.000001") == 1
    page = tmp_path / "page.html"
    more = [str(tmp_path / "b"), "--b_args", "dtype=float32", "--json", "--html", str(page)]
    done = CliRunner().invoke(command, [*base, *more])
    assert done.exit_code == 0
    found = json.loads(done.output[done.output.index("{") :])
    assert found["exact"] is True
    assert found["b"] == f"{tmp_path / 'b'} dtype=float32"  # as it was named, with what tells it from A
    assert page.read_text().startswith("<!doctype html>")
