"""Log-likelihoods: by the tree, each distinct token computed once, or plainly, one padded batch after the other."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.hf.tokenization import Scored
from assay.models.hf.tree import TreeRunner
from assay.models.prefix_tree import PrefixTree, Step

LogLikelihood = tuple[float, bool]
_ROWS = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """The targets of one request that follow tokens of one node: depths `first` to `last` of its sequence."""

    request: int
    first: int
    last: int


class Tally:
    """Adds up log-probabilities until a request has all of its targets."""

    def __init__(self, requests: Sequence[Scored]) -> None:
        self.total = np.zeros(len(requests), dtype=np.float64)
        self.greedy = np.ones(len(requests), dtype=np.bool_)
        self.missing = np.array([len(request.targets) for request in requests], dtype=np.int64)

    def add(self, owners: Any, values: Any, greedy: Any) -> Iterator[tuple[int, LogLikelihood]]:
        np.add.at(self.total, owners, values)
        np.logical_and.at(self.greedy, owners, greedy)
        np.subtract.at(self.missing, owners, 1)
        for request in np.unique(owners):
            if self.missing[request] == 0:
                yield int(request), (float(self.total[request]), bool(self.greedy[request]))


def score_by_tree(
    runner: TreeRunner,
    requests: Sequence[Scored],
    budget: int,
    first: int | None = None,
    asked: Set[int] | None = None,
) -> Iterator[tuple[int, LogLikelihood]]:
    """Yield `(position, (log-likelihood, is_greedy))` as the steps that hold the last target of a request finish.

    With `asked`, steps that none of those requests needs are left out; the others are what they are without it.
    """
    tree = PrefixTree([request.tokens for request in requests])
    wanted = wanted_by_node(tree, requests)
    tally = Tally(requests)
    steps: Iterable[Step] = tree.schedule(budget, first)
    if asked is not None and len(asked) < len(requests):
        nodes = {node for node, listed in wanted.items() if any(want.request in asked for want in listed)}
        steps = needed_steps(list(steps), nodes)
    runner.path.cut(0)
    for step in steps:
        places, targets, owners = _lookups(tree, step, wanted, requests)
        distinct, rows = np.unique(places, return_inverse=True)
        logits, _ = runner.run(step, distinct)
        if len(places):
            yield from tally.add(owners, *log_probabilities(logits, rows, targets))


def needed_steps(steps: Sequence[Step], nodes: Set[int]) -> list[Step]:
    """The steps that compute tokens of these nodes, and those whose chains are the path that they hang from."""
    needed: set[int] = set()
    path: list[int] = []
    for index, step in enumerate(steps):
        while path and steps[path[-1]].depth >= step.depth:
            path.pop()
        if any(piece.node in nodes for piece in step.pieces):
            needed.update(path, [index])
        if step.keep:
            path.append(index)
    return [steps[index] for index in sorted(needed)]


def wanted_by_node(tree: PrefixTree, requests: Sequence[Scored]) -> dict[int, list[Wanted]]:
    wanted: dict[int, list[Wanted]] = defaultdict(list)
    for index, request in enumerate(requests):
        length = len(request.tokens)
        lowest = length - len(request.targets)
        node = tree.ends[index]
        while node != 0 and tree.nodes[node].stop > lowest:
            wanted[node].append(Wanted(index, max(lowest, tree.nodes[node].start), tree.nodes[node].stop))
            node = tree.nodes[node].parent
    return wanted


def _lookups(
    tree: PrefixTree, step: Step, wanted: dict[int, list[Wanted]], requests: Sequence[Scored]
) -> tuple[Any, Any, Any]:
    """Places in the step, the token expected after each, and whose it is."""
    places: list[int] = []
    targets: list[int] = []
    owners: list[int] = []
    for piece in step.pieces:
        start = tree.nodes[piece.node].start + piece.offset
        for want in wanted.get(piece.node, ()):
            first, last = max(want.first, start), min(want.last, start + piece.length)
            if first >= last:
                continue
            request = requests[want.request]
            lead = len(request.tokens) - len(request.targets)
            places.extend(range(piece.at + first - start, piece.at + last - start))
            targets.extend(request.targets[first - lead : last - lead])
            owners.extend([want.request] * (last - first))
    return (np.asarray(column, dtype=np.int64) for column in (places, targets, owners))  # type: ignore[return-value]


def log_probabilities(logits: Any, rows: Any, targets: Any) -> tuple[Any, Any]:
    """Log-probability of `targets[i]` under row `rows[i]` of the logits, and whether it is the row's first maximum.

    In float32 whatever the model computes in. It is torch's `log_softmax` on purpose: on a CPU that is off by about
    2e-5 a token for large vocabularies, always to the same side, and lm-evaluation-harness has it in its numbers. A few
    rows at a time, because a whole copy of the logits would be the largest tensor of the pass.
    """
    rows = torch.as_tensor(rows, device=logits.device)
    targets = torch.as_tensor(targets, device=logits.device)
    order = torch.argsort(rows, stable=True)
    values = torch.empty(len(rows), dtype=torch.float32, device=logits.device)
    bounds = torch.searchsorted(rows[order], torch.arange(0, len(logits) + _ROWS, _ROWS, device=logits.device)).tolist()
    for start, (first, last) in zip(range(0, len(logits), _ROWS), pairwise(bounds)):
        chosen = order[first:last]
        part = torch.log_softmax(logits[start : start + _ROWS].float(), dim=-1)
        values[chosen] = part[rows[chosen] - start, targets[chosen]]
    greedy = logits[rows, targets] == logits.amax(dim=-1)[rows]
    candidates = greedy.nonzero().squeeze(-1)
    # Only a target that ties with the maximum can be the argmax, so the slow argmax runs on those rows alone.
    greedy[candidates] = logits[rows[candidates]].argmax(dim=-1) == targets[candidates]
    return values.double().cpu().numpy(), greedy.cpu().numpy()


def score_plainly(
    model: Any,
    requests: Sequence[Scored],
    budget: int,
    mode: LinearMode = LinearMode.USUAL,
    asked: Set[int] | None = None,
) -> Iterator[tuple[int, LogLikelihood]]:
    """The reference: whole sequences, padded on the right, through the model as it is.

    Works for every causal model, recurrent ones too: padding comes after all that is scored. Requests that read the same
    tokens share a row. With `asked`, batches that hold none of those requests are left out.
    """
    readers: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, request in enumerate(requests):
        readers[tuple(request.tokens)].append(index)
    for batch in _batches(sorted(readers, key=lambda tokens: (-len(tokens), tokens)), budget):
        if asked is not None and not any(index in asked for tokens in batch for index in readers[tokens]):
            continue
        wanted = max(
            len(batch[0]) - len(tokens) + len(requests[index].targets) for tokens in batch for index in readers[tokens]
        )
        with linear_mode(mode):
            logits = _padded_logits(model, batch, wanted)
        for row, tokens in enumerate(batch):
            for index in readers[tokens]:
                stop = logits.shape[1] - (len(batch[0]) - len(tokens))
                targets = requests[index].targets
                part = logits[row, stop - len(targets) : stop]
                values, greedy = log_probabilities(part, range(len(targets)), targets)
                yield index, (float(values.sum()), bool(greedy.all()))


def score_tokens_plainly(model: Any, sequences: Sequence[tuple[Sequence[int], int]], budget: int) -> Iterator[Any]:
    """For each (tokens, first place) the log-probabilities of the tokens from that place on, in the order given."""
    order = sorted(range(len(sequences)), key=lambda index: -len(sequences[index][0]))
    found: dict[int, Any] = {}
    for batch in _batches([tuple(sequences[index][0][:-1]) for index in order], budget):
        width = len(batch[0])
        members = order[len(found) : len(found) + len(batch)]
        wanted = width + 1 - min(sequences[index][1] for index in members)
        logits = _padded_logits(model, batch, wanted)
        for row, index in enumerate(members):
            tokens, first = sequences[index]
            start = first - 1 - (width - wanted)
            part = logits[row, start : start + len(tokens) - first]
            found[index] = log_probabilities(part, range(len(part)), list(tokens[first:]))[0]
    return (found[index] for index in range(len(sequences)))


def _batches(rows: Iterable[tuple[int, ...]], budget: int) -> Iterator[list[tuple[int, ...]]]:
    """Longest first, so the first row of a batch says how wide it is."""
    batch: list[tuple[int, ...]] = []
    for row in rows:
        if batch and (len(batch) + 1) * len(batch[0]) > budget:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _padded_logits(model: Any, batch: list[tuple[int, ...]], wanted: int) -> Any:
    width = len(batch[0])
    tokens = torch.zeros((len(batch), width), dtype=torch.long)
    for row, ids in enumerate(batch):
        tokens[row, : len(ids)] = torch.tensor(ids)
    keep = {"logits_to_keep": wanted} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
    with torch.inference_mode():
        logits = model(input_ids=tokens.to(model.get_input_embeddings().weight.device), use_cache=False, **keep).logits
    return logits[:, -wanted:]
