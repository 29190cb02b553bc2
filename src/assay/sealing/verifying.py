"""`assay verify`: derive every number of a bundle anew, without a model, and say which are not what the bundle says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from assay.config import RunConfig, reading_only
from assay.errors import AssayError, ConfigError, DataError, UnknownName
from assay.results import (
    LAYOUT,
    RunDirectory,
    RunResult,
    assay_version,
    plain,
    read_samples,
    shown_settings,
    write_samples,
)
from assay.run import Progress, rescore
from assay.scratch import scratch_directory
from assay.sealing.archive import SEAL, OpenBundle, open_bundle
from assay.sealing.comparing import SealComparison, SealedDifference, compare_results, compare_rows
from assay.sealing.rows import read_rows, sample_of, sealed_docs, wrong_doc_hashes
from assay.sealing.task_files import code_hash, find_bundled_task, unpack_task_files
from assay.tasks import TaskManager

FORMAT = 1
PLACES = ("include_path", "data_dir", "lm_eval", "labels", "overlay", "store", "run_dir", "output_path", "loggers")
"""Settings that say where things were on the machine of the run."""


CARRIED = {"labels": "labels", "overlay": "overlays"}
"""Settings that name files which a bundle carries, and where it has them."""
SEALED_OF_RUN = ("model", "environment", "roles")
"""What a bundle has of `run.json`, beside the config."""
SEAL_KEYS = frozenset(
    [
        "seal",
        "format",
        "code",
        "model",
        "docs",
        "inputs",
        "requests",
        "samples",
        "labels",
        "overlays",
        "task_roots",
        "shipped_task_files",
        "members",
    ]
)


@dataclass(frozen=True)
class Sources:
    """What a verifier provides: a copy of the data, and task files in place of the bundle's."""

    docs: Literal["auto", "dataset", "bundle"] = "auto"
    """Read the docs from the dataset, from the bundle, or from the bundle where the dataset cannot be had."""
    data_dir: str | None = None
    include_path: tuple[str, ...] = ()
    lm_eval: str | bool | None = None
    trust: bool = False
    """Whether Python code of task files may run."""
    confirm_run_unsafe_code: bool = False

    @property
    def has_task_files(self) -> bool:
        return bool(self.include_path or self.lm_eval)


