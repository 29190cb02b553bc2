"""Task directories of Harbor (`task.toml`) and of terminal-bench 1 (`task.yaml`) as docs: instruction, environment, tests.

A task whose Dockerfile only names a plain system and copies files runs in the sandbox; others run in a container of their image.
Tests run where the agent worked, when it is done, as they do there.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from assay.agents import SandboxCheck, Workspace
from assay.errors import DataError
from assay.paths import read_regular

REWARDS = ("/logs/verifier/reward.json", "/logs/verifier/reward.txt")
PRINTED = "/logs/verifier/printed.txt"
"""What the tests of terminal-bench print, which is their verdict."""
MOST_BYTES = 20 << 20
"""Of the files of a task."""
_PLAIN = re.compile(r"(?:docker\.io/)?(?:library/)?(?:ubuntu|debian|python|bash|busybox)(?::[\w.-]+)?")
"""Systems of which a task can only want what any has."""
_FETCHES = re.compile(r"\b(?:apt-get|apt|apk|dnf|yum|pip3?|uvx?|curl|wget|npm|npx|cargo|conda)\s+\S|\bgit\s+clone\b")
_INSTALLED = re.compile(r"\bpytest\b")
_CANARY = re.compile(r"(?:<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_SUMMARY = re.compile(r"^(PASSED|FAILED|ERROR|XPASS|XFAIL|SKIPPED) ", re.MULTILINE)


class Unfit(Exception):
    """Why a task cannot be run."""


@dataclass(frozen=True)
class Environment:
    """What a Dockerfile makes, as far as the sandbox can do the same."""

    place: str
    files: Mapping[str, bytes]
    needs_image: str
    """Why it takes a container; empty where it does not."""


# -- docs ----------------------------------------------------------------------------------------------------------------


def docs(path: str = "", only: str = "", **_: Any) -> dict[str, list[dict[str, Any]]]:
    """Every task below `path`. `only: sandbox` leaves out those that need an image, `only: fit` those that cannot run at all."""
    if not path:
        raise DataError("no tasks: where are their directories?", hint="Say it: --metadata path=DIRECTORY.")
    if only not in ("", "sandbox", "fit"):
        raise DataError(f"only: {only!r} is not known", hint="Use sandbox, or fit.")
    folders = sorted(task_folders(Path(path).expanduser()))
    found: list[dict[str, Any]] = []
    unfit: list[str] = []
    for folder in folders:
        try:
            made = task_of(folder)
        except (Unfit, OSError, ValueError, yaml.YAMLError) as error:
            unfit.append(f"{folder}: {error}")
            continue
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
            unfit.append(f"{folder}: its files are damaged: {type(error).__name__}: {error}")
            continue
        if not (only == "sandbox" and json.loads(made["workspace"])["image"]):
            found.append(made)
    if unfit and not only:
        more = f" (and {len(unfit) - 3} more)" if unfit[3:] else ""
        raise DataError(
            f"tasks that cannot be run: {'; '.join(unfit[:3])}{more}", hint="Leave them out: --metadata only=fit."
        )
    if not found:
        raise DataError(
            f"{path} has no task that can be run"
            if folders
            else f"{path} has no directory with task.toml or task.yaml",
            hint="; ".join(unfit[:3]) or "Name the directory of a task, or one that has such directories.",
        )
    return {"test": found}


def task_folders(folder: Path) -> Iterator[Path]:
    if (folder / "task.toml").is_file() or ((folder / "task.yaml").is_file() and (folder / "run-tests.sh").is_file()):
        yield folder
    elif folder.is_dir():
        for each in sorted(folder.iterdir()):
            if each.is_dir() and not each.is_symlink():
                yield from task_folders(each)


def task_of(folder: Path) -> dict[str, Any]:
    name, instruction, made = (harbor_task if (folder / "task.toml").is_file() else terminal_bench_task)(folder)
    if not instruction.strip():
        raise Unfit("it has no instruction")
    parts = {**vars(made), "files": _packed(made.files)}
    if made.check is not None:
        parts["check"] = {**vars(made.check), "files": _packed(made.check.files)}
    del parts["build"]
    if made.build:
        BUILDS[str(made.image)] = made.build
    return {"id": name, "instruction": instruction, "workspace": json.dumps(parts)}


BUILDS: dict[str, str] = {}
"""Where images are built from, by their names: a doc says nothing of this machine."""


def workspace(doc: Mapping[str, Any]) -> Workspace:
    """The sandbox of a doc, as its task describes it."""
    parts = json.loads(doc["workspace"])
    check = parts.pop("check")
    check |= {"files": _unpacked(check["files"]), "reads": tuple(check["reads"])}
    files = _unpacked(parts.pop("files"))
    return Workspace(files, check=SandboxCheck(**check), build=BUILDS.get(str(parts["image"]), ""), **parts)


def _packed(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """Bytes as text, one character each."""
    return {path: each if isinstance(each, str) else each.decode("latin-1") for path, each in files.items()}


def _unpacked(files: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode("latin-1") for path, text in files.items()}


# -- the two formats -------------------------------------------------------------------------------------------------------


def harbor_task(folder: Path) -> tuple[str, str, Workspace]:
    config = tomllib.loads(_read(folder, "task.toml"))
    about, verifier = dict(config.get("environment", {})), dict(config.get("verifier", {}))
    if reason := _unfit_harbor(folder, config, about, verifier):
        raise Unfit(reason)
    tests = _files(folder / "tests")
    named = about.get("docker_image")
    made = environment(folder / "environment", named, about.get("workdir"))
    reason = made.needs_image or _needs_of_tests(tests)
    exports = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in verifier.get("env", {}).items())
    check = SandboxCheck(
        f"{exports}chmod +x /tests/test.sh; /tests/test.sh",
        {f"/tests/{path}": content for path, content in tests.items()},
        REWARDS,
        float(verifier.get("timeout_sec", 600.0)),
    )
    offline = about.get("network_mode", "public") == "no-network" or about.get("allow_internet") is False
    name = str(config.get("task", {}).get("name") or folder.name)
    instruction = without_canary(_read(folder, "instruction.md"))
    return name, instruction, _workspace(folder / "environment", named, made, reason, check, tests, offline=offline)


def _unfit_harbor(folder: Path, config: Any, about: Mapping[str, Any], verifier: Mapping[str, Any]) -> str:
    """What a task asks for and cannot have here."""
    asks = {
        "it has several steps": config.get("steps"),
        "it is for Windows": str(about.get("os", "linux")).lower() != "linux",
        "it needs a GPU or TPU": about.get("gpus") or about.get("tpu"),
        "it brings MCP servers": about.get("mcp_servers"),
        "it sets environment variables": about.get("env"),
        "it waits for a service to be healthy": about.get("healthcheck"),
        "its tests have an environment of their own": verifier.get("environment")
        or verifier.get("environment_mode") == "separate",
        "its tests need variables of the host": any("${" in str(each) for each in verifier.get("env", {}).values()),
        "it names users": config.get("agent", {}).get("user") or verifier.get("user"),
        "it allows some hosts only": about.get("network_mode") == "allowlist",
        "it begins in the middle of a conversation": (folder / "trajectory.json").exists(),
        "it has several containers": any((folder / "environment").glob("*compose.y*ml")),
        "it has no tests/test.sh": not (folder / "tests" / "test.sh").is_file(),
    }
    return next((reason for reason, asked in asks.items() if asked), "")


def terminal_bench_task(folder: Path) -> tuple[str, str, Workspace]:
    config = yaml.safe_load(_read(folder, "task.yaml"))
    if config.get("parser_name", "pytest") != "pytest":
        raise Unfit(f"its verdict is read by {config['parser_name']}, only pytest's is known")
    if config.get("run_tests_in_same_shell"):
        raise Unfit("its tests run in the agent's own shell")
    compose = (
        yaml.safe_load(_read(folder, "docker-compose.yaml")) if (folder / "docker-compose.yaml").exists() else None
    )
    if compose is not None and len(compose["services"]) != 1:
        raise Unfit("it has several containers")
    tests = _files(folder / "tests") | {"run-tests.sh": _read(folder, "run-tests.sh").encode()}
    made = environment(folder, None, None)
    check = SandboxCheck(
        f"export TEST_DIR=/tests; bash /tests/run-tests.sh 2>&1 | tee {PRINTED}",
        {f"/tests/{path}": content for path, content in tests.items()},
        (PRINTED,),
        float(config.get("max_test_timeout_sec", 60.0)),
    )
    reason = made.needs_image or _needs_of_tests(tests)
    return folder.name, str(config["instruction"]), _workspace(folder, None, made, reason, check, tests, offline=False)


def _workspace(
    folder: Path,
    named: str | None,
    made: Environment,
    reason: str,
    check: SandboxCheck,
    tests: Mapping[str, bytes],
    *,
    offline: bool,
) -> Workspace:
    if not reason:
        return Workspace(made.files, place=made.place, check=check)
    built = "" if named else str(folder)
    if built and not (folder / "Dockerfile").is_file():
        raise Unfit(f"{reason}, and it has neither a Dockerfile nor docker_image")
    fetches = any(_FETCHES.search(_text(each)) for path, each in tests.items() if path.endswith(".sh"))
    network: Literal["", "may", "must"] = "" if offline else "must" if fetches else "may"
    image = named or f"assay-harbor/{_slug(folder)}:{_digest(folder)}"
    return Workspace({}, image=image, place=made.place, check=check, build=built, network=network)


def _needs_of_tests(tests: Mapping[str, bytes]) -> str:
    scripts = {path: _text(each) for path, each in tests.items() if path.endswith(".sh")}
    for path, text in scripts.items():
        if found := _FETCHES.search(text) or _INSTALLED.search(text):
            return f"{path} wants {found[0].split()[0]}"
    return ""


# -- environments ----------------------------------------------------------------------------------------------------------


def environment(folder: Path, named: str | None, workdir: str | None) -> Environment:
    """What the Dockerfile makes, step by step, until it takes more than files in one directory."""
    place, reason = "/", f"it names the image {named}" if named else ""
    files: dict[str, bytes] = {}
    dockerfile = folder / "Dockerfile"
    for word, rest in _instructions(_read(folder, "Dockerfile")) if dockerfile.exists() and not named else ():
        if word == "WORKDIR":
            place = rest if rest.startswith("/") else f"{place.rstrip('/')}/{rest}"
        elif word == "FROM" and _PLAIN.fullmatch(rest):
            continue
        elif word == "COPY" and (copied := _copied(folder, rest, place)) is not None:
            files |= copied
        elif word not in ("CMD", "LABEL", "MAINTAINER"):
            reason = reason or f"its Dockerfile has {word} {rest[:60]}"
    place = (workdir or place).rstrip("/") or "/"
    if place == "/" and not reason and not dockerfile.is_file():
        place = "/app"
    if re.fullmatch(r"/(?:tests|logs|usr|bin|etc|lib\w*|proc|dev)?(?:/.*)?", place) and not place.startswith(
        "/usr/src"
    ):
        reason = reason or f"it works in {place}"
    return Environment(place, files, reason)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\s*\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word.upper(), rest.strip()


def _copied(folder: Path, rest: str, place: str) -> dict[str, bytes] | None:
    """The files that a COPY puts into the working directory; None where it does something else."""
    words = rest.split()
    if len(words) < 2 or any(word.startswith(("--", "[")) or "*" in word or "$" in word for word in words):
        return None
    *sources, target = words
    into = target if target.startswith("/") else f"{place.rstrip('/')}/{target}"
    parts = [part for part in into.split("/") if part not in ("", ".")]
    own = [part for part in place.split("/") if part]
    if parts[: len(own)] != own or ".." in parts:
        return None
    below, found = "/".join(parts[len(own) :]), {}
    for source in sources:
        given = (folder / source.lstrip("/")).resolve()
        if not given.is_relative_to(folder.resolve()) or not given.exists():
            return None
        is_folder = given.is_dir() or target.endswith(("/", ".")) or len(sources) > 1
        for path, content in (
            _files(given) if given.is_dir() else {given.name if is_folder else "": _content(given)}
        ).items():
            if path != "Dockerfile" or source not in (".", "./"):
                found["/".join(part for part in (below, path) if part)] = content
    return found


def _read(folder: Path, name: str) -> str:
    """The text of a file of the task, which is a plain one, and its own."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise Unfit(f"{path} is a link to somewhere else")
    if not path.is_file() or path.stat().st_size > MOST_BYTES:
        raise Unfit(
            f"{path} is no plain file of at most {MOST_BYTES:,} bytes" if path.exists() else f"it has no {name}"
        )
    return path.read_text(encoding="utf-8")


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, MOST_BYTES)
    except OSError as error:
        raise Unfit(f"{path} cannot be read: {error.strerror}") from error


