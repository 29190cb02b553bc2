"""Every code block of the documentation is run, or says before it why not.

Pages are read from top to bottom in a directory of their own. A block with a `title` is written to that file. Then:

- `python` is executed; the blocks of a page share their names
- `bash` (every line) and `console` (lines that begin with `$`) are run if they call `assay`
- `yaml` is checked against the keys of task, group and run files
- `json`, `toml`, `text` and `console` output are not run

`<!-- not run: reason -->` before a block means that its commands are only parsed: verbs and flags must exist.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import click
import pytest
import yaml
from click.testing import CliRunner

from assay.cli.entry import assay
from assay.config import RunConfig
from assay.config.build import GROUP_KEYS, STRUCTURAL_KEYS, TASK_KEYS
from assay.registry import Registry

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WALKED = {"start", "paper"}
"""Pages, or folders of them, that `test_first_hour.py` walks, with what they show."""
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LANGUAGES = {"python", "bash", "console", "yaml", "json", "toml", "text"}
REGISTERING = [
    f"assay.{name}" for name in ("metrics", "filters", "groups", "models", "tasks", "scoring", "finished", "view")
]
"""What pages add to: their registries are there before a page is, so that all of it can be undone."""
IS_PART = {"tag", "if", "metric", "over", "missing", "weights", "k", "name", "filter", "function"}
"""Keys of parts of a file: a snippet may show one entry of a list."""


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    title: str | None
    reason: str | None
    text: str


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start()) + 1, found["language"], found["title"], found["reason"], found["text"])
        for found in BLOCK.finditer(text)
    ]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "140")
    for module in REGISTERING:
        importlib.import_module(module)
    for registry in [each for each in gc.get_objects() if isinstance(each, Registry)]:
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))  # no other test sees what a page adds
    return tmp_path


@pytest.mark.parametrize(
    "page", [page for page in PAGES if not WALKED & {page.parent.name, page.stem}], ids=lambda page: page.stem
)
def test_blocks_work(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    names = vars(module)
    for block in blocks_of(page):
        where = f"{page.name}, line {block.line}"
        assert block.language in LANGUAGES, f"{where}: {block.language}"
        if title := block.title or named_in_first_line(block):
            target = workplace / title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        match block.language:
            case "python" if block.reason:
                ast.parse(block.text)
            case "python":
                exec(compile(block.text, where, "exec"), names)
            case "yaml":
                check_yaml(block.text, where)
            case "json":
                check_json(block.text)
            case "bash" | "console":
                for command in commands_of(block):
                    (parse if block.reason else run)(command, where)


def named_in_first_line(block: Block) -> str | None:
    """`# rules.py` as the first line of a block names its file as well."""
    found = re.match(r"# ([\w./-]+\.(?:py|ya?ml))\n", block.text)
    return found[1] if found else None


def check_json(text: str) -> None:
    """One value, or one a line."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            json.loads(line)


def test_every_fence_is_seen() -> None:
    """A block that the pattern above does not match would not be tested at all."""
    for page in PAGES:
        fences = re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks_of(page)), f"{page.name}: a fence without a language is not tested"


def commands_of(block: Block) -> list[list[str]]:
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    words = [shlex.split(line, comments=True) for line in lines]
    return [line for line in words if line and line[0] == "assay"]


def run(command: list[str], where: str) -> None:
    done = CliRunner().invoke(assay, command[1:], prog_name="assay")
    problem = done.exception if done.exception and not isinstance(done.exception, SystemExit) else done.output
    assert done.exit_code == 0, f"{where}: {' '.join(command)}: {problem}"


def parse(command: list[str], where: str) -> None:
    """Verb and flags exist, and values are of their types."""
    words = [word for word in command[1:] if word not in {"...", "…"}]
    if not words or words[0].startswith("-"):
        return
    group: click.Command | None = assay
    context = click.Context(assay)
    while isinstance(group, click.Group) and words:
        group = group.get_command(context, words.pop(0))
    assert group is not None, f"{where}: {' '.join(command)}"
    known = {option for parameter in group.params for option in [*parameter.opts, *parameter.secondary_opts]}
    for word in words:
        flag = word.partition("=")[0]
        assert not flag.startswith("--") or flag in known or flag == "--help", f"{where}: no flag {flag}"


class _Loader(yaml.SafeLoader):
    """Task files name functions."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))


def check_yaml(text: str, where: str) -> None:
    for data in yaml.load_all(text, _Loader):
        if data is None or "jobs" in data:  # a comment alone; a workflow
            continue
        entries = data if isinstance(data, list) else [data]
        for entry in entries:
            known = TASK_KEYS | GROUP_KEYS | STRUCTURAL_KEYS | set(RunConfig.model_fields) | IS_PART
            assert isinstance(entry, str) or not set(entry) - known, f"{where}: {set(entry) - known}"


def test_pages_link_to_pages_that_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert os.path.exists(page.parent / target), f"{page.name}: {target}"


def test_links_to_sections_lead_to_sections() -> None:
    for page in PAGES:
        for target, section in re.findall(r"\]\(([\w./-]*\.md)?#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / (target or page.name)).read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
            slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
            assert section in slugs, f"{page.name}: {target}#{section}"


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r": ([\w/-]+\.md)$", nav, re.MULTILINE)
    of_site = {"reference/python.md"}
    assert sorted(set(listed) - of_site) == sorted(str(page.relative_to(ROOT / "docs")) for page in PAGES[1:])
    assert len(listed) == len(set(listed))
