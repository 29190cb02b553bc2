"""At load: which way of computing shared tokens once gives what plain scoring gives?

    tree     every distinct token once, branches side by side in one pass
    state    a shared prefix once, its cache copied for each who continues it
    batch    every request by itself, in padded batches

The first that agrees with plain scoring is taken. In full precision the two must agree to rounding. In half precision, and in
quantised models, plain scoring does not agree with itself: the same tokens in another batch, or behind an embedding that was
rounded the other way, come out differently, in mixtures of experts by a whole route. So the noise of plain scoring is measured
on the same probes, and a way passes if its differences are of that kind. A route that flips in a prefix moves all that follows,
and the first probes share theirs; what fails on them is tried again behind many prefixes. Noise can hide what is wrong, so where
there is memory for it the same weights are first compared in float32.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from assay.models.hf.attention import UnsupportedAttention, attention_configs
from assay.models.hf.budget import free_memory, is_out_of_memory
from assay.models.hf.scoring import log_probabilities, score_by_tree, score_tokens_plainly
from assay.models.hf.state import StateRunner, UnsupportedState, join, score_by_state
from assay.models.hf.tokenization import Scored
from assay.models.hf.tree import TreeRunner

Way = Literal["tree", "state", "batch"]
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 3e-4}
"""Largest difference in log-likelihood of a token that rounding explains in full precision."""
_HALF = (torch.float16, torch.bfloat16)
_TIMES_NOISE = 2.5
"""How far another way of computing may differ from plain scoring, as a multiple of how far plain scoring differs from itself:
it rounds at other places."""
_AFFORDABLE = {"cpu": 4e12, "cuda": 4e14}
"""Floating-point operations for probes beyond a window; where they would take more, the window is made small instead."""
_SMALL_WINDOW = 8
_LOCAL = re.compile(r"window|chunk|sink|local_attention|block_size|floor_scale")


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The way that was chosen, how far it was from plain scoring, and why no better one was."""

    way: Way
    difference: float | None = None
    reason: str | None = None
    decodes: bool = False
    """Rows can be decoded together behind the model's own cache, each prompt read in one piece; so can all states."""

    @property
    def passed(self) -> bool:
        """The prefix tree fits the model."""
        return self.way == "tree"


@dataclass(frozen=True, slots=True)
class ProbedTokens:
    """A sequence of arbitrary tokens, of which those from place `first` on are compared."""

    tokens: tuple[int, ...]
    first: int = 1


def self_check(model: Any) -> SelfCheck:
    vocabulary = _vocabulary(model)
    sizes = local_sizes(model.config)
    # Operations for the probes of a window of one token: plain scoring and one other way.
    operations = 2.0 * sum(part.numel() for part in model.parameters()) * 4 * 1.25
    affordable = [size for size in sizes if operations * size <= _AFFORDABLE.get(model.device.type, 4e12)]
    beyond = [probe for size in affordable for probe in long_probes(vocabulary, size)]
    plain = _Plain(model, [*short_probes(vocabulary), *beyond])
    reasons: list[str] = []
    for way, scores in (("tree", _tree_scores), ("state", _state_scores)):
        difference, reason = _compare(model, plain, beyond, scores)
        if reason is None and way == "tree" and len(affordable) < len(sizes):
            with small_windows(model):
                small = long_probes(vocabulary, _SMALL_WINDOW)
                _, reason = _judge(model, small, _Plain(model, small), scores)
        if reason is None:
            return SelfCheck(way, difference, reasons[0] if reasons else None, decodes=True)  # type: ignore[arg-type]
        reasons.append(reason)
    ends = [ProbedTokens(probe.tokens, len(probe.tokens) - 1) for probe in plain.probes]
    wrong = _wrong_in_full_precision(model, ends, _joined_scores)
    wrong = wrong or _judge(model, ends, _Plain(model, ends), _joined_scores)[1]
    return SelfCheck("batch", reason="; ".join(dict.fromkeys(reasons)), decodes=wrong is None)


