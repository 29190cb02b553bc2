"""500 damaged files: cut, with flipped bits, with wrong types and numbers, with parts in each other's place, bombs, links out
of the directory. Each is an error that names a file, or a run; never a traceback, nothing written, bounded memory.

The grid is seeds 0 to 499. `make test` runs every tenth; the rest is `wide`.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.finished.test_genuine import GENUINE

from assay.errors import AssayError
from assay.finished import open_runs
from assay.finished.inspect.archive import Archive

SETS = {
    "inspect/epochs_b": "*.eval",
    "inspect/json": "*.json",
    "inspect/parts": "*.eval",
    "harbor/attempts": "*/*.json",
    "nemo/repeats": "*.json*",
    "verifiers/rollouts": "traces.jsonl",
    "eee/agent": "*.json*",
    "evalframework/repeats": "*.json*",
    "lighteval/good": "*.parquet",
    "openai/facets": "*.jsonl",
}
"""Runs, and which of their files are damaged."""
WRONG: tuple[Any, ...] = (None, True, -1, 1e308, "", "text", [], [[]], {}, {"a": [1]}, "\ud800", 10**30)


def cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content))]


def flipped(rng: random.Random, content: bytes) -> bytes:
    found = bytearray(content)
    for _ in range(rng.choice((1, 8, 64))):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def wrong_types(rng: random.Random, content: bytes) -> bytes:
    """One value somewhere in the JSON is of another type; what is not JSON loses its middle."""
    lines = content.split(b"\n")
    place = rng.choice([i for i, line in enumerate(lines) if line.strip()])
    whole = len(lines) > 1 and lines[0].strip() in (b"{", b"[")
    try:
        data = json.loads(content if whole else lines[place])
    except ValueError:
        return content[: len(content) // 3] + content[len(content) // 2 :]
    node, path = data, None
    while isinstance(node, dict | list) and node:
        path = (node, rng.choice(list(node) if isinstance(node, dict) else range(len(node))))
        node = path[0][path[1]]
        if rng.random() < 0.3:
            break
    if path is not None:
        path[0][path[1]] = rng.choice(WRONG)
    made = json.dumps(data).encode()
    if whole:
        return made
    lines[place] = made
    return b"\n".join(lines)


def bomb(rng: random.Random, content: bytes) -> bytes:
    """Far more than it seems: nested brackets, a long line, or zeros in a zip."""
    return rng.choice((b"[" * 200_000, b'{"a":' * 100_000 + b"1", content + b"\n" + b'"' + b"x" * (1 << 22)))


def swapped(rng: random.Random, content: bytes) -> bytes:
    """Two members of a zip, or two lines, in each other's place; or a part of the file where another was."""
    if content[:2] == b"PK":
        return swapped_members(rng, content)
    lines = content.split(b"\n")
    if len(lines) < 3:
        third = len(content) // 3
        return content[third : 2 * third] + content[:third] + content[2 * third :]
    one, other = rng.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def swapped_members(rng: random.Random, content: bytes) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.eval"
        path.write_bytes(content)
        with Archive(path) as source:
            members = [(name, source.read(number)) for number, name in enumerate(source.names)]
        one, other = rng.sample(range(len(members)), 2)
        names = [name for name, _ in members]
        names[one], names[other] = names[other], names[one]
        if rng.random() < 0.3:
            names[other] = rng.choice(("../out.json", "/tmp/out.json", "samples/../../x_epoch_1.json", names[one]))
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            warnings.simplefilter("ignore")  # two members of one name are what is wanted
            for name, (_, inside) in zip(names, members):
                archive.writestr(name, inside)
        return path.read_bytes()


def numbers(rng: random.Random, content: bytes) -> bytes:
    """Huge, tiny and impossible numbers, and nothing, where numbers and names were."""
    made = rng.choice((b"1e999", b"-1e308", b"9" * 400, b"NaN", b"null", b"-0", b"true", b'"1"', b"[1,2]"))
    places = list(re.finditer(rb"(?<=[:\[,] )-?\d[\d.]*|(?<=[:\[,])-?\d[\d.]*", content))
    for place in sorted(rng.sample(places, min(len(places), rng.choice((1, 5, 50)))), key=lambda each: -each.start()):
        content = content[: place.start()] + made + content[place.end() :]
    return content


KINDS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    cut,
    flipped,
    wrong_types,
    wrong_types,
    bomb,
    swapped,
    numbers,
)


def damage(seed: int, folder: Path) -> Path:
    rng = random.Random(seed)
    name, pattern = list(SETS.items())[seed % len(SETS)]
    shutil.copytree(GENUINE / name, folder / "run")
    file = rng.choice(sorted((folder / "run").rglob(pattern.rpartition("/")[2])))
    kind = KINDS[seed // len(SETS) % len(KINDS)]
    if kind is bomb and rng.random() < 0.4:
        outside = folder / "outside.json"
        outside.write_text("{}")
        file.unlink()
        file.symlink_to(rng.choice((outside, Path("/dev/zero"), folder)))
    elif kind is bomb and file.suffix == ".eval":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                "header.json", b'{"eval": {"task": "t", "model": "m"}, "x": "' + b"0" * (300 << 20) + b'"}'
            )
            archive.writestr("../../out.json", "{}")
    else:
        file.write_bytes(kind(rng, file.read_bytes()))
    return folder / "run"


def listing(folder: Path) -> list[str]:
    return sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)


def read(path: Path) -> str | None:
    """What the error says, if there is one."""
    try:
        for run in open_runs(path):
            assert all(isinstance(doc.doc_hash, str) for task in run.tasks for doc in run.docs(task))
    except AssayError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.wide] if seed % 10 != seed // 10 % 10 else []) for seed in range(500)],
)
def test_a_damaged_run_is_an_error_or_a_run(seed: int, tmp_path: Path) -> None:
    path = damage(seed, tmp_path)
    before, memory = listing(tmp_path), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = read(path)
    assert said is None or str(tmp_path) in said, "the error names the file"
    assert listing(tmp_path) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 900 << 10, "kB"


@pytest.mark.parametrize("value", [1e308, -1e308])
def test_a_number_that_no_field_can_be_is_an_error_that_names_the_file(value: float, tmp_path: Path) -> None:
    shutil.copytree(GENUINE / "eee/agent", tmp_path / "run")
    (file,) = (each for each in (tmp_path / "run").rglob("*.json"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "evaluation_timestamp": value}))
    said = read(tmp_path / "run")
    assert said is not None
    assert str(tmp_path) in said
