"""Where on the hub the files of a dataset are: at its own path, in the hub's Parquet of it, or at its successor's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.config import FILE_FORMATS, TaskConfig
from assay.data.hub import (
    CONVERTED,
    HubClient,
    HubFile,
    HubNotFound,
    card_splits,
    converted_splits,
    has_script,
    is_partial,
    matching,
    named_splits,
    safe_path,
    shard_name,
)
from assay.errors import DataError, did_you_mean

# Datasets of lm-evaluation-harness's tasks that were loaded by a script, which `datasets` no longer runs, and what stands for
# them. The rule for all of them is the hub's own Parquet conversion. Where the conversion is missing, or a copy was compared
# with the original, a successor is named. `SCRIPTS` were seen to fail with "Dataset scripts are no longer supported"
# (lm-evaluation-harness, issue 3171); a path that is not listed falls under the same rule as soon as its repository turns out
# to hold a script.

SCRIPTS = frozenset(
    [
        "CogComp/mc_taco",
        "EleutherAI/advanced_ai_risk",
        "EleutherAI/arithmetic",
        "EleutherAI/hendrycks_ethics",
        "EleutherAI/logiqa",
        "EleutherAI/mutual",
        "EleutherAI/persona",
        "EleutherAI/pile",
        "EleutherAI/sycophancy",
        "EleutherAI/unscramble",
        "allenai/math_qa",
        "allenai/qasper",
        "allenai/social_i_qa",
        "asi/wikitext_fr",
        "baber/logiqa2",
        "bigbio/meddialog",
        "bigbio/mediqa_qa",
        "bigbio/meqsum",
        "bigbio/pubmed_qa",
        "corypaik/prost",
        "csebuetnlp/xlsum",
        "demelin/moral_stories",
        "tau/scrolls",
        "winograd_wsc",
    ]
)


@dataclass(frozen=True)
class Successor:
    """A dataset that holds the same rows without a script."""

    path: str
    name: str | None = None
    """The config there, where it is called otherwise."""
    drops_name: bool = False
    """Whether the successor has one config without a name."""
    source: str = ""
    """Who compared the two."""


SUCCESSORS = {
    "math_qa": Successor("regisss/math_qa", source="lm-evaluation-harness, pull request 3943: all rows equal"),
    "allenai/math_qa": Successor("regisss/math_qa", source="lm-evaluation-harness, pull request 3943: all rows equal"),
    "allenai/social_i_qa": Successor(
        "lighteval/siqa", source="lm-evaluation-harness, pull request 3943: all rows equal"
    ),
    "demelin/moral_stories": Successor(
        "LabHC/moral_stories",
        drops_name=True,
        source="lm-evaluation-harness, pull request 3943: rows of the config `full` equal",
    ),
    "winograd_wsc": Successor(
        "lighteval/winograd_wsc", source="lm-evaluation-harness, pull request 3946: all 273 rows of wsc273 equal"
    ),
}
RENAMED = {
    "blimp": "nyu-mll/blimp",
    "medmcqa": "openlifescienceai/medmcqa",
    "paws-x": "google-research-datasets/paws-x",
    "truthful_qa": "truthfulqa/truthful_qa",
    "web_questions": "stanfordnlp/web_questions",
    "wmt16": "wmt/wmt16",
    "xcopa": "cambridgeltl/xcopa",
    "xnli": "facebook/xnli",
    "xquad": "google/xquad",
}
"""Names without an owner that the hub used to forward; later task files of lm-evaluation-harness name the new place themselves."""


HUB_PREFIX = "hf://datasets/"


@dataclass(frozen=True)
class DatasetNeed:
    """What a task reads of a dataset: a config, some splits, or files by name."""

    path: str
    name: str | None
    splits: tuple[str, ...]
    """Empty for all."""
    revision: str | None = None
    data_files: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return "/".join(part for part in (self.path, self.name) if part)


@dataclass(frozen=True)
class WantedFile:
    """A file of the hub and its place in a mirror."""

    target: str
    kind: str
    repo: str
    commit: str
    file: HubFile


@dataclass(frozen=True)
class FoundDataset:
    """The files of a need, and what is to be said about where they come from."""

    need: DatasetNeed
    files: tuple[WantedFile, ...]
    repo: str
    commit: str
    note: str | None = None

    def to_dict(self) -> dict[str, Any]:
        record = {"path": self.need.path, "name": self.need.name, "repo": self.repo, "revision": self.commit}
        return {**record, **({"note": self.note} if self.note else {})}


def need_of(
    path: str | None, name: str | None, kwargs: Mapping[str, Any] | None, splits: Iterable[str | None]
) -> DatasetNeed | None:
    """What to ask the hub for; None where the data are files of this machine."""
    kwargs = kwargs or {}
    given = kwargs.get("data_files")
    listed = list(given.values()) if isinstance(given, Mapping) else [given] if given else []
    files = tuple(str(each) for item in listed for each in (item if isinstance(item, list) else [item]))
    if path is None or Path(path).exists():
        return None
    if path in FILE_FORMATS and not any(each.startswith(HUB_PREFIX) for each in files):
        return None
    wanted = dict.fromkeys(split.partition("[")[0] for split in splits if split)
    return DatasetNeed(path, name, tuple(wanted), kwargs.get("revision"), files)


def need_of_task(config: TaskConfig) -> DatasetNeed | None:
    """What a task reads: the split it is evaluated on, and the one that its shots are drawn from."""
    if config.custom_dataset is not None:
        return None
    shots = config.fewshot_config.split or config.fewshot_split
    if shots is None and config.fewshot_config.samples is None:
        shots = config.training_split or config.validation_split or config.test_split
    return need_of(config.dataset_path, config.dataset_name, config.dataset_kwargs, (config.eval_split, shots))


def find_dataset(client: HubClient, need: DatasetNeed) -> FoundDataset:
    """The files of a need. The plain path first; where that fails, what stands for it."""
    safe_path(need.path)
    safe_path(need.name or "default")
    if need.data_files:
        return _by_file(client, need)
    try:
        return _plain(client, need)
    except HubNotFound:
        renamed = RENAMED.get(need.path)
        if renamed is None:
            return _successor(client, need)
        dataset = find_dataset(client, replace(need, path=renamed))
        return _as(need, dataset, f"{need.path} is now called {renamed}")


def _plain(client: HubClient, need: DatasetNeed) -> FoundDataset:
    commit = client.commit("dataset", need.path, need.revision or "main")
    files = client.tree("dataset", need.path, commit)
    splits: dict[str, list[HubFile]] = {}
    script = has_script(need.path, files)
    if not script:
        card = next((file for file in files if file.path == "README.md" and file.size < 2**24), None)
        splits = card_splits(client.text("dataset", need.path, commit, card.path), need.name, files) if card else {}
        splits = splits or named_splits(need.name, files)
    if splits and set(need.splits) <= splits.keys():
        return _found(need, splits, need.path, commit)
    why = (
        "is loaded by a script, which `datasets` no longer runs"
        if script
        else "does not say which files belong to its splits"
    )
    try:
        converted = client.commit("dataset", need.path, CONVERTED)
        config, splits = converted_splits(need.name, client.tree("dataset", need.path, converted))
    except DataError:
        if need.path in SUCCESSORS:
            return _successor(client, need)
        raise
    partial = "; only its first part was converted" if is_partial(f for each in splits.values() for f in each) else ""
    pinned = f"; the revision {need.revision} pinned by the task was not" if need.revision else ""
    note = (
        f"{need.path} {why}: its Parquet conversion on the hub ({CONVERTED}, config {config}) was used{partial}{pinned}"
    )
    return _found(need, splits, need.path, converted, note)


def _successor(client: HubClient, need: DatasetNeed) -> FoundDataset:
    known = SUCCESSORS.get(need.path)
    if known is None:
        raise HubNotFound(
            f"the hub has no dataset {need.path}", hint="Check the name; it may have been renamed or removed."
        )
    other = replace(need, path=known.path, name=None if known.drops_name else known.name or need.name, revision=None)
    dataset = find_dataset(client, other)
    return _as(need, dataset, f"{need.path} was loaded by a script: {known.path} was used ({known.source})")


def _as(need: DatasetNeed, dataset: FoundDataset, note: str) -> FoundDataset:
    """What was found elsewhere, at the place where the task looks for it."""
    old, new = f"{dataset.need.path}/{dataset.need.name or 'default'}/", f"{need.path}/{need.name or 'default'}/"
    files = tuple(replace(each, target=new + each.target.removeprefix(old)) for each in dataset.files)
    return FoundDataset(need, files, dataset.repo, dataset.commit, f"{note}; {dataset.note}" if dataset.note else note)


def _found(
    need: DatasetNeed, splits: Mapping[str, list[HubFile]], repo: str, commit: str, note: str | None = None
) -> FoundDataset:
    wanted = need.splits or tuple(splits)
    if missing := [split for split in wanted if split not in splits]:
        raise DataError(
            f"{need.label} has no split {missing[0]!r} on the hub",
            hint=did_you_mean(missing[0], splits) or f"There are: {', '.join(splits) or 'none'}.",
        )
    folder = f"{need.path}/{need.name or 'default'}"
    files = tuple(
        WantedFile(
            f"{folder}/{shard_name(safe_path(split), place, len(splits[split]), file.path)}",
            "dataset",
            repo,
            commit,
            file,
        )
        for split in wanted
        for place, file in enumerate(splits[split])
    )
    return FoundDataset(need, files, repo, commit, note)


def _by_file(client: HubClient, need: DatasetNeed) -> FoundDataset:
    """Files that the task names, at the paths where the mirror looks for them."""
    files: list[WantedFile] = []
    commit = repo = ""
    for given in need.data_files:
        repo, pattern, revision = need.path, given, need.revision
        if given.startswith(HUB_PREFIX):
            owner, _, rest = given.removeprefix(HUB_PREFIX).partition("/")
            name, _, pattern = rest.partition("/")
            name, _, pinned = name.partition("@")
            repo, revision = f"{owner}/{name}", pinned or revision
        safe_path(repo)
        commit = client.commit("dataset", repo, revision or "main")
        matches = matching(pattern, client.tree("dataset", repo, commit))
        if not matches:
            raise HubNotFound(f"{repo} has no file {pattern!r} on the hub", hint="Check the task's data_files.")
        files += [WantedFile(f"{repo}/{file.path}", "dataset", repo, commit, file) for file in matches]
    return FoundDataset(need, tuple(dict.fromkeys(files)), repo, commit)


MODEL_FILES = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".vocab", ".merges")


def find_model(client: HubClient, repo: str, revision: str | None = None) -> FoundDataset:
    """Config, tokenizer and weights of a model: safetensors, else PyTorch's. Code and copies in other forms stay out."""
    safe_path(repo)
    commit = client.commit("model", repo, revision or "main")
    files = [file for file in client.tree("model", repo, commit) if "/" not in file.path]
    weights = [file for file in files if file.path.endswith(".safetensors")]
    weights = weights or [
        file for file in files if file.path.startswith("pytorch_model") and file.path.endswith(".bin")
    ]
    others = [file for file in files if file.path.endswith(MODEL_FILES)]
    wanted = tuple(
        WantedFile(f"models/{repo}/{file.path}", "model", repo, commit, file) for file in (*others, *weights)
    )
    if not wanted:
        raise HubNotFound(f"{repo} has no model files")
    return FoundDataset(DatasetNeed(repo, None, ()), wanted, repo, commit)
