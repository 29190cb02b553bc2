"""The config of a run: forms that people type, and values that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from assay.config import RunConfig, Seeds, parse_settings
from assay.errors import ConfigError
from assay.secret_texts import without_secrets

UNSEEDED = Seeds(python=None, numpy=None, torch=None, fewshot=None)


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (None, UNSEEDED),
        ("None", UNSEEDED),
        (7, Seeds(python=7, numpy=7, torch=7, fewshot=7)),
        ("7", Seeds(python=7, numpy=7, torch=7, fewshot=7)),
        ("0, None,2,none", Seeds(python=0, numpy=None, torch=2, fewshot=None)),
        ([0, 1, None, 3], Seeds(python=0, numpy=1, torch=None, fewshot=3)),
        ("5,6,7", Seeds(python=5, numpy=6, torch=7, fewshot=1234)),
        ({"fewshot": 3}, Seeds(fewshot=3)),
    ],
)
def test_seeds_in_all_forms(given: Any, seeds: Seeds) -> None:
    assert RunConfig(seed=given).seed == seeds


@pytest.mark.parametrize("given", ["x", "1,2", [1, 2, 3, 4, 5], [[1]], float("nan")])
def test_seeds_that_are_none(given: Any) -> None:
    with pytest.raises(ConfigError, match="seed: "):
        RunConfig(seed=given)


@pytest.mark.parametrize(("given", "size"), [(1, 1), (64, 64), ("8", 8), ("auto", "auto"), ("auto:4", "auto")])
def test_batch_sizes(given: Any, size: Any) -> None:
    assert RunConfig(batch_size=given).batch_size == size


@pytest.mark.parametrize("given", [0, -1, "0", "auto:", "auto:0", "auto:x", "many", 1.5, None, True])
def test_batch_sizes_that_are_none(given: Any) -> None:
    with pytest.raises(ConfigError, match="batch_size is "):
        RunConfig(batch_size=given)


@pytest.mark.parametrize("given", [0, -1, float("nan"), float("inf"), float("-inf")])
def test_limits_that_are_none(given: float) -> None:
    with pytest.raises(ConfigError, match="limit is "):
        RunConfig(limit=given)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("pretrained=/m/john's,dtype=float32", {"pretrained": "/m/john's", "dtype": "float32"}),
        ("a=it's b=that's", {"a": "it's", "b": "that's"}),
        ("a='x,y',b=1", {"a": "x,y", "b": 1}),
        ('a= "x,y",b=1', {"a": "x,y", "b": 1}),
        ("""a=["x,'y", 'z']""", {"a": ["x,'y", "z"]}),
        ("a=b='x,c=1", {"a": "b='x", "c": 1}),
    ],
)
def test_a_quote_opens_only_where_a_value_begins_or_inside_brackets(text: str, settings: dict[str, Any]) -> None:
    assert parse_settings(text) == settings


def test_what_is_wrong_is_a_value_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="limit") as caught:
        RunConfig(limit="many")
    assert isinstance(caught.value, ConfigError)
    with pytest.raises(ConfigError, match="cannot be combined") as caught:
        RunConfig(limit=1, samples={"t": [0]})
    assert caught.value.hint == "Leave one of them out."


def test_a_role_is_recorded_without_its_secrets() -> None:
    config = RunConfig(roles={"judge": {"model": "openai-chat", "model_args": "model=m,api_key=hidden"}})
    assert config.roles["judge"].model_args == {"model": "m", "api_key": "hidden"}
    recorded = without_secrets(config.model_dump(mode="json"))
    assert recorded["roles"] == {"judge": {"model": "openai-chat", "model_args": {"model": "m"}}}
    assert RunConfig(**recorded).roles["judge"].model == "openai-chat"


def test_a_role_whose_name_would_not_be_recorded() -> None:
    with pytest.raises(ConfigError, match="'api_key' cannot be the name of a role"):
        RunConfig(roles={"api_key": "dummy"})