def _compare(
    model: Any, plain: _Plain, beyond: Sequence[ProbedTokens], scores: Callable[..., Any]
) -> tuple[float | None, str | None]:
    """The largest difference, and why this way is not for the model. `beyond` are the probes beyond its windows."""
    exact = model.dtype in _HALF and _fits_in_full(model)
    if exact and (wrong := _wrong_in_full_precision(model, plain.probes, scores)) is not None:
        return None, wrong
    difference, reason = _judge(model, plain.probes, plain, scores)
    if reason is None or difference is None or not plain.is_noisy:
        return difference, reason
    groups = [separate_probes(_vocabulary(model)), [] if exact else beyond]
    for group in filter(None, groups):
        if (reason := _judge(model, group, _Plain(model, group), scores)[1]) is not None:
            break
    return difference, reason


def _judge(
    model: Any, probes: Sequence[ProbedTokens], plain: _Plain, scores: Callable[..., Any]
) -> tuple[float | None, str | None]:
    """The largest difference, and why this way is not for the model."""
    try:
        differences = np.abs(scores(model, probes) - plain.values)
    except (UnsupportedAttention, UnsupportedState) as error:
        return None, str(error)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        # Whatever a model's own code raises when it is run in this way, plain scoring is right for it.
        return None, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    worst = float(np.max(differences))  # unlike Python's max, NaN if any of them is
    if worst <= _TOLERANCE.get(model.dtype, 0.0):
        return worst, None
    if not plain.is_noisy:
        return worst, f"log-likelihoods differ by up to {worst:.2g} per token"
    for share in (0.5, 0.95):
        found, allowed = np.quantile(differences, share), _TIMES_NOISE * plain.noise(share)
        if not found <= allowed:
            return worst, (
                f"log-likelihoods differ by {found:.2g} per token ({share:.0%} quantile), "
                f"{found / allowed * _TIMES_NOISE:.1f} times the noise of plain scoring"
            )
    return worst, None


def _wrong_in_full_precision(model: Any, probes: Sequence[ProbedTokens], scores: Callable[..., Any]) -> str | None:
    if model.dtype not in _HALF or not _fits_in_full(model):
        return None
    with in_full_precision(model):
        return _judge(model, probes, _Plain(model, probes), scores)[1]


def _fits_in_full(model: Any) -> bool:
    """Only for a model that is whole on one device, in the numbers that it says."""
    if _is_quantised(model):
        return False
    tensors = [*model.parameters(), *model.buffers()]
    plain = all(part.dtype in (*_HALF, torch.float32) or not part.is_floating_point() for part in tensors)
    size = 4 * sum(part.numel() for part in tensors)
    return plain and len({part.device for part in tensors}) == 1 and size <= 0.3 * free_memory(model.device)


@contextlib.contextmanager
def in_full_precision(model: Any) -> Iterator[None]:
    """Within this, the weights are float32. What was half precision comes back bit by bit."""
    originals = [(part, part.data) for part in (*model.parameters(), *model.buffers()) if part.dtype in _HALF]
    try:
        for part, data in originals:
            part.data = data.float()
        yield
    finally:
        for part, data in originals:
            part.data = data


def _is_quantised(model: Any) -> bool:
    return getattr(model.config, "quantization_config", None) is not None


class _Plain:
    """What plain scoring gives for the probes, and how far it is from itself."""

    def __init__(self, model: Any, probes: Sequence[ProbedTokens]) -> None:
        self.model, self.probes = model, probes
        self.values = self._score(256)
        self._noise: Any = None

    @property
    def is_noisy(self) -> bool:
        """Half precision is. So are quantised models, whatever they say their numbers are: products may have fewer bits."""
        return self.model.dtype in _HALF or _is_quantised(self.model)

    def noise(self, share: float) -> float:
        """This quantile of the differences in another batch, and with embeddings that are off by a rounding."""
        half = self.model.dtype if self.model.dtype in _HALF else torch.bfloat16
        if self._noise is None:
            other = np.abs(self._score(1) - self.values)
            with rounded_otherwise(self.model, half):
                moved = np.abs(self._score(256) - self.values)
            self._noise = (other, moved)
        return max(float(torch.finfo(half).eps), *(float(np.quantile(noise, share)) for noise in self._noise))

    def _score(self, budget: int) -> Any:
        return np.concatenate(
            list(score_tokens_plainly(self.model, [(p.tokens, p.first) for p in self.probes], budget))
        )


