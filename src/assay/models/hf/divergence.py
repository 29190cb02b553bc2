"""Two local models on the same texts, token by token: how far apart are their next-token distributions?

Both walk one prefix tree in step, so each distinct token is computed once by each, and the whole distributions (tens of
thousands of numbers a token) live only for the length of a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import ConfigError
from assay.models.info import TokenDivergences
from assay.models.prefix_tree import PrefixTree, Step

if TYPE_CHECKING:
    from assay.models.hf.engine import HFEngine

_STEP = 256
"""Tokens of a step: its logits are in memory whole, twice."""
_ROWS = 32


def token_divergences(a: HFEngine, b: HFEngine, texts: Sequence[str], most: int) -> Iterator[TokenDivergences]:
    """In blocks, until `most` tokens are compared. A token that several texts share counts once, for the first of them."""
    check_same_tokens(a, b)
    length = min(a.max_length, b.max_length)
    sequences = [tokens[:length] for tokens in a.encoder.encode(texts)]
    cut = _first_tokens(sequences, most)
    runners = [engine.runner for engine in (a, b)]
    fits = all(max(map(len, cut), default=0) <= engine.tree_length for engine in (a, b))
    if all(runner is not None for runner in runners) and fits:
        yield from _by_tree(runners, cut)
    else:
        yield from _plainly([a.model, b.model], cut)


def check_same_tokens(a: HFEngine, b: HFEngine) -> None:
    one, other = a.encoder.tokenizer, b.encoder.tokenizer
    if one.get_vocab() != other.get_vocab():
        raise ConfigError(
            f"the two models do not share their tokens ({len(one):,} and {len(other):,})",
            hint="Drift compares distributions over the same tokens; use `assay compare` to compare scores.",
        )


def _first_tokens(sequences: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Whole texts until `most` tokens are reached; the last one is cut."""
    cut: list[list[int]] = []
    for tokens in sequences:
        cut.append(list(tokens[:most]))
        most -= len(cut[-1])
    return cut


def _by_tree(runners: Sequence[Any], sequences: Sequence[Sequence[int]]) -> Iterator[TokenDivergences]:
    filled = [index for index, tokens in enumerate(sequences) if tokens]
    tree = PrefixTree([sequences[index] for index in filled])
    owners: dict[int, int] = {}
    for index, node in enumerate(tree.ends):
        while node != 0 and node not in owners:
            owners[node] = filled[index]
            node = tree.nodes[node].parent
    for runner in runners:
        runner.path.cut(0)
    for step in tree.schedule(_STEP):
        texts, places = _whose(tree, step, owners)
        left, right = (runner.run(step, np.arange(len(step)))[0] for runner in runners)
        yield _compared(left, right, texts, places)


def _whose(tree: PrefixTree, step: Step, owners: dict[int, int]) -> tuple[Any, Any]:
    """For each token of a step the text it counts for, and its place there."""
    texts, places = np.zeros(len(step), dtype=np.int64), np.zeros(len(step), dtype=np.int64)
    for piece in step.pieces:
        at = slice(piece.at, piece.at + piece.length)
        texts[at] = owners[piece.node]
        start = tree.nodes[piece.node].start + piece.offset
        places[at] = np.arange(start, start + piece.length)
    return texts, places


def _plainly(models: Sequence[Any], sequences: Sequence[Sequence[int]]) -> Iterator[TokenDivergences]:
    """For models that the tree does not fit: one text after the other."""
    import torch

    for index, tokens in enumerate(sequences):
        if tokens:
            with torch.inference_mode():
                left, right = (
                    model(torch.tensor([list(tokens)], device=model.device), use_cache=False).logits[0]
                    for model in models
                )
            yield _compared(left, right, np.full(len(tokens), index), np.arange(len(tokens)))


def _compared(left: Any, right: Any, texts: Any, places: Any) -> TokenDivergences:
    """In float64: a drift of 1e-9 is one, and in float32 it would drown in rounding."""
    import torch

    columns: list[list[Any]] = [[], [], [], []]
    size = min(left.shape[-1], right.shape[-1])  # some checkpoints pad the vocabulary
    for start in range(0, len(left), _ROWS):
        a, b = (
            torch.log_softmax(logits[start : start + _ROWS, :size].double().cpu(), dim=-1) for logits in (left, right)
        )
        p, q = a.exp(), b.exp()
        # 0 · −∞ is 0 where a token is impossible for both.
        columns[0].append(torch.where(p > 0, p * (a - b), 0.0).sum(-1))
        columns[1].append((a.argmax(-1) == b.argmax(-1)).double())
        columns[2].append(-torch.where(p > 0, p * a, 0.0).sum(-1))
        columns[3].append(-torch.where(q > 0, q * b, 0.0).sum(-1))
    kl, same, entropy_a, entropy_b = (torch.cat(column).numpy() for column in columns)
    return TokenDivergences(texts, places, np.maximum(kl, 0.0), same, entropy_a, entropy_b)


def likeliest_tokens(engine: HFEngine, prompts: Sequence[str], most: int) -> list[dict[str, float]]:
    """The likeliest next tokens of each prompt, as text."""
    import torch

    sequences = [tokens[-engine.max_length :] for tokens in engine.encoder.encode_prompts(prompts)]
    found: dict[int, dict[str, float]] = {}
    for index, logits in _last_logits(engine, sequences):
        values, ids = torch.log_softmax(logits.double().cpu(), dim=-1).topk(min(most, logits.shape[-1]))
        texts = engine.encoder.tokenizer.batch_decode(ids.unsqueeze(-1))
        tops: dict[str, float] = {}
        for text, value in zip(texts, values.tolist(), strict=True):
            tops[text] = float(np.logaddexp(tops.get(text, -np.inf), value))
        found[index] = tops
    return [found[index] for index in range(len(prompts))]


def _last_logits(engine: HFEngine, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[int, Any]]:
    import torch

    if engine.runner is None or max(map(len, sequences)) > engine.tree_length:
        for index, tokens in enumerate(sequences):
            with torch.inference_mode():
                yield (
                    index,
                    engine.model(torch.tensor([list(tokens)], device=engine.model.device), use_cache=False).logits[
                        0, -1
                    ],
                )
        return
    tree = PrefixTree(sequences)
    ends: dict[tuple[int, int], list[int]] = {}
    for index, tokens in enumerate(sequences):
        ends.setdefault((tree.ends[index], len(tokens) - 1), []).append(index)
    engine.runner.path.cut(0)
    for step in tree.schedule(_STEP):
        wanted = []
        for piece in step.pieces:
            start = tree.nodes[piece.node].start + piece.offset
            for depth in range(start, start + piece.length):
                wanted += [(piece.at + depth - start, index) for index in ends.get((piece.node, depth), ())]
        places = sorted({place for place, _ in wanted})
        logits, _ = engine.runner.run(step, places)
        for place, index in wanted:
            yield index, logits[places.index(place)]
