"""`assay verify --reask`: some docs of a bundle asked again, and what that says about all of them."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.config import RunConfig, reading_only
from assay.errors import ConfigError
from assay.run import AskedAgain, model_for, reask
from assay.sealing.rows import sealed_docs
from assay.sealing.verifying import Sources, Unpacked, unpacked
from assay.stats import chance_to_see, odd_one_out, smallest_seen

TOLERANCE = 0.02
"""Log-likelihoods closer than this are the same: batches and kernels move them in the third digit."""
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
BEYOND_NOISE = 0.05


@dataclass(frozen=True)
class ModelChoice:
    """The model that answers again."""

    model: str
    model_args: dict[str, Any]
    device: str | None = None
    batch_size: int | str = "auto"


@dataclass(frozen=True)
class Reasked:
    """What asking again found."""

    total: int
    """Docs of the bundle, without tasks whose answers were drawn at random: those cannot be compared."""
    left_out: int
    """Drawn docs that cannot be compared."""
    docs: list[AskedAgain]
    replays: int
    seed: int
    fingerprint: str
    same_model: bool

    @property
    def changed(self) -> list[AskedAgain]:
        """Docs on which all new answers agree, and the sealed one differs."""
        return [doc for doc in self.docs if _odd(doc) == 0]

    @property
    def noisy(self) -> list[AskedAgain]:
        """Docs on which the model does not agree with itself: they say nothing about the sealed answer."""
        return [doc for doc in self.docs if not _agree(doc.now)]

    @property
    def p_value(self) -> float:
        """How often a server's own noise would do this."""
        odd = sum(_odd(doc) is not None for doc in self.docs)
        return odd_one_out(len(self.changed), odd, self.replays)

    @property
    def conclusive(self) -> int:
        return len(self.docs) - len(self.noisy)

    @property
    def beyond_noise(self) -> bool:
        return bool(self.changed) and self.p_value < BEYOND_NOISE

    def chances(self) -> dict[float, float]:
        """Share of changed answers to the probability that one of them would have been seen."""
        return {
            share: chance_to_see(self.total, self.conclusive, min(self.total, max(1, round(share * self.total))))
            for share in SHARES
        }

    @property
    def smallest_share(self) -> float | None:
        """Of answers, if changed, that would have been seen in 95 of 100 looks like this."""
        fewest = smallest_seen(self.total, self.conclusive)
        return (
            None if fewest is None or chance_to_see(self.total, self.conclusive, fewest) < 0.95 else fewest / self.total
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "docs": self.total,
            "asked": len(self.docs),
            "left_out": self.left_out,
            "replays": self.replays,
            "seed": self.seed,
            "same_fingerprint": self.same_model,
            "as_sealed": sum(_odd(doc) != 0 and _agree(doc.now) for doc in self.docs),
            "otherwise": [{"task": doc.task, "doc_id": doc.doc_id} for doc in self.changed],
            "model_disagrees_with_itself": [{"task": doc.task, "doc_id": doc.doc_id} for doc in self.noisy],
            "p_value_of_noise_alone": self.p_value,
            "chance_to_see": {str(share): chance for share, chance in self.chances().items()},
            "smallest_share_seen_at_95": self.smallest_share,
        }


def reask_bundle(
    path: str | Path,
    choice: ModelChoice,
    count: int,
    sources: Sources | None = None,
    *,
    replays: int = 2,
    seed: int | None = None,
) -> Reasked:
    """Ask `count` random docs of a bundle again, each `replays` times. Which docs is decided here and now, so that nobody can
    have known when the bundle was made; `seed` repeats a choice."""
    sources = sources or Sources()
    seed = secrets.randbits(48) if seed is None else seed
    with unpacked(path, sources) as bundle, reading_only(not sources.trust):
        places = sorted({(task, row["doc_id"]) for task in bundle.members for row in bundle.rows(task)})
        if not places:
            raise ConfigError("the bundle has no samples to ask again")
        drawn = random.Random(seed).sample(places, min(count, len(places)))
        answered, fingerprint = _answered_again(bundle, choice, drawn, replays, from_dataset=sources.docs == "dataset")
        tasks = {doc.task for doc in answered}
        sealed = bundle.bundle.about.get("model")
        return Reasked(
            total=sum(task in tasks for task, _ in places),
            left_out=len(drawn) - len(answered),
            docs=answered,
            replays=replays,
            seed=seed,
            fingerprint=fingerprint,
            same_model=fingerprint == (sealed.get("fingerprint") if isinstance(sealed, dict) else None),
        )


def _answered_again(
    bundle: Unpacked, choice: ModelChoice, drawn: Sequence[tuple[str, int]], replays: int, *, from_dataset: bool
) -> tuple[list[AskedAgain], str]:
    """The drawn docs with their new answers, and the fingerprint of the model that gave them."""
    config = RunConfig(**{**bundle.config.model_dump(), **vars(choice)})
    docs = None
    if bundle.has_docs and not from_dataset:
        docs = {task: sealed_docs(bundle.rows(task), 0) for task in bundle.members}
    chosen: dict[str, list[int]] = {}
    for task, doc_id in drawn:
        chosen.setdefault(task, []).append(doc_id)
    lm = model_for(config)
    try:
        answered = reask(bundle.directory, config, lm, chosen, replays=replays, docs=docs, manager=bundle.manager)
        if not answered:
            raise ConfigError(
                "none of the docs can be compared, because their answers were sampled or failed",
                hint="Asking again can check only greedy answers and likelihoods.",
            )
        return answered, lm.fingerprint()
    finally:
        lm.close()


def _odd(doc: AskedAgain) -> int | None:
    """Which of the sealed answer (0) and the new ones (1, 2, …) alone differs from all others; None where none does."""
    answers = [doc.kept, *doc.now]
    for place, answer in enumerate(answers):
        others = answers[:place] + answers[place + 1 :]
        if _agree(others) and not any(_same(answer, other) for other in others):
            return place
    return None


def _agree(answers: Sequence[list[Any]]) -> bool:
    return all(_same(answers[0], other) for other in answers[1:])


def _same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(_same_answer(*pair) for pair in zip(one, other))


def _same_answer(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return _same_answer(one[0], other[0])
    if isinstance(one, float | int) and isinstance(other, float | int):
        return abs(one - other) <= TOLERANCE + 1e-4 * abs(one)
    return bool(one == other)
