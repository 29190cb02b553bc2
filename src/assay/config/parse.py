"""One YAML file to plain Python, safely: the only place that touches the YAML library.

A task file is code's neighbour and may come from anywhere, so what can go wrong is said with file and line, and a file
cannot cost more than it weighs: aliases that multiply ("billion laughs") and bottomless nesting are refused before
anything is built from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from assay.config.functions import FunctionRef
from assay.errors import ConfigError
from assay.paths import read_regular

MAX_BYTES = 8_000_000
MAX_DEPTH = 100
MAX_NODES = 2_000_000
MAX_KEY = 1_000
"""Characters of a key, and of a number: nobody writes longer ones, and looking for what they were meant to be takes for ever."""
_SURELY_SHALLOW = 2_000
"""Indentation alone cannot nest deeply in so few characters; brackets and dashes can, and are counted."""

_MANY_OPENED = 500
"""libyaml takes time that grows with the square of the nesting; the loader stops it in time."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Safe YAML plus `!function`, which becomes a reference and imports nothing."""

    directory: Path


def _function(loader: _Loader, node: yaml.Node) -> FunctionRef:
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.constructor.ConstructorError(
            None, None, "!function takes one name: module.function", node.start_mark
        )
    return FunctionRef(str(node.value).strip(), loader.directory)


_Loader.add_constructor("!function", _function)


class Repeated(NamedTuple):
    """A key that stands twice, where, and whether it says the same both times."""

    key: str
    first: int
    second: int
    is_same: bool


@dataclass(frozen=True)
class Parsed:
    """A mapping and the line of each of its keys."""

    data: dict[str, Any]
    lines: dict[str, int]
    repeated: tuple[Repeated, ...] = ()
    """Keys that stand twice in one mapping, at any depth: YAML says that only one may, and its readers take the last."""


def parse_file(path: Path) -> Parsed:
    """The mapping in `path`; every way in which it is not one is a `ConfigError`."""
    return parse_text(read_text(path), path)


def read_text(path: Path) -> str:
    try:
        raw = read_regular(path, 4 * MAX_BYTES)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file", hint="Check the path; a relative include is relative to the including file."
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory, not a file") from None
    except PermissionError:
        raise ConfigError(f"{path}: no permission to read it", hint=f"chmod +r {path}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(
            f"{path}: {len(raw) / 1e6:.1f} MB of YAML; a task file may have at most {MAX_BYTES / 1e6:.0f} MB",
            hint="Keep the docs in a data file (JSON lines, Parquet) and name it in dataset_kwargs.data_files.",
        )
    return _decoded(raw, path)


def _decoded(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: not UTF-8 (byte 0x{raw[error.start]:02x})",
            hint=f"Convert it: iconv -f latin1 -t utf-8 {path.name} > fixed.yaml",
        ) from None


_Parser: Any = getattr(getattr(yaml, "cyaml", None), "CParser", None)


def is_well_formed(raw: bytes) -> bool:
    """Whether libyaml can follow the text to its end. Nothing is built, so it costs microseconds."""
    if _Parser is None or len(raw) > MAX_BYTES or sum(map(raw.count, (b"[", b"{", b"- "))) > _MANY_OPENED:
        return False  # the loader knows, and says why
    try:
        _Parser(raw).raw_parse()
    except yaml.YAMLError:
        return False
    return True


def parse_text(text: str, path: Path) -> Parsed:
    node = _compose(text, path)
    if node is None:
        raise ConfigError(f"{path}: the file is empty", hint="A task file has at least `task:` and `dataset_path:`.")
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise ConfigError(f"{path}:{node.start_mark.line + 1}: found {kind}, expected `key: value` pairs at top level")
    loader = _Loader("")
    loader.directory = path.parent
    try:
        data = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _explain(error, path, text) from None
    except (ValueError, OverflowError) as error:  # for example the date 2024-13-45
        raise ConfigError(
            f"{path}: a value cannot be read: {error}", hint="Put it in quotes if it is meant as text."
        ) from None
    finally:
        loader.dispose()
    lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    not_text = [key for key in data if not isinstance(key, str)]
    if not_text:
        raise ConfigError(f"{path}: the key {not_text[0]!r} is not text", hint="Put it in quotes.")
    return Parsed(data, lines, tuple(_repeated(node)))


