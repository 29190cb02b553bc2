"""What every file of the catalog must say, and that it says the truth."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from tests.parity.goldens import PARITY

import assay
from assay.config import TaskConfig
from assay.errors import AssayError
from assay.tasks import RequestOptions, Resolved, TaskManager

CATALOG = Path(assay.__file__).parent / "catalog"
ASKED_FOR = [
    "mmlu",
    "mmlu_pro",
    "arc_easy",
    "arc_challenge",
    "hellaswag",
    "winogrande",
    "piqa",
    "boolq",
    "openbookqa",
    "sciq",
    "commonsense_qa",
    "social_iqa",
    "copa",
    "rte",
    "cb",
    "wic",
    "race",
    "truthfulqa_mc1",
    "truthfulqa_mc2",
    "truthfulqa_gen",
    "gsm8k",
    "gsm8k_cot",
    "hendrycks_math500",
    "mgsm",
    "bbh",
    "agieval",
    "drop",
    "squadv2",
    "triviaqa",
    "nq_open",
    "lambada_openai",
    "wikitext",
    "blimp",
    "humaneval",
    "mbpp",
    "ifeval",
    "xnli",
    "xcopa",
    "belebele",
    "logiqa",
    "pubmedqa",
    "bbq",
    "gpqa_main_zeroshot",
    "openllm",
    "leaderboard",
    "olmes_core9",
    "quick",
    "demo",
]
NO_STYLE = {
    "truthfulqa_mc2": "several answers are right",
    "winogrande": "contexts vary, not choices; see winogrande_options",
    "agieval_jec_qa_ca": "several answers may be right",
    "agieval_jec_qa_kd": "several answers may be right",
    "leaderboard_bbh_object_counting": "the target is a number and the choices are numbers",
}


@lru_cache(maxsize=1)
def manager() -> TaskManager:
    return TaskManager()


@lru_cache(maxsize=1)
def everything() -> Resolved:
    return manager().resolve(sorted(name for name, entry in manager().entries.items() if entry.kind != "tag"))


def plain_tasks() -> dict[str, TaskConfig]:
    """Tasks by their own name: no variants, no copies that a group has changed."""
    return {name: config for name, config in everything().tasks.items() if name in manager().entries}


def test_catalog_has_what_people_run_most() -> None:
    assert [name for name in ASKED_FOR if name not in manager().entries] == []


def test_every_task_says_what_it_is_and_whose() -> None:
    for name, config in plain_tasks().items():
        said = config.metadata
        for key in ("version", "description", "citation", "license"):
            assert said.get(key) not in (None, ""), f"{name}: metadata.{key}"


def test_every_group_says_what_it_is() -> None:
    for name, spec in everything().groups.items():
        assert (spec.config.metadata or {}).get("description"), name


def test_tasks_name_the_groups_that_hold_them() -> None:
    holders: dict[str, set[str]] = {}
    for group, spec in everything().groups.items():
        for child in spec.children:
            # `openllm::arc_challenge` is a copy with its own number of shots, `arc_easy:mc` a variant.
            holders.setdefault(child.rpartition("::")[2].partition(":")[0], set()).add(group.rpartition("::")[2])
    for name, config in plain_tasks().items():
        assert set(config.metadata.get("groups", [])) == holders.get(name, set()), name


def test_groups_overlap_and_use_several_aggregators() -> None:
    used = {
        str(entry.aggregation)
        for spec in everything().groups.values()
        for entry in spec.config.aggregate_metric_list or []
    }
    assert {"mean", "weighted_mean", "harmonic_mean", "pass@k"} <= used
    members = [child for spec in everything().groups.values() for child in spec.children]
    assert len(members) > len(set(members))


@pytest.mark.parametrize("style", ["mc", "cloze", "bpb"])
def test_choice_tasks_come_in_every_style(style: str) -> None:
    """For all tasks whose data are at hand, the first doc is worded and its requests differ from one another."""
    if not (PARITY / "hub").is_dir():
        pytest.skip(f"no data under {PARITY}")
    tried = 0
    for name, config in plain_tasks().items():
        if config.output_type != "multiple_choice" or config.class_ is not None or name in NO_STYLE:
            continue
        task = manager().load([name], data_dir=PARITY / "hub").tasks[name]
        if not task.source.mirror_files():
            continue
        styled = manager().load([f"{name}:{style}"], data_dir=PARITY / "hub").tasks[f"{name}:{style}"]
        try:
            requests = next(iter(styled.iter_requests(RequestOptions(num_fewshot=0, limit=1))))
        except AssayError as error:
            raise AssertionError(f"{name}:{style}: {error}") from error
        arguments = [instance.arguments for instance in requests.instances]
        assert len(arguments) == len(set(arguments)), f"{name}:{style}"
        assert all(continuation.strip() for _, continuation in arguments), f"{name}:{style}"
        tried += 1
    assert tried > 40


def test_no_file_is_out_of_reach() -> None:
    """A base file is included by some task; a data file is named by one."""
    yaml = {path: path.read_text(encoding="utf-8") for path in CATALOG.rglob("*.yaml")}
    for path in CATALOG.rglob("_*.yaml"):
        if path.name.startswith("_group_"):
            continue
        assert any(f"include: {path.name}" in text for other, text in yaml.items() if other.parent == path.parent), path
    for path in CATALOG.rglob("*.jsonl"):
        assert any(path.name in text for text in yaml.values()), path