@dataclass
class SealVerification:
    """What was checked in a bundle, and what does not match."""

    about: dict[str, Any]
    docs: int = 0
    compared: int = 0
    rounded: int = 0
    from_dataset: bool = False
    """Whether the docs are those of the dataset, read anew."""
    why_not: str = ""
    """Why the dataset was not read."""
    rebuilt: bool = False
    """Whether every request was built anew."""
    differences: list[SealedDifference] = field(default_factory=list)
    not_checked: dict[str, list[str]] = field(default_factory=dict)
    """What the verdict does not speak of, and where in the bundle it stands (`*` is any key)."""
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        return {
            "seal": self.about.get("seal"),
            "passed": self.passed,
            "docs": self.docs,
            "compared": self.compared,
            "rounded": self.rounded,
            "docs_from": "dataset" if self.from_dataset else "bundle",
            "requests_built_anew": self.rebuilt,
            "differences": [each.to_dict() for each in self.differences],
            "not_checked": self.not_checked,
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Unpacked:
    """A bundle laid out as the run directory that it was made of."""

    bundle: OpenBundle
    folder: Path
    directory: RunDirectory
    config: RunConfig
    manager: TaskManager
    members: dict[str, str]
    """Task to the member with its samples."""

    def rows(self, task: str) -> Iterator[dict[str, Any]]:
        name = self.members[task]
        return read_rows(self.bundle.files[name], name)

    @property
    def has_docs(self) -> bool:
        return bool(self.bundle.about.get("docs"))


@contextmanager
def unpacked(path: str | Path, sources: Sources) -> Iterator[Unpacked]:
    """A bundle on disk for as long as it is looked at."""
    with scratch_directory("verify") as folder:
        (folder / "members").mkdir()
        bundle = open_bundle(Path(path), folder / "members")
        if (version := bundle.about.get("format")) != FORMAT or version is True:
            raise ConfigError(
                f"{path} has bundle format {version}, but this Assay reads format {FORMAT}", hint="Upgrade Assay."
            )
        yield _laid_out(bundle, folder, sources)


def _laid_out(bundle: OpenBundle, folder: Path, sources: Sources) -> Unpacked:
    run, members = bundle.json("run.json"), bundle.about.get("samples")
    if not isinstance(run.get("config"), dict) or not isinstance(members, dict):
        raise ConfigError(
            "the bundle has no config or no samples", hint="It was not written completely; seal the run again."
        )
    directory = RunDirectory(folder / "run")
    directory.samples.mkdir(parents=True)
    directory.write_json("run.json", {**run, "format": LAYOUT})
    there = {str(task): str(name) for task, name in members.items() if name in bundle.files}
    for task, name in there.items():
        write_samples(directory.sample_file(task), map(sample_of, read_rows(bundle.files[name], name)))
    roots = unpack_task_files(bundle.about, bundle.files, folder)
    carried = {
        field: [str(bundle.files[name]) for name in bundle.about.get(part, ()) if name in bundle.files]
        for field, part in CARRIED.items()
    }
    config = _config(bundle, run["config"], sources, folder, carried)
    return Unpacked(bundle, folder, directory, config, _manager(config, roots, sources), there)


def _config(
    bundle: OpenBundle, sealed: Mapping[str, Any], sources: Sources, folder: Path, carried: Mapping[str, list[str]]
) -> RunConfig:
    settings = {key: value for key, value in sealed.items() if key not in PLACES}
    tasks = [find_bundled_task(str(name), folder, bundle.about) for name in settings.get("tasks", ())]
    unsafe = {"confirm_run_unsafe_code": sources.confirm_run_unsafe_code}
    return RunConfig(**{**settings, **unsafe, "tasks": tasks, **carried, "data_dir": sources.data_dir})


def _manager(config: RunConfig, roots: list[tuple[Path, str]], sources: Sources) -> TaskManager:
    bundled = [str(root) for root, kind in roots if kind == "include"]
    lm_eval = next((str(root) for root, kind in roots if kind == "lm_eval"), False)
    return TaskManager(
        include_path=[*(sources.include_path if sources.has_task_files else bundled)],
        include_defaults=config.include_defaults,
        lm_eval=(sources.lm_eval or False) if sources.has_task_files else lm_eval,
        metadata={**config.model_args, **config.metadata},
    )


def verify_bundle(
    path: str | Path, sources: Sources | None = None, progress: Progress | None = None
) -> SealVerification:
    """Checks a bundle: its files, settings, docs and requests, and every number, computed again from its answers."""
    sources = sources or Sources()
    try:
        with unpacked(path, sources) as bundle, reading_only(not sources.trust):
            try:
                return verify_unpacked(bundle, sources, progress)
            except UnknownName as error:
                if bundle.bundle.about.get("task_roots") or sources.has_task_files:
                    raise
                raise ConfigError(
                    f"the bundle does not carry its task files: {error.message}",
                    hint="Pass the run's task files with --include_path DIR.",
                ) from error
    except AssayError:
        raise
    except Exception as error:
        # Parts that fit together are all that a run of its own would meet; a stranger's may not.
        raise ConfigError(
            f"{path} does not fit together: {type(error).__name__}: {error}",
            hint="It was changed, or not written by `assay seal`.",
        ) from error


def verify_unpacked(bundle: Unpacked, sources: Sources, progress: Progress | None = None) -> SealVerification:
    found = SealVerification(bundle.bundle.about)
    found.differences += [SealedDifference("file", text, "as sealed", "changed") for text in bundle.bundle.changed]
    found.differences += unexpected(bundle)
    said = bundle.bundle.json("results.json")
    comparison = SealComparison()
    compare_settings(bundle, said, comparison)
    for task in bundle.members:
        wrong = dict.fromkeys(wrong_doc_hashes(bundle.rows(task)))
        comparison.differences += [
            SealedDifference("doc", f"{task}, doc {i}", "its hash", "another doc") for i in wrong
        ]
    target = RunDirectory(bundle.folder / "again")
    result = derived(bundle, said, target, sources, found, progress)
    again = json.loads(json.dumps(result.to_dict(), default=plain))
    code = bundle.bundle.about.get("code")
    same_code = isinstance(code, Mapping) and code.get("sha256") == code_hash()
    compare_results(said, again, comparison, with_data=found.from_dataset, same_code=same_code)
    for task in bundle.members:
        rows = read_samples(target.sample_file(task)) if target.sample_file(task).is_file() else iter(())
        compare_rows(task, bundle.rows(task), rows, comparison, docs=bundle.has_docs)
    found.docs = sum(task.health.docs for task in result.tasks.values())
    found.compared, found.rounded = comparison.compared, comparison.rounded
    found.differences += comparison.differences
    found.not_checked = comparison.not_checked
    shown = {"the prompts' text, of which the hashes were checked": ["samples: arguments"]}
    unbuilt = {"whether the prompts follow from the docs": ["samples: arguments", "samples: request_hash"]}
    found.not_checked |= shown if found.rebuilt else unbuilt
    found.notes += version_notes(found.about)
    if found.differences:
        found.notes += result.notes
    return found


def unexpected(bundle: Unpacked) -> Iterator[SealedDifference]:
    """What no seal has, and what nobody could check: a reader would take it for verified."""
    about, files = bundle.bundle.about, bundle.bundle.files
    folders = tuple(f"{root['folder']}/" for root in about.get("task_roots", ()))
    carried = [name for part in CARRIED.values() for name in about.get(part, ())]
    expected = {"run.json", "results.json", *bundle.members.values(), *carried}
    for name in files:
        if name not in expected and not name.startswith(folders):
            yield SealedDifference("file", f"{name} is nothing that a seal has", "a member", "none")
    for name, keys, known in (
        (SEAL, about, SEAL_KEYS),
        (f"{SEAL}: samples", about["samples"], bundle.members.keys()),
        *((f"{SEAL}: task_roots", root, {"folder", "kind"}) for root in about.get("task_roots", ())),
        ("run.json", bundle.bundle.json("run.json"), {*SEALED_OF_RUN, "config"}),
    ):
        for key in sorted(keys.keys() - known):
            yield SealedDifference("setting", f"{name}: {key}", str(keys[key])[:80], "nothing that a seal has")


def derived(
    bundle: Unpacked,
    said: Mapping[str, Any],
    target: RunDirectory,
    sources: Sources,
    found: SealVerification,
    progress: Progress | None,
) -> RunResult:
    """The run's result from its stored answers: on the docs of the dataset, else on those that the bundle holds."""
    words: dict[str, Any] = {"kept_roles": tuple(bundle.config.roles), "kept_only": True, "progress": progress}
    words |= {"manager": bundle.manager, "target": target}
    target.samples.mkdir(parents=True)
    if sources.docs != "bundle":
        try:
            result, _ = rescore(bundle.directory, bundle.config, **words)
            found.from_dataset, found.rebuilt = True, not bundle.config.apply_chat_template
            return result
        except DataError as error:
            if not bundle.has_docs or sources.docs == "dataset":
                raise
            found.why_not = error.message
    if not bundle.has_docs:
        raise ConfigError(
            "the bundle has no docs", hint="Provide the dataset with --data_dir DIR, or a hub that can be reached."
        )
    docs = {task: sealed_docs(bundle.rows(task), _original(said, task)) for task in bundle.members}
    result, _ = rescore(bundle.directory, bundle.config, docs=docs, **words)
    return result


def _original(said: Mapping[str, Any], task: str) -> int:
    try:
        return min(int(said["assay"]["tasks"][task]["original"]), 10_000_000)
    except (KeyError, TypeError, ValueError):
        return 0


def compare_settings(bundle: Unpacked, said: Mapping[str, Any], into: SealComparison) -> None:
    """What the bundle says more than once: settings, model, data and requests, against those that numbers are derived under."""
    run, about, block = bundle.bundle.json("run.json"), bundle.bundle.about, said.get("assay")
    block = block if isinstance(block, Mapping) else {}
    shown = block.get("config")
    settings = shown_settings(RunConfig(**{key: v for key, v in run["config"].items() if key not in PLACES}))
    left_out = (*PLACES, "tasks")
    settings = {key: value for key, value in settings.items() if key not in left_out}
    own = {key: value for key, value in shown.items() if key not in left_out} if isinstance(shown, Mapping) else {}
    # A setting that neither file has came later: numbers are derived under its default.
    settings = {key: value for key, value in settings.items() if key in own or key in run["config"]}
    into.add("setting", "results.json: config", own, json.loads(json.dumps(settings, default=plain)))
    unseen = [key for key in run["config"] if key not in settings and key not in left_out]
    into.leave_out("run.json", {"settings that the results do not show": [f"config {key}" for key in unseen]})
    into.add("setting", "results.json: model", block.get("model"), run.get("model"))
    into.add("setting", "results.json: environment", block.get("environment"), run.get("environment"))
    tasks = block.get("tasks")
    tasks = (
        {name: each for name, each in tasks.items() if isinstance(each, Mapping)} if isinstance(tasks, Mapping) else {}
    )
    model = run["model"] if isinstance(run.get("model"), Mapping) else {}
    stated = {key: model.get(key) for key in ("name", "backend", "fingerprint")}
    into.add("setting", "seal.json: model", about.get("model"), stated)
    into.add("doc", "seal.json: inputs", about.get("inputs"), {name: each.get("data") for name, each in tasks.items()})
    hashes = {name: each.get("task_hash") for name, each in tasks.items()}
    into.add("request", "seal.json: requests", about.get("requests"), hashes)
    for part in CARRIED.values():
        there = sorted(name for name in bundle.bundle.files if name.startswith(f"{part}/"))
        into.add("file", f"seal.json: {part}", about.get(part, [] if part == "overlays" else None), there)
    has_docs = {"doc" in row for task in bundle.members for row in bundle.rows(task)} or {bundle.has_docs}
    into.add("doc", "seal.json: docs", about.get("docs"), has_docs == {True})


def version_notes(about: Mapping[str, Any]) -> list[str]:
    """What is to be said where the code that verifies is not the code that scored."""
    code = about.get("code")
    sealed = code if isinstance(code, Mapping) else {}
    if sealed.get("sha256") == code_hash():
        return []
    return [
        f"scored by Assay {sealed.get('version')} (code {str(sealed.get('sha256'))[:12]}), verified by {assay_version()} "
        f"(code {code_hash()[:12]}); if numbers differ, verify with the version that scored it"
    ]
