"""The outcome of the check at load, stored: the same weights on the same machine with the same code pass it again.

It is a second or more of every start. `assay selftest` makes it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assay.models.hf.processor import describe_processor
from assay.models.hf.selfcheck import SelfCheck, self_check
from assay.paths import assay_home


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
    import torch

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
