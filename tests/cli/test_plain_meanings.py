"""Arguments mean what they plainly say, or are refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.cli.entry import main
from assay.config import RunConfig, parse_settings
from assay.errors import ConfigError


@pytest.mark.parametrize("limit", [1.5, 10.25])
def test_a_limit_that_is_neither_a_number_of_docs_nor_a_share(limit: float) -> None:
    with pytest.raises(ConfigError, match=f"limit is {limit}"):
        RunConfig(limit=limit)


@pytest.mark.parametrize("limit", [1, 1.0, 0.5, 10])
def test_limits_that_mean_something(limit: float) -> None:
    assert RunConfig(limit=limit).limit == limit


def test_a_mirror_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no directory"):
        RunConfig(data_dir=str(tmp_path / "nope"))


def test_none_is_nothing_and_not_a_word() -> None:
    assert parse_settings("a=none,b=None,c=null,d=nonesuch", flag="x") == {
        "a": None,
        "b": None,
        "c": None,
        "d": "nonesuch",
    }


def test_a_model_without_what_it_needs_is_refused_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--tasks", "demo_agreement", "--output_path", str(tmp_path)])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "needs pretrained" in said
    assert "--model_args pretrained=smollm2-135m" in said
    assert "Traceback" not in said
