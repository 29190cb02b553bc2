"""Runs of other harnesses, written by those harnesses: `python tests/finished/make_genuine.py [NAME …]`.

Each maker under `genuine/makers` runs in an environment of its own with the package named here, and writes small runs that
are checked in under `genuine/<name>`, beside the version that wrote them. Tests read those files and never the packages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent / "genuine"
ENVIRONMENTS = Path(tempfile.gettempdir()) / "assay-genuine"
"""Logs name the files of their writer in tracebacks: these are nobody's."""


class Maker(NamedTuple):
    package: str
    python: str = "python3.11"
    unpinned: tuple[str, ...] = ()
    """Requirements whose pins are newer than what can be had everywhere: any version does for writing a log; and those
    that the package forgets."""


MAKERS = {
    "harbor": Maker("harbor==0.25.0", "python3.12", unpinned=("certifi",)),
    "inspect": Maker("inspect-ai==0.3.285"),
    "nemo": Maker("nemo-evaluator==0.3.0", "python3.12", unpinned=("scipy",)),
}


def interpreter(name: str, maker: Maker) -> Path:
    """The interpreter of a maker's environment, which is made where it is missing."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        subprocess.run([maker.python, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*install, "--no-deps", maker.package], check=True)
        listing = f"from importlib.metadata import requires; print(*requires({maker.package.split('==')[0]!r}) or (), sep='\\n')"
        listed = subprocess.run([str(python), "-c", listing], check=True, capture_output=True, text=True).stdout
        needed = [line for line in listed.splitlines() if "extra ==" not in line]
        needed = [line for line in needed if not line.startswith(maker.unpinned or ("-",))]
        subprocess.run([*install, *needed, *maker.unpinned], check=True)
        (folder / ".installed").touch()
    return python


def make(name: str) -> None:
    maker = MAKERS[name]
    python = interpreter(name, maker)
    script = Path(shutil.copy(HERE / "makers" / f"{name}_logs.py", ENVIRONMENTS))
    with tempfile.TemporaryDirectory(dir=ENVIRONMENTS) as made:
        subprocess.run([str(python), str(script), made], check=True, cwd=made)
        target = HERE / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
        (target / "VERSION").write_text(f"{maker.package}\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or MAKERS:
        make(each)
