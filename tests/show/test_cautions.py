"""What to know before an error bar is trusted stands beside it."""

import numpy as np

from assay.metrics import AGGREGATIONS
from assay.results import MetricKey, RunResult, TaskResult
from assay.scoring import estimate
from assay.show import result_text


def test_a_cluster_that_holds_much_of_the_weight_is_named_in_the_table() -> None:
    clusters = np.repeat(np.arange(29), [60] + [5] * 28)
    values = (np.random.default_rng(0).random(200) < 0.7).astype(float).tolist()
    keys = np.arange(200, dtype=np.uint64)
    scores = {MetricKey("acc"): estimate(values, AGGREGATIONS["mean"], keys, clusters)}
    even = {MetricKey("acc"): estimate(values, AGGREGATIONS["mean"], keys)}
    tasks = {"uneven": TaskResult("uneven", "uneven", scores), "even": TaskResult("even", "even", even)}
    result = RunResult(tasks, {}, tuple(tasks))
    lines = {line.split()[0]: line for line in result_text(result, 200).splitlines() if line}
    assert "one cluster holds 30% of the weight" in lines["uneven"]
    assert "holds" not in lines["even"]
