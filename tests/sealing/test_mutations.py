"""Every leaf of every JSON file of a bundle, changed once and sealed anew: each change is found, or its place is named as not checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.run.support import write_benchmark
from tests.run.test_run import run
from tests.sealing.test_sealing import members, write

from assay.errors import AssayError
from assay.sealing import Sources, seal_run, verify_bundle
from assay.sealing.archive import seal_id

Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutated")
    write_benchmark(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "home"))
        run(folder, run_dir=str(folder / "run"), limit=2)
        path, _ = seal_run(folder / "run", folder / "sealed.zip")
    return path


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not children or not value:
        yield place
        return
    for key, each in children:
        yield from leaves(each, (*place, key))


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        try:
            return changed_text(value)
        except ValueError:
            return f"{value} x"
    return {"added": 1} if isinstance(value, dict) else [*value, "added"] if isinstance(value, list) else "something"


def changed_text(text: str) -> str:
    """JSON in a text stays JSON."""
    if text[:1] not in ("[", "{"):
        raise ValueError(text)
    data = json.loads(text)
    return json.dumps(put(data, list(leaves(data))[-1]))


def put(data: Any, place: Place) -> Any:
    data = json.loads(json.dumps(data))
    if not place:
        return changed(data)
    *parents, last = place
    here = data
    for key in parents:
        here = here[key]
    here[last] = changed(here[last])
    return data


def mutations(files: dict[str, bytes]) -> Iterator[tuple[str, Place, bytes]]:
    """Member, place, and the member with the leaf at that place changed."""
    for name, content in files.items():
        if name.endswith(".json"):
            data = json.loads(content)
            for place in leaves(data):
                yield name, place, json.dumps(put(data, place)).encode()
        elif name.endswith(".jsonl"):
            lines = content.decode().splitlines()
            for number, line in enumerate(lines):
                row = json.loads(line)
                for place in leaves(row):
                    text = json.dumps(put(row, place))
                    yield "samples", place, "\n".join([*lines[:number], text, *lines[number + 1 :], ""]).encode()


def reseal(path: Path, files: dict[str, bytes], name: str) -> Path:
    """As somebody would who knows how; a changed list of members stays changed."""
    if name != "seal.json":
        return write(path, files, sealed=True)
    about = json.loads(files["seal.json"])
    about["seal"] = seal_id(about)
    return write(path, {**files, "seal.json": json.dumps(about).encode()}, sealed=False)


def is_named(name: str, place: Place, not_checked: dict[str, list[str]]) -> bool:
    for listed in not_checked.values():
        for each in listed:
            member, _, keys = each.partition(": ")
            wanted = keys.split()
            if member == name and len(wanted) <= len(place) and all(a in ("*", b) for a, b in zip(wanted, place)):
                return True
    return False


def unnoticed(sealed: Path, folder: Path, docs: str, step: int) -> list[tuple[str, Place]]:
    path = Path(shutil.copy(sealed, folder / "mutated.zip"))
    files = members(sealed)
    by_content = {content: name for name, content in files.items()}
    missed = []
    for name, place, content in list(mutations(files))[::step]:
        if (name, place) == ("seal.json", ("seal",)):
            continue  # it is made anew
        target = name
        if name == "samples":
            rows = content.decode().splitlines()
            target = next(
                each
                for old, each in by_content.items()
                if each.endswith(".jsonl") and sum(a != b for a, b in zip(rows, old.decode().splitlines())) == 1
            )
        try:
            found = verify_bundle(reseal(path, {**files, target: content}, target), Sources(docs=docs))
        except AssayError:
            continue
        if found.passed and not is_named(name, place, found.not_checked):
            missed.append((name, place))
    return missed


def test_a_slice_of_changed_leaves_is_found_or_named(sealed: Path, tmp_path: Path) -> None:
    assert unnoticed(sealed, tmp_path, "bundle", 23) == []


@pytest.mark.wide
@pytest.mark.parametrize("docs", ["bundle", "dataset"])
def test_every_changed_leaf_is_found_or_named(sealed: Path, tmp_path: Path, docs: str) -> None:
    assert unnoticed(sealed, tmp_path, docs, 1) == []


def test_what_is_not_checked_is_little(sealed: Path) -> None:
    """Numbers are never among it."""
    named = verify_bundle(sealed, Sources(docs="bundle")).not_checked
    files = members(sealed)
    left = [place for name, place, _ in mutations(files) if name == "results.json" and is_named(name, place, named)]
    assert not [place for place in left if place[0] in ("results", "groups", "n-samples", "versions", "config")]
    assert not [place for place in left if place[:2] == ("assay", "groups") or "scores" in place]


@pytest.mark.parametrize("member", ["seal.json", "run.json", "results.json", "samples/0000.jsonl"])
def test_a_key_that_stands_twice_is_refused(sealed: Path, tmp_path: Path, member: str) -> None:
    files = members(sealed)
    text = files[member].decode()
    files[member] = text.replace("{", '{"format": 1, "format": 1,', 1).encode()
    with pytest.raises(AssayError, match="twice"):
        verify_bundle(write(tmp_path / "twice.zip", files, sealed=member != "seal.json"), Sources(docs="bundle"))


def objects(value: Any, place: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict):
        yield place
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(each, (*place, key))


def unnoticed_additions(sealed: Path, folder: Path, step: int) -> list[tuple[str, Place]]:
    files, missed, number = members(sealed), [], 0
    for name in ("seal.json", "run.json", "results.json"):
        for place in objects(json.loads(files[name])):
            number += 1
            data = json.loads(files[name])
            here = data
            for key in place:
                here = here[key]
            here["certified"] = "by nobody"
            if number % step and place:
                continue
            path = reseal(folder / "added.zip", {**files, name: json.dumps(data).encode()}, name)
            try:
                found = verify_bundle(path, Sources(docs="bundle"))
            except AssayError:
                continue
            if found.passed and not is_named(name, (*place, "certified"), found.not_checked):
                missed.append((name, place))
    return missed


def test_what_was_added_to_a_bundle_is_found_or_named(sealed: Path, tmp_path: Path) -> None:
    assert unnoticed_additions(sealed, tmp_path, 10) == []


@pytest.mark.wide
def test_whatever_was_added_to_a_bundle_is_found_or_named(sealed: Path, tmp_path: Path) -> None:
    assert unnoticed_additions(sealed, tmp_path, 1) == []


def test_a_file_that_no_seal_has_is_found(sealed: Path, tmp_path: Path) -> None:
    files = {**members(sealed), "README.md": b"certified"}
    found = verify_bundle(write(tmp_path / "added.zip", files, sealed=True), Sources(docs="bundle"))
    assert [str(each) for each in found.differences] == ["README.md is nothing that a seal has"]
