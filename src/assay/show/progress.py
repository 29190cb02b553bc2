"""How far a run is, in one line: what a terminal and a notebook show below their bars."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.run import Counts


def progress_line(counts: Counts, began: float) -> str:
    """What is asked, share done, speed, what the store and prefix sharing saved, time left."""
    elapsed = max(time.monotonic() - began, 1e-9)
    parts = [counts.sending] if counts.sending and counts.docs_done < counts.docs_total else []
    parts.append(f"{counts.docs_done:,}/{counts.docs_total:,} docs")
    for role, (answered, asked) in list(counts.questions.items()):
        doing = "judging" if role == "judge" else f"asking the {role}"
        parts.append(f"{doing} {answered:,}/{asked:,}")
    if counts.reused:
        parts.append(f"{counts.reused:,} from the store")
    if counts.tokens_computed:
        parts.append(f"{counts.tokens_computed / elapsed:,.0f} tokens/s")
        if counts.tokens_asked > counts.tokens_computed:
            parts.append(f"{1 - counts.tokens_computed / counts.tokens_asked:.0%} of tokens shared")
    if counts.images:
        parts.append(f"{counts.images:,} images, {counts.image_bytes / 1e6:,.1f} MB")
    if counts.cost:
        parts.append(f"cost {counts.cost:,.2f}")
    if counts.failed:
        parts.append(f"{counts.failed:,} failed")
    if 0 < counts.docs_done < counts.docs_total and elapsed > 2:
        about = "" if counts.docs_done >= _ENOUGH else "about "
        parts.append(f"{about}{_duration(elapsed * (counts.docs_total / counts.docs_done - 1))} left")
    if counts.replicas:
        parts.append(counts.replicas)
    return " · ".join(parts)


_ENOUGH = 20
"""Docs after which the time that is left is more than a guess."""


def running_scores(counts: Counts, most: int = 6) -> list[str]:
    return [f"{task} {metric} {mean:.3f} ({n:,})" for task, (metric, mean, n) in list(counts.running.items())[-most:]]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
