"""What was found in a bundle, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.sealing.reasking import Reasked
from assay.sealing.verifying import SealVerification
from assay.terminal_text import hanging, one_line

SHOWN = 10


def verification_lines(verification: SealVerification, *, reasked: bool = False) -> Iterator[str]:
    model = verification.about.get("model") or {}
    yield f"seal {verification.about.get('seal')}"
    yield f"model {one_line(str(model.get('name')))}, fingerprint {one_line(str(model.get('fingerprint')))[:16]}"
    for kind, good, bad in LINES:
        wrong = [each for each in verification.differences if each.kind in kind]
        yield f"✗ {bad}: {len(wrong):,}" if wrong else f"✓ {good(verification)}"
        for each in wrong[:SHOWN]:
            yield f"    {hanging(one_line(str(each)))}"
        if len(wrong) > SHOWN:
            yield f"    and {len(wrong) - SHOWN:,} more (--json shows all)"
    if verification.not_checked:
        yield hanging(f"? not checked: {', '.join(verification.not_checked)} (--json says where they stand)")
    for note in verification.notes:
        yield hanging(f"! {note}")
    yield "Verified: every number follows from the answers in the bundle." if verification.passed else "Not verified."
    if verification.passed and not reasked:
        yield "This does not show that the model gave these answers; --reask 50 --model … asks it again."


def reasked_lines(found: Reasked) -> Iterator[str]:
    """What asking again found, and what it would have found."""
    k, noisy, changed = len(found.docs), found.noisy, found.changed
    yield ""
    yield (
        f"{k:,} of {found.total:,} docs asked again, each {found.replays} times (--seed {found.seed} picks the same ones)"
    )
    if found.left_out:
        yield (
            f"! {found.left_out:,} more docs were picked whose answers cannot be compared, because they were sampled or failed"
        )
    if not found.same_model:
        yield "! the model's fingerprint is not the sealed one, so different answers may be its own"
    if noisy:
        yield f"! on {len(noisy):,} docs the model does not agree with itself; they say nothing about the sealed answers"
    if not changed:
        yield f"✓ answers: as sealed on all {found.conclusive:,} docs where the model agrees with itself"
    else:
        yield from _changed_lines(found)
    yield "If this share of all answers had been changed, at least one change would have shown with this probability:"
    yield "    " + "   ".join(f"{share:.0%}: {chance:.1%}" for share, chance in found.chances().items())
    if found.smallest_share is not None:
        yield f"    a share of {found.smallest_share:.1%} or more: at least 95 %"


def _changed_lines(found: Reasked) -> Iterator[str]:
    changed = found.changed
    yield f"✗ answers: different from the sealed ones on {len(changed):,} docs where the model agrees with itself"
    for doc in changed[:SHOWN]:
        yield f"    {one_line(doc.task)}, doc {doc.doc_id}: sealed {_brief(doc.kept)}, now {_brief(doc.now[0])}"
    yield hanging(
        f"  Noise alone would do this with probability {found.p_value:.2g}. "
        "Different answers are evidence, not proof: the server may have changed since, or its answers may depend on the batch."
    )


def _brief(answers: list[Any]) -> str:
    shown = [f"{each[0]:.3f}" if isinstance(each, tuple) else each for each in answers]
    text = one_line(", ".join(map(str, shown)))
    return text if len(text) <= 60 else f"{text[:59]}…"


def _docs_line(verification: SealVerification) -> str:
    if verification.from_dataset:
        return f"docs: {verification.docs:,}, those of the dataset"
    why = f" ({one_line(verification.why_not)})" if verification.why_not else ""
    return f"docs: {verification.docs:,}, as in the bundle; not compared with the dataset{why}"


def _requests_line(verification: SealVerification) -> str:
    if verification.rebuilt:
        return "requests: built again from the docs, with the same hashes"
    return "requests: as in the bundle, with the hashes it states"


def _numbers_line(verification: SealVerification) -> str:
    rounded = f", {verification.rounded:,} of them up to rounding in the tenth digit" if verification.rounded else ""
    return f"numbers: {verification.compared:,} values computed again are equal{rounded}"


LINES = (
    (("file",), lambda verification: f"files: {len(verification.about['members']):,}, as sealed", "files"),
    (("setting",), lambda verification: "settings: those that the results were computed with", "settings"),
    (("doc",), _docs_line, "docs"),
    (("request",), _requests_line, "requests"),
    (("answer", "number"), _numbers_line, "numbers and answers"),
)