@contextlib.contextmanager
def rounded_otherwise(model: Any, dtype: torch.dtype) -> Iterator[None]:
    """Within this, each number of an embedding is larger or smaller by half a unit in the last place of that type."""
    embedding, unit = model.get_input_embeddings(), torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(0)

    def move(_module: Any, _args: Any, output: Any) -> Any:
        sign = torch.randint(0, 2, output.shape, generator=generator).to(output.device) * 2 - 1
        return (output.float() * (1 + sign * unit / 2)).to(output.dtype)

    hook = embedding.register_forward_hook(move)
    try:
        yield
    finally:
        hook.remove()


def _one_by_one(probes: Sequence[ProbedTokens]) -> list[Scored]:
    """Each compared token as a request: in a tree that costs nothing more."""
    return [
        Scored(list(probe.tokens[:place]), [probe.tokens[place]])
        for probe in probes
        for place in range(probe.first, len(probe.tokens))
    ]


def _tree_scores(model: Any, probes: Sequence[ProbedTokens]) -> Any:
    kinds = set(getattr(getattr(model.config, "text_config", None) or model.config, "layer_types", None) or ())
    if unknown := kinds - {"full_attention", "sliding_attention", "chunked_attention"}:
        raise UnsupportedAttention(f"it has {', '.join(sorted(unknown))} layers")
    requests = _one_by_one(probes)
    # A budget this small makes the schedule keep chains, hang blocks from them and cut back again.
    budget = max(12, max(len(probe.tokens) for probe in probes) // 16)
    found = dict(score_by_tree(TreeRunner(model), requests, budget))
    return np.array([found[index][0] for index in range(len(requests))])


def _state_scores(model: Any, probes: Sequence[ProbedTokens]) -> Any:
    requests = _one_by_one(probes)
    found = dict(score_by_state(StateRunner(model), requests, 64))
    values = np.array([found[index][0] for index in range(len(requests))])
    lasts = np.cumsum([len(probe.tokens) - probe.first for probe in probes]) - 1
    values[lasts] = _joined_scores(model, probes)
    return values


def _joined_scores(model: Any, probes: Sequence[ProbedTokens]) -> Any:
    """The last token of each probe, from rows of several lengths that are decoded together."""
    runner = StateRunner(model)
    caches = [runner.fresh() for _ in probes]
    for cache, probe in zip(caches, probes):
        runner.extend(cache, [probe.tokens[:-2]], 1)
    logits = runner.decode(join(caches), [probe.tokens[-2] for probe in probes], [len(p.tokens) - 2 for p in probes])
    return log_probabilities(logits, range(len(probes)), [probe.tokens[-1] for probe in probes])[0]


def generates_together(model: Any, lengths: Sequence[int]) -> bool:
    """Whether transformers' `generate` says for prompts of these lengths in one batch what it says for each alone.

    Recurrent layers have to skip padding, and some families mix up the states of their rows. In float32 where that fits:
    in half precision noise alone may change what is said.
    """
    some = _Tokens(_vocabulary(model))
    prompts = [some(length) for length in lengths]
    exact = in_full_precision(model) if model.dtype in _HALF and _fits_in_full(model) else contextlib.nullcontext()
    with exact:
        try:
            return _greedy(model, prompts) == [_greedy(model, [prompt])[0] for prompt in prompts]
        except Exception as error:
            if is_out_of_memory(error):
                raise
            return False  # whatever it stumbles over in a batch, one prompt after the other is right


def _greedy(model: Any, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    width = max(map(len, prompts))
    tokens = torch.zeros((len(prompts), width), dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, width - len(prompt) :], mask[row, width - len(prompt) :] = torch.tensor(prompt), 1
    device = model.get_input_embeddings().weight.device
    with torch.inference_mode():
        output = model.generate(
            input_ids=tokens.to(device),
            attention_mask=mask.to(device),
            min_new_tokens=8,
            max_new_tokens=8,
            do_sample=False,
            num_beams=1,
            pad_token_id=0,
        )
    found: list[list[int]] = output[:, width:].tolist()
    return found


def _vocabulary(model: Any) -> int:
    return int(model.get_input_embeddings().weight.shape[0])


def short_probes(vocabulary: int) -> list[ProbedTokens]:
    """Sequences that share prefixes of several lengths, more than 64 compared tokens in all."""
    some = _Tokens(vocabulary)
    shared = some(7)
    probes = []
    for _ in range(3):
        question = shared + some(6)
        probes += [ProbedTokens(question + some(length), 7) for length in (1, 3, 4)]
    return [*probes, ProbedTokens(some(20))]


def separate_probes(vocabulary: int) -> list[ProbedTokens]:
    """Two continuations each of many prefixes, so that what happens to one prefix decides nothing."""
    some = _Tokens(vocabulary)
    return [ProbedTokens(shared + some(6), 3) for shared in (some(6) for _ in range(32)) for _ in range(2)]


def long_probes(vocabulary: int, size: int) -> list[ProbedTokens]:
    """Two questions behind a prefix that is longer than a window of this size, compared at both of its ends."""
    some = _Tokens(vocabulary)
    shared = some(size + size // 4 + 4)
    first = max(1, size - 2) if size <= 64 else len(shared)
    return [ProbedTokens(shared + some(9), first), ProbedTokens(shared + some(6), len(shared))]


class _Tokens:
    def __init__(self, vocabulary: int) -> None:
        self._draw, self._vocabulary = random.Random(0), vocabulary

    def __call__(self, count: int) -> tuple[int, ...]:
        return tuple(self._draw.randrange(self._vocabulary) for _ in range(count))


def local_sizes(config: Any) -> list[int]:
    """Sizes of windows, chunks and sinks that the config names and a sequence may reach beyond."""
    text = getattr(config, "text_config", None) or config
    longest = getattr(text, "max_position_embeddings", None) or sys.maxsize
    named = {value for name, value in vars(text).items() if _LOCAL.search(name) and type(value) is int}
    return sorted(size for size in named if 1 < size < longest - size // 4 - 16)


@contextlib.contextmanager
def small_windows(model: Any) -> Iterator[None]:
    """Within this, windows and chunks are so small that short probes reach beyond them.

    For models whose own window would take minutes to fill. Masks are made from the config in every pass, so plain scoring
    and the tree both follow it; where one of the two does not, they differ and the tree is not used. Layers that scale their
    queries by how many windows of a size went before have read that size already, so it is changed in them.
    """
    names = ("sliding_window", "attention_chunk_size")
    places = [(config, name) for config in attention_configs(model) for name in names]
    places += [(part, "floor_scale") for part in model.modules()]
    before = [(place, name, value) for place, name in places if type(value := getattr(place, name, None)) is int]
    try:
        for place, name, _ in before:
            setattr(place, name, _SMALL_WINDOW)
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


def tree_length(config: Any) -> int:
    """Longest sequence for the tree.

    Some models scale their rotary embedding by the longest position of a pass, and a pass of the tree holds sequences of
    many lengths. Up to the length they were trained on all are scaled alike.
    """
    config = getattr(config, "text_config", None) or config
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type") not in ("dynamic", "longrope"):
        return sys.maxsize
    trained = rope.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
    return int(trained or config.max_position_embeddings)
