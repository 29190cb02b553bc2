"""`assay view` as a command: it prints where it listens, answers there, and writes bundles."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.view import command
from assay.errors import ConfigError


def serving(*words: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "view", *words, "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    if found is None:
        assert process.stderr is not None
        process.kill()
        raise AssertionError(process.stderr.read())
    return process, found[0]


def test_the_server_listens_on_loopback_and_prints_where(runs: Path) -> None:
    process, address = serving(str(runs))
    try:
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as answer:
            assert b"sharp-7b" in answer.read()
    finally:
        process.terminate()
        process.wait(10)


def test_elsewhere_the_address_carries_a_token(runs: Path) -> None:
    process, address = serving(str(runs), "--host", "0.0.0.0")
    try:
        port = re.search(r":(\d+)/", address)
        assert port is not None
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address.replace("0.0.0.0", "127.0.0.1")) as answer:
            assert b"sharp-7b" in answer.read()
    finally:
        process.terminate()
        process.wait(10)


def test_a_taken_port_is_an_error_with_a_way_out(runs: Path) -> None:
    process, address = serving(str(runs))
    try:
        port = address.rsplit(":", 1)[1].strip("/")
        result = CliRunner().invoke(command, [str(runs), "--no-open", "--port", port])
        assert isinstance(result.exception, ConfigError)
        assert "another --port" in str(result.exception)
    finally:
        process.terminate()
        process.wait(10)


def test_a_bundle_wants_an_empty_place_and_finished_runs(runs: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        command, [str(runs / "blunt-1b"), "--bundle", str(tmp_path / "site"), "--bundle_samples", "2"]
    )
    assert "pages; open" in result.output
    again = CliRunner().invoke(command, [str(runs / "blunt-1b"), "--bundle", str(tmp_path / "site")])
    assert isinstance(again.exception, ConfigError)
    assert "is not empty" in str(again.exception)
    (tmp_path / "nothing").mkdir()
    empty = CliRunner().invoke(command, [str(tmp_path / "nothing"), "--bundle", str(tmp_path / "other")])
    assert "no finished run" in str(empty.exception)
