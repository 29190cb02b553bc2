"""The front door: `assay.evaluate` and `assay run` both come through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.config import RunConfig
from assay.report.jsonl import write_sample_files
from assay.report.loggers import ReadyLogger, log_results, ready_loggers
from assay.report.results import Results
from assay.report.schema import results_dict
from assay.run import Progress, RunDirectory, execute
from assay.stats import StoppingRule

if TYPE_CHECKING:
    from assay.models import LM
    from assay.store import ResponseStore
    from assay.tasks import TaskManager


def evaluate(
    config: RunConfig | None = None,
    *,
    model: str | LM | object | None = None,
    progress: Progress | None = None,
    manager: TaskManager | None = None,
    store: ResponseStore | str | None = None,
    **words: Any,
) -> Results:
    """Evaluate a model on tasks.

    Give a `RunConfig`, or its fields as keyword arguments; `model` may also be a ready model. Nothing is written to
    disk but the response store, unless `output_path` or `run_dir` is set.

        results = assay.evaluate(model="hf", model_args={"pretrained": "smollm2-135m"}, tasks=["demo"])
        print(results.table())
        results["demo"]["acc"].low
    """
    if isinstance(model, str):
        words["model"], model = model, None
    if isinstance(store, str):
        words["store"], store = store, None
    if config is None:
        config = RunConfig(**words)
    elif words:
        config = config.model_copy(update=words)
    loggers = check_first(config)
    outcome = execute(config, model=model, progress=progress, manager=manager, store=store)
    results = Results(results_dict(outcome), outcome.directory)
    if outcome.directory is not None:
        # Before anything that may fail: a full disk or a tracker must not cost the scores.
        outcome.directory.write_json("results.json", results.data)
        if config.log_samples or config.predict_only:
            write_sample_files(outcome.directory, list(outcome.tasks))
    log_results(results, loggers)
    return results


def check_first(config: RunConfig) -> list[ReadyLogger]:
    """What can be wrong with a run's words and would be found out only after hours: trackers, `until`, `control`."""
    rule = StoppingRule.parse(config.until) if config.until else None
    for earlier in (config.control, rule and rule.baseline):
        if earlier:
            RunDirectory.open(earlier)
    return ready_loggers(config.loggers)
