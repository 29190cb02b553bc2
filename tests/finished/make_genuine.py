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
    packages: tuple[str, ...]
    python: str = "python3.11"


MAKERS = {
    "inspect": Maker(("inspect-ai==0.3.285", "openai")),
}


def interpreter(name: str, maker: Maker) -> Path:
    """The interpreter of a maker's environment, which is made where it is missing."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        subprocess.run([maker.python, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *maker.packages], check=True)
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
        (target / "VERSION").write_text("\n".join(maker.packages) + "\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or MAKERS:
        make(each)