def _nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """All nodes of a tree, each once; keys come with their mapping."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]


_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp"})


def _check_lengths(root: yaml.Node, path: Path) -> None:
    for node in _nodes(root):
        scalars = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        scalars += [node] if node.tag in _NUMBERS else []
        for scalar in scalars:
            if isinstance(scalar, yaml.ScalarNode) and len(scalar.value) > MAX_KEY:
                what = "a number" if scalar is node else "a key"
                raise ConfigError(
                    f"{path}:{scalar.start_mark.line + 1}: {what} of {len(scalar.value):,} characters",
                    hint=f"At most {MAX_KEY:,} are allowed. Put it in quotes if it is meant as text.",
                )


def _repeated(root: yaml.Node) -> Iterator[Repeated]:
    for node in _nodes(root):
        if isinstance(node, yaml.MappingNode):
            known: dict[str, tuple[yaml.Node, yaml.Node]] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                    continue
                if (before := known.get(key.value)) is not None:
                    lines = before[0].start_mark.line + 1, key.start_mark.line + 1
                    yield Repeated(key.value, *lines, yaml.serialize(before[1]) == yaml.serialize(value))
                known[key.value] = key, value


def compose_file(path: Path) -> yaml.Node | None:
    """The node tree, for those who ask for the line of something deep inside."""
    return _compose(read_text(path), path)


def _compose(text: str, path: Path) -> yaml.Node | None:
    try:
        if len(text) > _SURELY_SHALLOW or sum(map(text.count, ("[", "{", "- "))) > MAX_DEPTH:
            _check_depth(text, path)
        loader = _Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
        if node is not None and "*" in text:
            _check_expansion(node, path)
        if node is not None and len(text) > MAX_KEY:
            _check_lengths(node, path)
    except yaml.YAMLError as error:
        raise _explain(error, path, text) from None
    except RecursionError:
        raise _too_deep(path) from None
    return node


def _check_depth(text: str, path: Path) -> None:
    """Walk the events, which needs no recursion, before composing, which does."""
    depth = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep(path)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path}: nested more than {MAX_DEPTH} levels deep", hint="A task file needs about five.")


def _check_expansion(root: yaml.Node, path: Path) -> None:
    """Count the values that stand behind all aliases; each anchor is measured once."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_nodes:
            line = node.start_mark.line + 1
            raise ConfigError(f"{path}:{line}: the anchor contains itself", hint="Remove the alias inside it.")
        open_nodes.add(id(node))
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(size(child) for child in node.value)
        elif isinstance(node, yaml.MappingNode):
            total += sum(size(key) + size(value) for key, value in node.value)
        open_nodes.discard(id(node))
        sizes[id(node)] = total
        return total

    if size(root) > MAX_NODES:
        raise ConfigError(
            f"{path}: its aliases expand to more than {MAX_NODES:,} values",
            hint="Write the values out, or use `include`.",
        )


def _explain(error: yaml.YAMLError, path: Path, text: str = "") -> ConfigError:
    if path.suffix == ".py":
        return ConfigError(
            f"{path}: Python code, where a task file (YAML) was expected",
            hint=f"A class in it is a task by its NAME: --include_path {path} --tasks NAME.",
        )
    if not isinstance(error, yaml.MarkedYAMLError):
        return ConfigError(f"{path}: not valid YAML: {str(error).splitlines()[0]}")
    mark = error.problem_mark or error.context_mark
    place = f"{path}:{mark.line + 1}" if mark else str(path)
    problem = error.problem or error.context or "syntax error"
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    hint = None
    if "\t" in line[: len(line) - len(line.lstrip())]:
        problem, hint = "found a tab in front of a key", "YAML does not allow that. Indent with spaces."
    elif "{{" in line and not re.search(r"""["'|>]""", line.partition("{{")[0]):
        key = line.partition(":")[0].strip()
        problem, hint = "found a template without quotes", f'Quote it: {key}: "{line.partition(":")[2].strip()}".'
    elif "mapping values are not allowed" in problem:
        hint = "A value that contains `: ` must be in quotes."
    elif "could not determine a constructor" in problem:
        hint = "The only tag in task files is `!function module.name`."
    return ConfigError(f"{place}: not valid YAML: {problem}", hint=hint)
