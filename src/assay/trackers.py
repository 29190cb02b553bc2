"""Results to experiment trackers: thin, lazy, and plug-ins like everything else.

A logger is a function `(results, settings)`. Trackers are imported when one is asked for.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import AssayError, ConfigError, StoreError
from assay.registry import Registry
from assay.results import RunResult, config_entry, rows_of, write_key

Logger = Callable[[RunResult, dict[str, Any]], None]

TENSORBOARD_DIR = "runs/tensorboard"
_MLFLOW_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"

LOGGERS: Registry[Logger] = Registry("logger", group="assay.loggers")


_PACKAGES = {"wandb": "wandb", "mlflow": "mlflow", "tensorboard": "torch.utils.tensorboard"}
"""What a logger imports; a plug-in's own imports happen when its module is loaded."""


@dataclass(frozen=True)
class ReadyLogger:
    """A logger that was found and whose package is there."""

    name: str
    send: Logger
    settings: dict[str, Any]


def ready_loggers(loggers: dict[str, dict[str, Any]]) -> list[ReadyLogger]:
    """Look up and import before the run what is used after it: a wrong name must not cost an evaluation."""
    ready = [ReadyLogger(name, LOGGERS[name], settings) for name, settings in loggers.items()]
    for name, settings in loggers.items():
        if name in _PACKAGES:
            _require_login(name, _import(name), settings)
    return ready


def _require_login(name: str, package: Any, settings: dict[str, Any]) -> None:
    """A tracker that nobody is logged in to, or that does not answer, must not cost an evaluation either."""
    try:
        if name == "wandb":
            _check_wandb(package, settings)
        elif name == "mlflow":
            with _no_retries():
                package.MlflowClient(settings.get("tracking_uri")).search_experiments(max_results=1)
        else:
            Path(settings.get("log_dir", TENSORBOARD_DIR)).mkdir(parents=True, exist_ok=True)
    except AssayError:
        raise
    except Exception as error:  # as in `log_results`
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"the logger {name} cannot be used: {type(error).__name__}: {reason}",
            hint=f"Nothing was asked yet. Fix it, or leave out --log_to {name}.",
        ) from error


def _check_wandb(wandb: Any, settings: dict[str, Any]) -> None:
    """Offline runs need no key. Nobody is asked for one on the terminal, in the middle of a job."""
    mode = settings.get("mode") or os.environ.get("WANDB_MODE") or "online"
    if mode not in ("online", "run"):
        return
    if "prompt" in inspect.signature(wandb.login).parameters:
        is_logged_in = wandb.login(prompt=False, verify=True)
    else:  # an older one would ask
        is_logged_in = bool(os.environ.get("WANDB_API_KEY") or wandb.api.api_key)
    if not is_logged_in:
        raise ConfigError(
            "the logger wandb is not logged in",
            hint="Run wandb login, set WANDB_API_KEY, or use --log_to wandb:mode=offline",
        )


@contextmanager
def _no_retries() -> Iterator[None]:
    """MLflow waits for minutes for a server that is not there; whoever is at the terminal should hear it at once."""
    before = os.environ.get(_MLFLOW_RETRIES)
    os.environ[_MLFLOW_RETRIES] = "0"
    try:
        yield
    finally:
        os.environ.pop(_MLFLOW_RETRIES)
        if before is not None:
            os.environ[_MLFLOW_RETRIES] = before


def log_results(result: RunResult, loggers: Iterable[ReadyLogger]) -> None:
    """Send results to every logger that the run names."""
    for logger in loggers:
        try:
            logger.send(result, logger.settings)
        except AssayError:
            raise
        except Exception as error:  # a tracker fails in ways of its own: its server, its key, its disk
            kept = f"The results are in {result.path}." if result.path else None
            raise StoreError(f"the logger {logger.name} failed: {type(error).__name__}: {error}", hint=kept) from error


def numbers(result: RunResult) -> Iterator[tuple[str, float]]:
    """`task/metric,filter` and `…_stderr`, for trackers that keep named numbers; a task in two groups counts once."""
    seen: set[str] = set()
    for row in rows_of(result):
        if row.key is None or row.estimate.value is None or (name := f"{row.name}/{write_key(row.key)}") in seen:
            continue
        seen.add(name)
        yield name, row.estimate.value
        if row.estimate.stderr is not None:
            yield f"{row.name}/{write_key(row.key, stderr=True)}", row.estimate.stderr


@LOGGERS.register("wandb")
def log_to_wandb(result: RunResult, settings: dict[str, Any]) -> None:
    """Weights & Biases: numbers in the summary, the table as a table. Settings go to `wandb.init`."""
    wandb = _import("wandb")
    run = wandb.init(
        **{"project": "assay", "job_type": "eval", **settings}, config=config_entry(result.config, result.model)
    )
    run.summary.update(dict(numbers(result)))
    frame = result.to_pandas()
    cells = [[None if value != value else value for value in row] for row in frame.values.tolist()]
    run.log({"results": wandb.Table(columns=list(frame.columns), data=cells)})
    run.finish()


@LOGGERS.register("mlflow")
def log_to_mlflow(result: RunResult, settings: dict[str, Any]) -> None:
    """MLflow: a run with the numbers as metrics. Settings: `tracking_uri`, `experiment`, and what `start_run` takes."""
    mlflow = _import("mlflow")
    settings = dict(settings)
    if uri := settings.pop("tracking_uri", None):
        mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(settings.pop("experiment", "assay"))
    with mlflow.start_run(**settings):
        mlflow.log_params({key: str(value)[:500] for key, value in config_entry(result.config, result.model).items()})
        # MLflow allows no commas in names.
        mlflow.log_metrics({name.replace(",", "/").replace("@", "_at_"): value for name, value in numbers(result)})


@LOGGERS.register("tensorboard")
def log_to_tensorboard(result: RunResult, settings: dict[str, Any]) -> None:
    """TensorBoard: scalars at `step` (a training step, say) in `log_dir`."""
    with _import("tensorboard").SummaryWriter(settings.get("log_dir", TENSORBOARD_DIR)) as writer:
        for name, value in numbers(result):
            writer.add_scalar(name, value, global_step=int(settings.get("step", 0)))


def _import(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(_PACKAGES[name])
    except ImportError as error:
        package = (error.name or name).partition(".")[0]
        raise ConfigError(f"the logger {name} needs the package {package}", hint=f"pip install {package}") from error
