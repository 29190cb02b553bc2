"""Runs of other harnesses, written by those harnesses: `python tests/finished/make_genuine.py [NAME …]`.

Each maker under `genuine/makers` runs in an environment of its own with the package named here, and writes small runs that
are checked in under `genuine/<name>`, beside the version that wrote them. Tests read those files and never the packages.
"""

from __future__ import annotations

import os
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
    only: tuple[str, ...] = ()
    """What to install in place of all that the package lists."""
    script: str = ""
    """Whose script makes them, where two versions share one."""


MAKERS = {
    "eee": Maker("every-eval-ever==0.3.0", "python3.12", unpinned=("inspect-ai==0.3.285",)),
    "evalframework": Maker("eval-framework==0.15.4", "python3.12"),
    "harbor": Maker("harbor==0.25.0", "python3.12", unpinned=("certifi",)),
    "inspect": Maker("inspect-ai==0.3.285"),
    "inspectevals": Maker("inspect-evals==0.26.0", unpinned=("inspect-ai==0.3.285", "email-validator")),
    "lighteval": Maker("lighteval==0.13.0", unpinned=("xxhash<4",)),
    "lmeval": Maker("lm-eval==0.4.13", unpinned=("requests",)),
    "lmeval05": Maker("lm-eval==0.5.0.dev1", unpinned=("requests",), script="lmeval"),
    "nemo": Maker("nemo-evaluator==0.3.0", "python3.12", unpinned=("scipy",)),
    "openai": Maker(
        "evals==3.0.1.post1",
        only=(
            "openai>=1",
            "tiktoken",
            "blobfile",
            "backoff",
            "numpy",
            "pyyaml",
            "sacrebleu",
            "filelock",
            "pydantic",
            "tqdm",
            "mock",
            "requests",
            "pandas",
            "zstandard",
            "lz4",
            "termcolor",
            "snowflake-connector-python",
        ),
    ),
    "verifiers": Maker("verifiers==0.4.0", "python3.12"),
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
        subprocess.run([*install, *(maker.only or needed), *maker.unpinned], check=True)
        (folder / ".installed").touch()
    return python


def make(name: str) -> None:
    maker = MAKERS[name]
    python = interpreter(name, maker)
    script = (
        shutil.copytree(HERE / "makers", ENVIRONMENTS / "makers", dirs_exist_ok=True)
        / f"{maker.script or name}_logs.py"
    )
    with tempfile.TemporaryDirectory(dir=ENVIRONMENTS) as made:
        # Files tell of the home of their writer, where its caches are.
        subprocess.run(
            [str(python), str(script), made], check=True, cwd=made, env={**os.environ, "HOME": str(ENVIRONMENTS)}
        )
        target = HERE / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
        (target / "VERSION").write_text(f"{maker.package}\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or MAKERS:
        make(each)