def _files(folder: Path) -> dict[str, bytes]:
    """All files below a directory, none of which may lie elsewhere."""
    found: dict[str, bytes] = {}
    room, root = MOST_BYTES, folder.resolve()
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if not path.resolve().is_relative_to(root):
            raise Unfit(f"{path} is a link to somewhere else")
        if path.is_file() and path.parent.name != "__pycache__":
            room -= path.stat().st_size
            if room < 0:
                raise Unfit(f"{folder} has more than {MOST_BYTES:,} bytes")
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path, content in _files(folder).items():
        digest.update(json.dumps([path, hashlib.sha256(content).hexdigest()]).encode())
    return digest.hexdigest()[:16]


def _slug(folder: Path) -> str:
    name = folder.parent.name if folder.name == "environment" else folder.name
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "task"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def without_canary(text: str) -> str:
    """Without the marks at its beginning that are not meant for agents.

    >>> without_canary("<!-- harbor-canary GUID 1 -->\\n\\nWrite a file.\\n")
    'Write a file.\\n'
    """
    lines = text.split("\n")
    while lines and (not lines[0].strip() or _CANARY.fullmatch(lines[0].strip())):
        lines.pop(0)
    return "\n".join(lines)


# -- verdict -----------------------------------------------------------------------------------------------------------------


def reward(trajectory: Any) -> float | None:
    """What the task's tests say: their reward, or whether all of pytest's tests passed. None where they say nothing."""
    files = trajectory.end_state.tools["check"]["files"]
    if PRINTED in files:
        verdicts = _SUMMARY.findall(files[PRINTED].partition("short test summary info")[2])
        return float(set(verdicts) == {"PASSED"}) if verdicts else None
    for path in REWARDS:
        if path in files:
            return _number(json.loads(files[path]) if path.endswith(".json") else files[path])
    return None


def _number(given: Any) -> float | None:
    """A reward; of several, the one that is called so, or their mean."""
    several = list(given.values()) if isinstance(given, Mapping) else [given]
    if isinstance(given, Mapping) and "reward" in given:
        several = [given["reward"]]
    try:
        values = [float(each) for each in several]
    except (TypeError, ValueError):
        return None
    return sum(values) / len(values) if values and all(map(math.isfinite, values)) else None
