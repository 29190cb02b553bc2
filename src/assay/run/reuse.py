"""The response store as one model sees it: only answers that this model gave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cached_property

from assay.config import RunConfig
from assay.instance import Response
from assay.models import LM, TIMES_AT_FIRST, Identity, difference
from assay.run.progress import Counts
from assay.store import AnswerOrigin, ResponseStore


class ModelStore:
    """Answers of one model, kept and found again.

    The fingerprint is in every key. A model behind an address may have become another one under the same fingerprint; it
    is probed when it is first asked something, and only answers that were given by a model with the same probes are seen.
    """

    def __init__(
        self, store: ResponseStore, lm: LM, config: RunConfig, *, run: str, model: str, notify: Callable[[str], None]
    ) -> None:
        self.store, self.lm, self.config, self.notify = store, lm, config, notify
        self._run, self._model = run, model
        self._how = ""
        """How it is known that kept answers are this model's, or why none are."""
        self.is_another = False
        """Whether the store has answers from this address, and none of them by what answers there now."""

    def recognize(self) -> None:
        """Find out whose answers may be reused, and what new ones will be known by. Asks the model its probes, once."""
        _ = self._origin

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, Response]:
        return self.store.get_many(keys, self._origin)

    def put(self, key: bytes, response: Response) -> None:
        self.store.put(key, response, self._origin)

    @cached_property
    def _origin(self) -> AnswerOrigin:
        fingerprint = self.lm.fingerprint()
        facts, trusted = self._recognized(fingerprint)
        if self.config.fresh:
            trusted = set()
        return self.store.begin(run=self._run, model=self._model, fingerprint=fingerprint, facts=facts, trusted=trusted)

    def _recognized(self, fingerprint: str) -> tuple[str | None, set[int] | None]:
        """What the model is known by, and the origins whose answers are its own; None where the fingerprint says it."""
        kept = {} if self.config.fresh else self.store.facts_of(fingerprint)
        if self.config.offline:
            self._how = "not checked: --offline" if kept else ""
            latest = list(kept.values())[-1:]
            # Never the answers of two models in one score: those of the last one that was asked.
            return None, {origin for origin, facts in kept.items() if facts in latest} if kept else None
        asked = self.lm.identify(1 if kept else TIMES_AT_FIRST)
        if asked is None:
            return None, None
        facts, trusted = self._compared(asked, kept)
        if self.config.reuse == "always":
            self._how = "not checked: --reuse always"
            return facts, None
        return facts, trusted

    def _compared(self, asked: Identity, kept: dict[int, str]) -> tuple[str | None, set[int]]:
        if not asked.is_known:
            self._how = (
                "the server does not answer the probes that identify its model; --reuse always reuses everything"
            )
            return None, set()
        reasons: dict[str, str | None] = {text: _reason(text, asked) for text in set(kept.values())}
        if reasons and None not in reasons.values():
            # A server may vary more than was seen so far: know its spread on this side too before it is called another.
            asked = asked.joined(self.lm.identify(TIMES_AT_FIRST - 1) or asked)
            reasons = {text: _reason(text, asked) for text in reasons}
        same = {origin for origin, text in kept.items() if reasons[text] is None}
        if same:
            self._how = "same probes"
            return kept[min(same)], same
        if kept:
            self.is_another = True
            why = reasons[kept[max(kept)]]
            self._how = f"another model answers now: {why}"
            self.notify(
                f"{self._model}: the model at this address is not the one whose answers are kept: {why}. "
                "None of them are reused; --reuse always reuses them anyway."
            )
        return asked.to_json(), set()

    def summary(self, counts: Counts) -> str:
        """Where answers came from: `1,200 computed, 119 from the store (asked 2026-11-14, same probes)`."""
        parts = [f"{counts.computed:,} computed"]
        if counts.reused:
            read_from = self._origin.read_from
            days = [_day(at) for at in self.store.dates([origin for origin, n in read_from.items() if n])]
            asked = [f"asked {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")] if days else []
            how = [*asked, *([self._how] if self._how else [])]
            parts.append(f"{counts.reused:,} from the store" + (f" ({', '.join(how)})" if how else ""))
        elif self._how and self._how != "same probes":
            parts.append(f"none from the store ({self._how})")
        if counts.failed:
            parts.append(f"{counts.failed:,} failed")
        return ", ".join(parts)


def _reason(text: str, asked: Identity) -> str | None:
    try:
        return difference(Identity.from_json(text), asked)
    except (ValueError, LookupError, TypeError):
        return "what was kept about it cannot be read"


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
