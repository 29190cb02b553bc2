"""The front door: `assay.evaluate` and `assay run` both come through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.config import RunConfig
from assay.report.jsonl import write_sample_files
from assay.report.results import Results
from assay.report.schema import results_dict
from assay.run import Progress, execute

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
    outcome = execute(config, model=model, progress=progress, manager=manager, store=store)
    results = Results(results_dict(outcome), outcome.directory)
    if outcome.directory is not None:
        if config.log_samples or config.predict_only:
            write_sample_files(outcome.directory, list(outcome.tasks))
        outcome.directory.write_json("results.json", results.data)
    if config.loggers:
        from assay.report.loggers import log_results

        log_results(results, config.loggers)
    return results
