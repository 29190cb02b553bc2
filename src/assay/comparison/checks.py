"""What a gate says: one check a number, and whether all hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assay.comparison.model import Options
from assay.comparison.views import RunView
from assay.errors import ConfigError, did_you_mean
from assay.stats import Estimate, GateResult


@dataclass(frozen=True)
class Check:
    """One number that must hold."""

    name: str
    key: str
    result: GateResult
    kind: str
    """`paired`, `unpaired`, `threshold`, or why there is nothing to check: then it has failed."""
    value: float | None
    against: float | None
    n: int

    @classmethod
    def failed(cls, name: str, key: str, reason: str, options: Options) -> Check:
        """What has no number has not been shown to be good enough."""
        return cls(name, key, GateResult(False, None, -options.margin, options.alpha), reason, None, None, 0)

    def line(self) -> str:
        """For the log of a build."""
        word = "PASS" if self.result.passed else "FAIL"
        what = f"{word}  {self.name} {self.key}".rstrip()
        if self.kind not in ("paired", "unpaired", "threshold"):
            return f"{what}: {self.kind}"
        confidence = f"{1 - self.result.alpha:.0%}"
        bound = "no error bar" if self.result.bound is None else f"{self.result.bound:+.4f}"
        value = "undefined" if self.value is None else f"{self.value:.4f}"
        if self.kind == "threshold":
            low = "no error bar" if self.result.bound is None else f"{self.result.bound:.4f}"
            return f"{what}: {value} (n = {self.n:,}), {confidence} bound {low}, threshold {self.result.limit:g}"
        return f"{what}: {value} vs {self.against:.4f} (n = {self.n:,}, {self.kind}), {confidence} bound on the difference {bound}, margin {self.result.limit:+g}"  # fmt: skip


@dataclass(frozen=True)
class Gate:
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(check.result.passed for check in self.checks)


def is_number(estimate: Estimate) -> bool:
    return estimate.value is not None and estimate.value == estimate.value


def require_names(names: Iterable[str], view: RunView) -> None:
    for name in names:
        if name not in view.reported:
            raise ConfigError(f"{view.path} has no task or group {name!r}", hint=did_you_mean(name, view.reported))
