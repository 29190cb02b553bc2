"""The metrics of the `evaluate` package that task files use, without that package and without a hub."""

from assay.metrics.hub.evaluate import OFFLINE, import_for_task, load

__all__ = ["OFFLINE", "import_for_task", "load"]
