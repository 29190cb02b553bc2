"""Where the noise of bfloat16 comes from.

    python benchmarks/rounding.py [--model DIRECTORY] [--texts self-check,hellaswag,…]

Errors of log-likelihoods a token against the same weights in float32: of plain scoring as transformers does it, and of the prefix
tree, as it is and with one thing changed at a time. Below it, plain scoring in float32 in which one kind of number alone is
rounded to bfloat16. First the median and the 95 % quantile of plain scoring's error; all other cells are multiples of these two.
"""

from __future__ import annotations

import argparse
import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import torch

import inference
from _results import markdown_table, write_section
from assay.models.hf import attention, selfcheck, tree
from assay.models.hf.attention import Attention
from assay.models.hf.linear import LinearMode, linear_mode, pack_linear_layers
from assay.models.hf.scoring import score_by_tree, score_tokens_plainly
from assay.models.hf.tokenization import Scored
from assay.models.hf.tree import TreeRunner

HALF = torch.bfloat16
PROBE_SETS = 10
"""The self-check has one; the errors of its tokens hang together, because most of them share a prefix."""
Sequences = list[tuple[tuple[int, ...], int]]
"""Tokens, and the place from which on they are compared."""


def texts(tokenizer: Any) -> dict[str, Sequences]:
    def split(context: str, continuation: str) -> tuple[tuple[int, ...], int]:
        return tuple(tokenizer.encode(context + continuation)), max(1, len(tokenizer.encode(context)))

    def tokens(draw: random.Random, count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(len(tokenizer)) for _ in range(count))

    probes: Sequences = []
    for seed in range(PROBE_SETS):
        draw = random.Random(seed)
        with mock.patch.object(selfcheck, "_Tokens", return_value=lambda count, draw=draw: tokens(draw, count)):
            probes += [(probe.tokens, probe.first) for probe in selfcheck.short_probes(len(tokenizer))]
    draw, long = random.Random(11), []
    for shared in (tokens(draw, 40) for _ in range(8)):
        for question in (shared + tokens(draw, 12) for _ in range(2)):
            long += [(question + tokens(draw, 8), 40), (question + tokens(draw, 8), 52)]
    letters = [(context[context.rindex("\n\n") + 2 :], letter) for context, letter in inference.mmlu(64)[::4]]
    answers = inference.rows("openai/gsm8k/main/test.jsonl", 6)
    return {
        "self-check": probes,
        "random tokens": long,
        "hellaswag": [split(*request) for request in inference.hellaswag(8)],
        "mmlu": [split(*request) for request in letters],
        "gsm8k": [split(f"Question: {row['question']}\nAnswer:", f" {row['answer']}") for row in answers],
    }


def plainly(model: Any, sequences: Sequences, mode: LinearMode = LinearMode.USUAL, tokens: int = 256) -> Any:
    with linear_mode(mode):
        return np.concatenate(list(score_tokens_plainly(model, sequences, tokens)))


def by_tree(model: Any, sequences: Sequences, tokens: int = 64) -> Any:
    asked = [Scored(list(row[:at]), [row[at]]) for row, first in sequences for at in range(first, len(row))]
    found = dict(score_by_tree(TreeRunner(model), asked, tokens))
    return np.array([found[index][0] for index in range(len(asked))])


def rounded(states: Any) -> Any:
    return states.to(HALF).to(states.dtype)


@contextlib.contextmanager
def explicit(*, scores: bool = False, weights: bool = False, parts: bool = False, sums: bool = False) -> Iterator[None]:
    """Attention without the CPU's kernel, with what is named rounded to bfloat16."""

    def attend(self: Attention, query: Any, key: Any, value: Any, mask: Any) -> tuple[Any, Any]:
        found = torch.matmul(query, key.transpose(2, 3)) * self.scale
        found = rounded(found) if scores else found
        found = found if mask is None else found + mask
        lse = torch.logsumexp(found, dim=-1)
        shares = torch.softmax(found, dim=-1)
        output = torch.matmul(rounded(shares) if weights else shares, value)
        return rounded(output) if parts else output, rounded(lse) if sums else lse

    with (
        mock.patch.object(Attention, "_has_kernel", return_value=False),
        mock.patch.object(Attention, "_scored", attend),
    ):
        yield


@contextlib.contextmanager
def attention_in_half() -> Iterator[None]:
    """The kernel in bfloat16, part by part, and parts joined in bfloat16."""

    def join(_: Attention, parts: list[tuple[Any, Any]], __: tuple[int, ...] = ()) -> Any:
        output, lse = parts[0]
        for other, other_lse in parts[1:]:
            output = torch.lerp(output, other, torch.sigmoid(other_lse - lse).unsqueeze(-1).to(output.dtype))
            lse = torch.logaddexp(lse, other_lse)
        return output

    with (
        mock.patch.object(attention, "in_full", lambda states: states),
        mock.patch.object(Attention, "join", join),
        cache_in_half(),
    ):
        yield


@contextlib.contextmanager
def cache_in_half() -> Iterator[None]:
    with mock.patch.object(tree, "kept_dtype", lambda states: states.dtype):
        yield


