"""Scores and standard errors of lm-evaluation-harness, reproduced from its goldens.

Scoring does not depend on how prompts were worded, so each task is scored once as it is, once with hints and with every
override, on its first docs; final numbers are checked for every golden, over all docs.
"""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parity.goldens import golden_paths, load_golden, options_of, plain, require_parity_data, tasks_of

from assay.metrics.sandbox import allow_unsafe_code
from assay.scoring import apply_filters, declared, estimate
from assay.tasks import Task

pytestmark = [pytest.mark.parity, pytest.mark.slow]

DOCS = 6
SCORED = [p for p in golden_paths() if p.name.split("__")[1].partition(".")[0] in ("default", "hints", "allmetrics", "f1mcc", "repeats") or "override" in p.name]  # fmt: skip


@pytest.fixture(autouse=True)
def permission():
    require_parity_data()
    allow_unsafe_code()
    yield
    allow_unsafe_code(False)


def same(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return str(a) == str(b)
    return a == b or abs(a - b) <= tolerance * max(1.0, abs(a)) or (math.isnan(a) and math.isnan(b))


def answered(task: Task, golden: dict[str, Any], rows: dict[int, dict[str, Any]]) -> dict[int, Any]:
    """The task's own instances with the responses of the golden."""
    docs = {}
    for requests in islice(task.iter_requests(options_of(golden)), DOCS):
        recorded = next(iter(rows[requests.doc_id].values()))["resps"]
        for instance, resps in zip(requests.instances, recorded, strict=True):
            loglikelihood = instance.request_type == "loglikelihood"
            instance.resps = [tuple(each) if loglikelihood else each for each in resps]
        docs[requests.doc_id] = requests.instances
    return docs


@pytest.mark.parametrize("path", SCORED, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_every_metric_of_every_sample(path: Path, tmp_path: Path):
    golden = load_golden(path)
    for name, task in tasks_of(golden, tmp_path).items():
        rows: dict[int, dict[str, Any]] = {}
        for row in golden["samples"][name]:
            rows.setdefault(row["doc_id"], {})[row["filter"]] = row
        docs = answered(task, golden, rows)
        apply_filters([instance for doc in docs.values() for instance in doc], task.config)
        found = task.scorer.score(docs, task.config)
        scores: dict[tuple[int, str], dict[str, Any]] = {}
        for (metric, filter_name), values in found.sample_scores.items():
            for doc_id, value in zip(found.doc_ids[metric, filter_name], values):
                scores.setdefault((doc_id, filter_name), {})[metric] = plain(value)
        for doc_id, instances in docs.items():
            for filter_name, row in rows[doc_id].items():
                where = f"{name}, doc {doc_id}, filter {filter_name}"
                filtered = [plain(each.filtered_resps[filter_name]) for each in instances]
                assert same(row["filtered_resps"], filtered), where
                assert same(row["metrics"], scores[doc_id, filter_name]), where


@pytest.mark.parametrize("path", golden_paths(), ids=lambda path: path.name.removesuffix(".json.gz"))
def test_every_result_and_standard_error(path: Path, tmp_path: Path):
    golden = load_golden(path)
    for name, task in tasks_of(golden, tmp_path).items():
        columns: dict[tuple[str, str], list[Any]] = {}
        for row in golden["samples"][name]:
            for metric, value in row["metrics"].items():
                columns.setdefault((metric, row["filter"]), []).append(value)
        reported = golden["results"][name]
        for (metric, filter_name), values in columns.items():
            aggregation, _ = declared(task.config, metric)
            if f"{metric},{filter_name}" not in reported:
                continue
            keys = np.random.default_rng(len(values)).integers(0, 2**64, len(values), dtype=np.uint64)
            found = estimate(values, aggregation, keys).estimate
            where = f"{name}: {metric},{filter_name}"
            assert same(reported[f"{metric},{filter_name}"], found.value, 1e-12), where
            stderr = reported[f"{metric}_stderr,{filter_name}"]
            if stderr != "N/A":
                tolerance = 1e-12 if aggregation.name == "mean" else 0.35 * abs(stderr) + 1e-6
                assert found.stderr is not None, where
                assert abs(found.stderr - stderr) <= tolerance, where
