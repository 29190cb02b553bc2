"""Checks of a loaded model: the one at load, whose outcome is stored, and those of `assay selftest` that look inside it.

The same weights on the same machine with the same code pass the check at load again. It is a second or more of every
start. `assay selftest` makes it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from assay.models.hf.engine import HFEngine
from assay.models.hf.processor import describe_processor
from assay.models.hf.scoring import log_probabilities, score_by_tree, score_plainly
from assay.models.hf.selfcheck import SelfCheck, self_check
from assay.models.hf.state import score_by_state
from assay.models.hf.tokenization import Scored, to_scored
from assay.models.info import Check
from assay.models.selftest import QUESTIONS, compare
from assay.paths import assay_home

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}


def stored_self_check(model: Any, fingerprint: str, *, anew: bool = False) -> SelfCheck:
    """What was found the last time, or what is found now."""
    path = assay_home() / "self-checks" / f"{_key(model, fingerprint)}.json"
    if not anew and (stored := _read(path)) is not None:
        return stored
    check = self_check(model)
    if check.difference is not None:  # a way was found; that none was may have passing reasons
        _write(path, check)
    return check


def _key(model: Any, fingerprint: str) -> str:
    """Weights and settings, the versions of all that computes, and the machine that it runs on."""
    device = model.get_input_embeddings().weight.device
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    facts = [
        fingerprint,
        str(model.dtype),
        str(model.config._attn_implementation),
        device.type,
        chip,
        describe_processor(),
    ]
    facts += [version("torch"), version("transformers"), _our_code(), torch.get_num_threads()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _our_code() -> str:
    """A version number does not change while someone works on this folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> SelfCheck | None:
    try:
        stored = SelfCheck(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # not there, or spoiled: it is made anew
        return None
    return stored if stored.way in ("tree", "state") else None


def _write(path: Path, check: SelfCheck) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(json.dumps(asdict(check)), encoding="utf-8")
        os.replace(partial, path)
    except OSError:
        pass  # a home that cannot be written to costs a second at the next start, and nothing else


def own_checks(engine: HFEngine, check: SelfCheck, tolerance: float) -> Iterator[Check]:
    if engine.seq2seq:
        return
    pairs = engine.encoder.encode_pairs([(context, choice) for context, choices in QUESTIONS for choice in choices])
    scored = [to_scored(pair, engine.max_length) for pair in pairs]
    plain = _sorted(score_plainly(engine.model, scored, engine.budget.tokens))
    if engine.runner is None:
        yield Check("tree against plain", None, note=f"scored by {check.way}: {check.reason}")
    else:
        for budget in (engine.budget.tokens, 24):
            tree = _sorted(score_by_tree(engine.runner, scored, budget))
            yield compare(f"tree against plain, {budget} tokens per pass", tree, plain, tolerance)
    if engine.states is not None and engine.states.shares:
        state = _sorted(score_by_state(engine.states, scored, engine.budget.tokens))
        yield compare("branched states against plain", state, plain, tolerance)
    one = _sorted(score_plainly(engine.model, scored, 1))
    yield compare("plain, batches of one and many", plain, one, tolerance)
    yield compare("padding on the left and on the right", _left_padded(engine.model, scored), plain, tolerance)


def _sorted(scores: Iterator[tuple[int, Any]]) -> list[float]:
    return [value for _, (value, _) in sorted(scores)]


def _left_padded(model: Any, requests: list[Scored]) -> list[float]:
    """All requests in one batch, padded on the left and masked, as generation does it in other harnesses."""
    width = max(len(request.tokens) for request in requests)
    tokens = torch.zeros((len(requests), width), dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, request in enumerate(requests):
        tokens[row, -len(request.tokens) :] = torch.tensor(request.tokens)
        mask[row, -len(request.tokens) :] = 1
    device = model.get_input_embeddings().weight.device
    positions = (mask.cumsum(-1) - 1).clamp(min=0).to(device)
    with torch.inference_mode():
        output = model(tokens.to(device), attention_mask=mask.to(device), position_ids=positions, use_cache=False)
    values = []
    for row, request in enumerate(requests):
        logits = output.logits[row, -len(request.targets) :]
        values.append(float(log_probabilities(logits, range(len(request.targets)), request.targets)[0].sum()))
    return values
