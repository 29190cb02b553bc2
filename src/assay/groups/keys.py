"""The name of one number: `acc,none`, and of its standard error: `acc_stderr,none`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.errors import ConfigError

_STDERR = "_stderr"


@dataclass(frozen=True, order=True, slots=True)
class MetricKey:
    """A metric under a filter. Parsed once, so that nothing else takes the string apart.

    >>> MetricKey.parse("exact_match_stderr,strict-match")
    MetricKey(metric='exact_match', filter='strict-match', is_stderr=True)
    >>> str(MetricKey("acc", "none").stderr)
    'acc_stderr,none'
    """

    metric: str
    filter: str = "none"
    is_stderr: bool = False

    @classmethod
    def parse(cls, text: str) -> MetricKey:
        """Read `metric,filter`. Only the first comma separates: the name of a filter is free."""
        metric, comma, filter_name = text.partition(",")
        if not metric or not comma:
            raise ConfigError(
                f"{text!r} does not name a metric under a filter", hint="Expected metric,filter as in acc,none."
            )
        if metric.endswith(_STDERR) and metric != _STDERR:
            return cls(metric.removesuffix(_STDERR), filter_name, is_stderr=True)
        return cls(metric, filter_name)

    @classmethod
    def is_key(cls, text: str) -> bool:
        """Whether an entry of a results dictionary is a number, and not `alias` or `sample_len`."""
        metric, comma, _ = text.partition(",")
        return bool(metric and comma)

    @property
    def stderr(self) -> MetricKey:
        return replace(self, is_stderr=True)

    @property
    def value(self) -> MetricKey:
        return replace(self, is_stderr=False)

    def __str__(self) -> str:
        return f"{self.metric}{_STDERR if self.is_stderr else ''},{self.filter}"
