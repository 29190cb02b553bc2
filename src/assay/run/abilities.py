"""What a model can be asked for, kept in the store by server and model: a server is probed once, not once a run."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from assay.instance import Response
from assay.models import ABILITIES, LM, Capabilities
from assay.store import ResponseStore


def abilities_of(lm: LM, store: ResponseStore | None, wanted: Collection[str] = ABILITIES) -> Capabilities:
    """Only what a server was found to have is kept: one that lacks something may be started with it tomorrow."""
    fingerprint = lm.fingerprint()
    if store is None or not wanted or not fingerprint:
        return lm.capabilities(wanted)
    keys = {name: _key(fingerprint, name) for name in wanted}
    origin = store.begin(model=lm.info().name, fingerprint=fingerprint)
    kept = store.get_many(keys.values(), origin)
    known = {name for name, key in keys.items() if key in kept and kept[key].answer is True}
    found = lm.capabilities(wanted, known)
    if found != lm.info().capabilities:  # else nothing was asked: the model knows by itself
        for name in wanted:
            if found.named()[name] and name not in known:
                store.put(keys[name], Response(True), origin)
    return found


def _key(fingerprint: str, ability: str) -> bytes:
    return hashlib.sha256(f"{fingerprint}\0can be asked for {ability}".encode("utf-8", "surrogatepass")).digest()