@contextlib.contextmanager
def rope_in_full() -> Iterator[None]:
    """Sines, cosines and the turning itself in float32, rounded once."""
    from transformers.models.llama import modeling_llama as llama

    forward = llama.LlamaRotaryEmbedding.forward

    def turn(query: Any, key: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> tuple[Any, Any]:
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        turned = [states.float() * cos + llama.rotate_half(states.float()) * sin for states in (query, key)]
        return turned[0].to(query.dtype), turned[1].to(key.dtype)

    with (
        mock.patch.object(llama, "apply_rotary_pos_emb", turn),
        mock.patch.object(
            llama.LlamaRotaryEmbedding, "forward", lambda self, x, places: forward(self, x.float(), places)
        ),
    ):
        yield


@contextlib.contextmanager
def log_softmax_in_half() -> Iterator[None]:
    usual = torch.log_softmax
    with mock.patch.object(torch, "log_softmax", lambda logits, dim: usual(logits.to(HALF), dim=dim).float()):
        yield


CHANGES: dict[str, Callable[[], Any]] = {
    "scores, weights and parts in float32, no kernel": explicit,
    "scores of attention rounded": lambda: explicit(scores=True),
    "weights of attention rounded": lambda: explicit(weights=True),
    "parts rounded before they are joined": lambda: explicit(parts=True),
    "log-sum-exp of the parts rounded": lambda: explicit(sums=True),
    "all of attention in bfloat16": attention_in_half,
    "KV cache kept in bfloat16": cache_in_half,
    "RoPE in float32": rope_in_full,
    "log-softmax in bfloat16": log_softmax_in_half,
}


def places(model: Any) -> dict[str, list[tuple[Any, bool]]]:
    """Modules whose output (True) or input is a kind of number."""
    layers, end = model.model.layers, model.model.norm
    return {
        "residual stream": [(part, False) for part in (*layers, end)],
        "normed states": [
            (part, True) for layer in layers for part in (layer.input_layernorm, layer.post_attention_layernorm)
        ]
        + [(end, True)],
        "queries, keys, values": [
            (getattr(layer.self_attn, name), True) for layer in layers for name in ("q_proj", "k_proj", "v_proj")
        ],
        "what attention gives": [(layer.self_attn.o_proj, False) for layer in layers],
        "what attention adds": [(layer.self_attn.o_proj, True) for layer in layers],
        "inside of feed-forward": [
            (getattr(layer.mlp, name), name != "down_proj")
            for layer in layers
            for name in ("gate_proj", "up_proj", "down_proj")
        ],
        "what feed-forward adds": [(layer.mlp.down_proj, True) for layer in layers],
        "logits": [(model.lm_head, True)],
    }


@contextlib.contextmanager
def rounding(modules: Sequence[tuple[Any, bool]]) -> Iterator[None]:
    hooks = [
        module.register_forward_hook(lambda _module, _args, output: rounded(output))
        if after
        else module.register_forward_pre_hook(lambda _module, args: (rounded(args[0]), *args[1:]))
        for module, after in modules
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def load(directory: str, dtype: Any, **others: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, **others).eval()


def measured(directory: str, sequences: Sequences) -> Iterator[tuple[str, Any]]:
    """What was computed how, and the errors of its tokens; plain scoring as transformers does it comes first."""
    half, wide = load(directory, HALF), load(directory, HALF)
    pack_linear_layers(wide)
    full = load(directory, torch.float32)
    for ours, theirs in zip(full.parameters(), half.parameters()):
        ours.data = theirs.data.float()
    truth = plainly(full, sequences, tokens=1024)

    def error(values: Any) -> Any:
        return np.abs(values - truth)

    yield "plain", error(plainly(half, sequences))
    yield "plain, products as the tree's", error(plainly(wide, sequences, LinearMode.SCORING))
    eager = load(directory, HALF, attn_implementation="eager")
    pack_linear_layers(eager)
    yield "plain, these products, eager attention", error(plainly(eager, sequences, LinearMode.SCORING))
    yield "tree", error(by_tree(wide, sequences))
    yield "tree, 12 tokens a pass", error(by_tree(wide, sequences, 12))
    yield "tree, 1,024 tokens a pass", error(by_tree(wide, sequences, 1024))
    for name, change in CHANGES.items():
        with change():
            yield f"tree, {name}", error(by_tree(wide, sequences))
    kinds = places(full)
    everything = [place for modules in kinds.values() for place in modules]
    for name, modules in {**kinds, "all of these": everything}.items():
        with rounding(modules):
            yield f"float32 but for {name}", error(plainly(full, sequences, tokens=1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="directory of a Llama (by default smollm2-135m, pulled if need be)")
    parser.add_argument("--texts", help="some of the kinds of text; without it all, which go into RESULTS.md")
    arguments = parser.parse_args()
    from transformers import AutoTokenizer

    directory = arguments.model or inference.small_model()
    found: dict[str, list[str]] = {}
    head = ["error against float32"]
    for kind, sequences in texts(AutoTokenizer.from_pretrained(directory)).items():
        if arguments.texts and kind not in arguments.texts.split(","):
            continue
        first: Any = None
        for name, errors in measured(directory, sequences):
            quantiles = np.quantile(errors, (0.5, 0.95))
            if first is None:
                first = quantiles
                head.append(f"{kind} ({len(errors)} tokens)")
            form = "{:.4f}, {:.4f}" if quantiles is first else "×{:.2f}, ×{:.2f}"
            values = quantiles if quantiles is first else quantiles / first
            found.setdefault(name, []).append(form.format(*values))
            print(
                kind, name, f"{quantiles[0]:.4f} {quantiles[1]:.4f} {errors.max():.3f}", *values, sep=" | ", flush=True
            )
    table = markdown_table(head, [[name, *cells] for name, cells in found.items()])
    print(table)
    if not arguments.texts:
        write_section("Noise of bfloat16", __doc__.split("\n\n", 2)[2] + "\n\n" + table)


if __name__ == "__main__":
    main()
