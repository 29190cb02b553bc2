"""A drift as findings: how far B's next-token distributions are from A's, over all, by domain and by position."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analyses.drift.engine import Drift, DriftPart
from assay.show import Axis, Column, Conclusion, Findings, Outcome, Table, Whisker, kinds

OUTCOMES: dict[str, tuple[Outcome, str]] = {
    "within": ("passed", "PASS: within"),
    "beyond": ("failed", "FAIL: beyond"),
    "open": ("cannot tell", "CANNOT TELL: neither within nor beyond"),
}
SMALL_VALUE = kinds.value_kind(kinds.small)
SMALL_INTERVAL = kinds.interval_kind(lambda end: kinds.small(max(0.0, end)))
SMALL_SIGNED = kinds.value_kind(lambda value: "0" if value == 0 else f"{value:+.3g}")
SHARE_VALUE = kinds.value_kind(lambda value: f"{value:.2%}")


def findings(drift: Drift) -> Findings:
    return Findings(
        title=f"{drift.b} against {drift.a}",
        tables=(_table(drift),),
        notes=tuple(_legend(drift)),
        verdict=_verdict(drift),
        result=drift,
    )


def _table(drift: Drift) -> Table:
    ends = [end for part in drift.parts for end in (part.kl.value, part.kl.high)]
    axis = Axis.powers_of_ten([*ends, drift.max_kl])
    above = dict(zip(map(id, drift.parts), ["all", *(part.kind for part in drift.parts)]))

    columns: tuple[Column[DriftPart], ...] = (
        Column("", kinds.TEXT, lambda part: part.title, "where", shrinks=True),
        Column("KL(A‖B), nats" if drift.is_exact else "KL(A‖B) at least", SMALL_VALUE, lambda part: part.kl, "kl"),
        Column("95 % interval", SMALL_INTERVAL, lambda part: part.kl, "kl"),
        Column(axis.text, kinds.WHISKER, lambda part: Whisker.of(part.kl, axis, reference=drift.max_kl)),
        Column("same top token", SHARE_VALUE, lambda part: part.same_first, rank=1),
        Column("entropy A", SMALL_VALUE, lambda part: part.entropy, rank=4),
        Column("B − A", SMALL_SIGNED, lambda part: part.entropy_change, "entropy_change", rank=4),
        Column("tokens", kinds.COUNT, lambda part: part.tokens, rank=2),
        Column("texts", kinds.COUNT, lambda part: part.texts, rank=3),
    )
    return Table.of(
        columns,
        drift.parts,
        row=lambda part: {"begins": part.kind != above[id(part)]},
        title=f"A {drift.a}\nB {drift.b}",
    )


def _legend(drift: Drift) -> Iterator[str]:
    """What the reader must know beside the table."""
    small = kinds.small
    yield "Means over tokens; intervals treat the tokens of one text as a cluster."
    if drift.whole.kl.withheld_reason is not None:
        yield f"No interval for the mean KL: {drift.whole.kl.withheld_reason}."
    tokens = drift.whole.tokens
    yield f"Up to {min(1.0, 3 / tokens):.2%} of all tokens may be of kinds that do not occur in these texts; no interval covers their drift."
    if not drift.is_exact:
        yield "The server lists only its most likely tokens, so KL is a lower bound (all other tokens count as one); there is no upper bound."
    if drift.variation is not None and drift.variation[0].value is not None and drift.variation[1].value is not None:
        low, high = drift.variation
        ends = f"{small(max(0.0, low.low or 0.0))} and {'' if high.high is None else small(high.high)}"
        yield f"Total variation between {small(low.value or 0.0)} and {small(high.value or 0.0)}; at 95 % between {ends}."
    if drift.continued is not None and drift.continued.value is not None:
        first = drift.first_difference
        where = "" if first is None else f"; those that do, differ from word {first:g} on (median)"
        yield f"Greedy continuations that differ: {drift.continued.value:.1%} of {drift.continued.n}{where}."


def _verdict(drift: Drift) -> Conclusion | None:
    if drift.verdict is None or drift.max_kl is None:
        return None
    reach = "no interval"
    if drift.bounds is not None:
        reach = f"95 % bounds {kinds.small(max(0.0, drift.bounds[0]))} and {kinds.small(drift.bounds[1])}"
    outcome, words = OUTCOMES[drift.verdict]
    return Conclusion(outcome, f"{words} --max_kl {drift.max_kl:g} ({reach})")
