from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError
from assay.groups import MetricKey


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("acc,none", MetricKey("acc")),
        ("acc_stderr,none", MetricKey("acc", "none", is_stderr=True)),
        ("pass@1,strict-match", MetricKey("pass@1", "strict-match")),
        ("f1,a,b", MetricKey("f1", "a,b")),
        ("stderr,none", MetricKey("stderr")),
        ("_stderr,none", MetricKey("_stderr")),
    ],
)
def test_keys_read_and_print(text: str, key: MetricKey) -> None:
    assert MetricKey.parse(text) == key
    assert str(key) == text


@pytest.mark.parametrize("text", ["alias", "", ",none", "sample_len"])
def test_what_is_no_key_is_refused(text: str) -> None:
    assert not MetricKey.is_key(text)
    with pytest.raises(ConfigError, match="metric,filter"):
        MetricKey.parse(text)


@given(
    st.text(st.characters(exclude_characters=","), min_size=1).filter(lambda m: not m.endswith("_stderr")),
    st.text(),
    st.booleans(),
)
def test_print_and_read_are_inverse(metric: str, filter_name: str, is_stderr: bool) -> None:
    key = MetricKey(metric, filter_name, is_stderr)
    assert MetricKey.parse(str(key)) == key
    assert key.stderr.value == key.value
