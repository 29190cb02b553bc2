"""The zip of a log is read as Python's own library reads it, and damage is told."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from assay.finished.inspect.archive import Archive

MEMBERS = {"header.json": b'{"eval": {}}', "samples/\u00e9_epoch_1.json": b"x" * 70_000, "empty": b""}


def written(path: Path, method: int = zipfile.ZIP_DEFLATED, comment: bytes = b"", *, wide: bool = False) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in MEMBERS.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=wide) as member:
                member.write(content)
        archive.comment = comment
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("comment", [b"", b"PK, a comment"])
@pytest.mark.parametrize("wide", [False, True])
def test_members_are_those_that_were_written(tmp_path: Path, method: int, comment: bytes, wide: bool) -> None:
    with Archive(written(tmp_path / "a.eval", method, comment, wide=wide)) as archive:
        assert {name: archive.read(number) for number, name in enumerate(archive.names)} == MEMBERS


def test_more_members_than_an_old_zip_can_count(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "many.eval", "w") as made:
        for number in range(70_000):
            made.writestr(str(number), b"")
    with Archive(tmp_path / "many.eval") as archive:
        assert archive.names == [str(number) for number in range(70_000)]


def test_a_changed_byte_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.eval", zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"xxxx", b"xxyx", 1))
    with Archive(path) as archive, pytest.raises(ValueError, match="checksum"):
        archive.read(1)


@pytest.mark.parametrize("end", [0, 10, 40, -1, -30])
def test_a_zip_that_is_cut_off_is_told(tmp_path: Path, end: int) -> None:
    path = written(tmp_path / "a.eval")
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(ValueError, match=r"missing|damaged|cut off"):
        Archive(path)


def test_a_member_with_a_password_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.eval")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(content)
    with Archive(path) as archive, pytest.raises(ValueError, match="password"):
        archive.read(0)
