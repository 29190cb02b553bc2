"""Overlays, applied to the tasks of a plan: which docs are left out, and which are scored by another gold answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.data import doc_hash, iter_docs
from assay.errors import ConfigError
from assay.results import AppliedOverlay
from assay.tasks import Correction, Overlay, RequestOptions, Task


@dataclass(frozen=True)
class UnderOverlays:
    """What overlays do to a task."""

    left_out: frozenset[int] = frozenset()
    applied: tuple[AppliedOverlay, ...] = ()
    found: frozenset[str] = frozenset()
    """Places in overlays whose docs the task has."""


def put_under(
    task: Task, options: RequestOptions, doc_ids: Iterable[int], overlays: Sequence[Overlay]
) -> UnderOverlays:
    """Correct the task's docs, and say which are left out. What cannot be corrected is refused here, before the first request."""
    places = _places(task, overlays)
    task.corrections = {each.doc_hash: each for each in places.values() if not each.exclude}
    if not places:
        return UnderOverlays()
    by_gold = next((each for each in task.corrections.values() if each.gold is not None), None)
    if by_gold is not None and (task.config.process_results is not None or task.config.class_ is not None):
        raise ConfigError(
            f"{by_gold.place}: task {task.task_name!r} scores by code of its own, which reads the doc's fields",
            hint="Correct the fields: fields: {NAME: VALUE}.",
        )
    sent = {doc_id: places[doc_id] for doc_id in doc_ids if doc_id in places}
    if changed := sorted(doc_id for doc_id, each in sent.items() if not each.exclude):
        for _ in task.iter_requests(replace(options, only=changed, num_fewshot=0)):
            pass
    applied = []
    for overlay in overlays:
        own = {each.place for each in overlay.corrections}
        of_overlay = [each for each in sent.values() if each.place in own]
        excluded = sum(each.exclude for each in of_overlay)
        applied.append(AppliedOverlay(overlay.name, overlay.sha256, excluded, len(of_overlay) - excluded))
    left_out = frozenset(doc_id for doc_id, each in places.items() if each.exclude)
    return UnderOverlays(left_out, tuple(applied), frozenset(each.place for each in places.values()))


def require_all(overlays: Sequence[Overlay], under: Mapping[str, UnderOverlays]) -> None:
    """Refuse docs that no task of the run has. Entries that name another task are passed over."""
    found = frozenset().union(*(each.found for each in under.values()))
    missing = [
        each
        for overlay in overlays
        for each in overlay.corrections
        if each.place not in found and any(each.is_of(name) for name in under)
    ]
    if missing:
        shown = "; ".join(f"{each.place}: {each.doc_hash[:12]}…" for each in missing[:5])
        more = f" and {len(missing) - 5:,} more" if missing[5:] else ""
        raise ConfigError(
            f"{len(missing):,} docs of the overlay are in none of the tasks {', '.join([*under][:5])}: {shown}{more}",
            hint="Is it for another version of the data? Entries that say their task are passed over where the task is not run.",
        )


def _places(task: Task, overlays: Sequence[Overlay]) -> dict[int, Correction]:
    """By doc id, what is said of the doc."""
    wanted: dict[str, Correction] = {}
    for each in (c for overlay in overlays for c in overlay.corrections if c.is_of(task.task_name)):
        if (other := wanted.setdefault(each.doc_hash, each)) is not each:
            raise ConfigError(f"{each.place}: the doc is also in {other.place}", hint="Leave one of the two out.")
    if not wanted:
        return {}
    hashed = ((doc_id, doc_hash(doc)) for doc_id, doc in enumerate(iter_docs(task.eval_docs)))
    return {doc_id: wanted[digest] for doc_id, digest in hashed if digest in wanted}
