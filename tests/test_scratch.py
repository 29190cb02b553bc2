"""What a killed process left in the temporary directory goes with the next one; what a living one uses stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from assay import evaluate
from assay.scratch import partial_file, scratch_directory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks")

HOLDER = """
import sys, time
from pathlib import Path
from assay.scratch import partial_file, scratch_directory
with scratch_directory("seal") as folder, partial_file(Path(sys.argv[1])) as file:
    (folder / "deep").mkdir()
    (folder / "deep" / "member").write_text("an answer")
    print(folder, flush=True)
    time.sleep(60)
"""

KILLED_AT_THE_END = """
import os, signal
from assay.scratch import scratch_directory

removed, unlink = [], os.unlink

def killed_after_twenty(path, **more):
    unlink(path, **more)
    removed.append(path)
    if len(removed) == 20:
        os.kill(os.getpid(), signal.SIGKILL)

with scratch_directory("seal") as folder:
    for number in range(20):
        (folder / str(number)).touch()
    os.unlink = killed_after_twenty
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_what_a_killed_process_left_is_removed_by_the_next_and_not_before(temporary: Path, tmp_path: Path) -> None:
    target = tmp_path / "run[1].zip"
    with subprocess.Popen([sys.executable, "-c", HOLDER, target], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        theirs = Path(holder.stdout.readline().strip())
        with scratch_directory("seal"), partial_file(target) as file:
            file.write(b"whole")
        assert (theirs / "deep" / "member").exists()
        assert len([*tmp_path.glob(".run*.part")]) == 1
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert theirs.exists()
    with scratch_directory("verify"):
        assert theirs.exists(), "each kind looks after its own"
    with scratch_directory("seal"), partial_file(target):
        assert not theirs.exists()
    assert [*temporary.iterdir()] == []
    assert [*tmp_path.glob(".run*.part")] == []


def test_directories_of_other_programs_and_links_stay(temporary: Path, tmp_path: Path) -> None:
    (temporary / "assay-seal-unlocked").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / ".lock").write_text("")
    (other / "precious").write_text("")
    (temporary / "assay-seal-link").symlink_to(other)
    with scratch_directory("seal"):
        pass
    assert (temporary / "assay-seal-unlocked").exists()
    assert (other / "precious").exists()


def test_a_seal_that_is_killed_leaves_nothing_after_the_next(temporary: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    evaluate(model="dummy", tasks=["demo_facts"], limit=4, run_dir=str(run), store=str(tmp_path / "store.db"))
    words = [sys.executable, "-m", "assay", "seal", run, "-o", tmp_path / "bundle.zip"]
    assert any(killed_at_work(words, temporary) for _ in range(20)), (
        "it was never killed while it had a copy of the run"
    )
    assert subprocess.run(words, capture_output=True).returncode == 0
    assert [*temporary.iterdir()] == []


def killed_at_work(words: list[str | Path], temporary: Path) -> bool:
    """Whether it was killed while it had something in the temporary directory; it may have been faster."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if [*temporary.glob("assay-*/.lock")]:
                process.kill()
                break
    return process.wait() == -signal.SIGKILL and bool([*temporary.iterdir()])


def test_who_is_killed_while_it_cleans_up_has_left_what_the_next_one_finds(temporary: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED_AT_THE_END]).returncode == -signal.SIGKILL
    assert [*temporary.glob("assay-seal-*")]
    with scratch_directory("seal"):
        pass
    assert [*temporary.iterdir()] == []
