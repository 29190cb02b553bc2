"""What a stranger installs: the distribution, its extras, the ways to install it, and the files that speak of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from assay.errors import DISTRIBUTION, EXTRA_OF_PACKAGE, install_hint
from assay.registry import missing_package

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_distribution_has_the_name_that_hints_and_version_use() -> None:
    assert PROJECT["name"] == DISTRIBUTION == "assay-eval"
    assert "assay" in PROJECT["scripts"]


@pytest.mark.parametrize("folder", ["src", "docs"])
def test_every_extra_that_a_hint_or_a_page_names_exists(folder: str) -> None:
    named: set[str] = set()
    for path in (ROOT / folder).rglob("*"):
        if path.suffix in (".py", ".md"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"pip install ['\"]?assay(\[|\s|$)", text), f"{path} installs somebody else's package"
            named.update(re.findall(r"install_hint\(['\"](\w+)['\"]\)", text))
            named.update(
                each
                for extras in re.findall(r"pip install (?:-e )?['\"](?:assay-eval|\./assay|\.)\[([\w,]+)\]", text)
                for each in extras.split(",")
            )
    assert named
    assert named <= EXTRAS.keys()


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"all", "dev"}))
def test_a_hint_names_the_packages_of_the_extra_so_that_it_works_however_assay_was_installed(extra: str) -> None:
    words = shlex.split(install_hint(extra))
    assert words[:2] == ["pip", "install"]
    assert sorted(words[2:]) == sorted(EXTRAS[extra])


SPOKEN_TO_USERS = ("src", "docs", "integrations", "examples", "README.md", "Dockerfile")


def test_no_text_installs_by_a_name_that_no_index_has() -> None:
    """`assay-eval` may stand before an address (`assay-eval[hf] @ git+…`), never alone after `pip install`."""
    files = [path for name in SPOKEN_TO_USERS for path in ([ROOT / name, *(ROOT / name).rglob("*")])]
    for path in files:
        if path.suffix in (".py", ".md", ".yml", ".yaml", ".ipynb", ".sh") or path.name == "Dockerfile":
            text = path.read_text(encoding="utf-8")
            for found in re.finditer(
                r"(?:install|upgrade|default:)[ '\"-]+(?:upgrade )?assay-eval(?:\[[\w,]+\])?+(?! @)", text
            ):
                raise AssertionError(f"{path}: {found[0]}")


def test_the_wheel_is_built_and_holds_what_ships(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(["make", "dist", f"PYTHON={sys.executable}"], cwd=tmp_path, capture_output=True, text=True)
    if "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("the package index does not answer")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(tmp_path / "src")) for path in (tmp_path / "src").rglob("*") if path.is_file()}
    assert sources <= names


def test_a_missing_package_of_an_extra_is_hinted_at_by_the_extra() -> None:
    for package, extra in EXTRA_OF_PACKAGE.items():
        assert any(re.match(rf"{package}\b", requirement) for requirement in EXTRAS[extra]), package
    error = missing_package("the model 'hf'", ModuleNotFoundError(name="torch"))
    assert install_hint("hf") in str(error)


def test_the_demo_installs_no_tools_of_developers() -> None:
    makefile = (ROOT / "Makefile").read_text()
    extras = re.search(r"^EXTRAS := (.+)$", makefile, re.MULTILINE)
    assert extras is not None
    assert set(extras[1].split(",")) <= EXTRAS.keys() - {"dev", "ray"}
    assert re.search(r"^demo: \$\(VENV\)/\.installed", makefile, re.MULTILINE)


def test_uvx_runs_a_clone(tmp_path: Path) -> None:
    environment = os.environ | {"UV_CACHE_DIR": str(tmp_path / "cache")}
    for ours, theirs in (("PIP_FIND_LINKS", "UV_FIND_LINKS"), ("PIP_INDEX_URL", "UV_DEFAULT_INDEX")):
        if ours in os.environ:
            environment[theirs] = os.environ[ours]
    command = [sys.executable, "-m", "uv", "tool", "run", "--from", str(ROOT), "assay", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if "error sending request" in done.stderr or "Failed to fetch" in done.stderr:
        pytest.skip("the package index does not answer")
    assert done.returncode == 0, done.stderr
    assert "Usage: assay" in done.stdout


# ---------------------------------------------------------------------- Dockerfile

INSTRUCTIONS = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "USER", "ENV", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined]


def test_the_image_is_well_formed() -> None:
    steps = instructions()
    names = [name for name, _ in steps]
    assert set(names) <= INSTRUCTIONS
    assert names[0] == "FROM"
    assert ":" in steps[0][1]
    assert not steps[0][1].endswith(":latest")
    assert names.index("USER") < names.index("ENTRYPOINT"), "the image must not run as root"
    for name, rest in steps:
        if name == "COPY":
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
    installed = re.findall(r"'\.\[([\w,]+)\]'", " ".join(rest for name, rest in steps if name == "RUN"))
    assert installed
    assert {each for extras in installed for each in extras.split(",")} <= EXTRAS.keys()


def docker_answers() -> bool:
    return shutil.which("docker") is not None and not subprocess.run(["docker", "info"], capture_output=True).returncode


@pytest.mark.wide
@pytest.mark.skipif(not docker_answers(), reason="no Docker engine answers")
def test_the_image_builds_and_runs() -> None:
    subprocess.run(["docker", "build", "-t", "assay-test", str(ROOT)], check=True, timeout=3000)
    done = subprocess.run(
        ["docker", "run", "--rm", "assay-test", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("assay ")


# ---------------------------------------------------------------------- files about the project


def test_the_citation_has_the_version_that_is_released() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]


def test_the_offered_hook_names_a_verb_that_exists(tmp_path: Path) -> None:
    """A file with an error fails it, a file without passes: what pre-commit does with the files of a commit."""
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (tmp_path / "good.yaml").write_text(
        "task: good\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\n"
        'output_type: generate_until\ndoc_to_text: "{{q}}"\ndoc_to_target: "{{a}}"\n'
    )
    (tmp_path / "docs.jsonl").write_text('{"q": "1 + 1", "a": "2"}\n')
    (tmp_path / "bad.yaml").write_text(
        (tmp_path / "good.yaml").read_text().replace("task: good", "task: bad").replace("doc_to_text", "doc_to_txt")
    )
    codes = {}
    for name in ("good.yaml", "bad.yaml"):
        command = [sys.executable, "-m", *hook["entry"].split(), str(tmp_path / name)]
        codes[name] = subprocess.run(command, capture_output=True, text=True).returncode
    assert codes == {"good.yaml": 0, "bad.yaml": 2}
