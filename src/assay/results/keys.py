"""The name of one number: a metric under a filter, and its text in results files.

Files of lm-evaluation-harness call it `acc,none`, and its standard error `acc_stderr,none`. The functions below are the
only ones that write or read that text. Everything else holds a `MetricKey`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from assay.errors import ConfigError, did_you_mean

_STDERR = "_stderr"


class _Names(NamedTuple):
    metric: str
    filter: str = "none"


class MetricKey(_Names):
    """A metric under a filter. It equals the plain tuple, so `scores["acc", "none"]` finds it.

    >>> MetricKey("acc") == ("acc", "none")
    True
    >>> str(MetricKey("acc", "none", is_stderr=True))
    'acc_stderr,none'
    """

    is_stderr: bool = False
    """Whether it names the standard error of a number, as files of lm-evaluation-harness do."""

    def __new__(cls, metric: str, filter: str = "none", is_stderr: bool = False) -> Self:
        key = super().__new__(cls, f"{metric}{_STDERR}" if is_stderr else metric, filter)
        if is_stderr:
            key.is_stderr = True
        return key

    def __str__(self) -> str:
        return write_key(self)


def write_key(key: MetricKey, *, stderr: bool = False) -> str:
    """
    >>> write_key(MetricKey("acc")), write_key(MetricKey("acc"), stderr=True)
    ('acc,none', 'acc_stderr,none')
    """
    return f"{key.metric}{_STDERR if stderr else ''},{key.filter}"


def read_key(text: str) -> MetricKey:
    """Only the first comma separates: people name filters as they like, metrics rarely.

    >>> read_key("exact_match,strip, then first")
    MetricKey(metric='exact_match', filter='strip, then first')
    """
    metric, comma, filter_name = text.partition(",")
    if not metric or not comma:
        raise ConfigError(
            f"{text!r} does not name a metric under a filter", hint="Expected metric,filter as in acc,none."
        )
    return MetricKey(metric, filter_name)


def read_numbers(entry: Mapping[str, Any]) -> dict[MetricKey, tuple[Any, Any]]:
    """Value and standard error by key, of one task or group in a results file of lm-evaluation-harness.

    A name that ends in `_stderr` is a standard error only where the number itself is there too.

    >>> read_numbers({"alias": "t", "acc,none": 0.5, "acc_stderr,none": "N/A"})
    {MetricKey(metric='acc', filter='none'): (0.5, 'N/A')}
    """
    numbers: dict[MetricKey, tuple[Any, Any]] = {}
    for text, value in entry.items():
        metric, comma, filter_name = text.partition(",")
        if not metric or not comma:
            continue
        if metric.endswith(_STDERR) and f"{metric.removesuffix(_STDERR)},{filter_name}" in entry:
            continue
        key = MetricKey(metric, filter_name)
        numbers[key] = (value, entry.get(write_key(key, stderr=True)))
    return numbers


def matching(asked: str, keys: Iterable[MetricKey]) -> list[MetricKey]:
    """The keys that somebody means who types `acc` or `acc,none`.

    >>> matching("acc", [MetricKey("acc"), MetricKey("acc", "strict"), MetricKey("acc_norm")])
    [MetricKey(metric='acc', filter='none'), MetricKey(metric='acc', filter='strict')]
    """
    known = list(keys)
    exact = [key for key in known if write_key(key) == asked]
    return exact or [key for key in known if key.metric == asked]


def the_one(asked: str | tuple[str, str], keys: Iterable[MetricKey], owner: str) -> MetricKey:
    """The key that is meant; an error where there is none, or several filters have the metric."""
    known = list(keys)
    if not isinstance(asked, str):
        candidates = [key for key in known if key == asked]
    else:
        candidates = matching(asked, known)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        listed = ", ".join(map(str, candidates))
        raise ConfigError(f"{owner} has {asked!r} under several filters", hint=f"Choose one: {listed}.")
    listed = ", ".join(map(str, known)) or "none"
    hint = did_you_mean(str(asked), map(str, known)) or f"It has: {listed}."
    raise ConfigError(f"{owner} has no metric {asked!r}", hint=hint)
