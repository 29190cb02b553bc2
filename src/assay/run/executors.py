"""The model of a run, and where it runs: in this process, or on what a registered executor offers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from assay.config import RunConfig
from assay.data import mirror_dir
from assay.errors import ConfigError, MissingPackage
from assay.models import LM, CostLimit, load_model, load_when_asked
from assay.registry import Registry
from assay.run.progress import Progress


class Executor(Protocol):
    """Where models run."""

    counts_cost: bool
    """Whether `--max_cost` is kept there."""

    def load(self, config: RunConfig, notify: Callable[[str], None]) -> LM:
        """The model that the config names."""

    def accept(self, model: object) -> None:
        """Refuses a ready-made model that cannot run there."""

    def share(
        self, config: RunConfig, models: int, notify: Callable[[str], None]
    ) -> AbstractContextManager[tuple[int, dict[str, Any]]]:
        """Makes ready for so many models: how many run at once, and what the config of each must say for that."""


class LocalExecutor:
    """Models run in this process; local files are loaded when something is first requested of them."""

    counts_cost = True

    def load(self, config: RunConfig, notify: Callable[[str], None]) -> LM:
        load = load_model if config.apply_chat_template else load_when_asked
        # Among the arguments, so that a model that knows no such thing says so.
        effort = {} if config.reasoning_effort is None else {"reasoning_effort": config.reasoning_effort}
        return load(
            config.model,
            {**effort, **mirrored(config)},
            device=config.device,
            batch_size=config.batch_size,
            trust_remote_code=config.trust_remote_code,
        )

    def accept(self, model: object) -> None:
        """Any will do."""

    def share(
        self, config: RunConfig, models: int, notify: Callable[[str], None]
    ) -> AbstractContextManager[tuple[int, dict[str, Any]]]:
        return nullcontext((1, {}))


EXECUTORS: Registry[type[Executor]] = Registry(
    "executor",
    group="assay.executors",
    lazy={"local": f"{__name__}:LocalExecutor", "ray": "assay.cluster:RayExecutor"},
)


def executor_of(config: RunConfig) -> Executor:
    executor = EXECUTORS.get_installed(config.executor)
    if executor is None:
        home = EXECUTORS.home(config.executor).partition(":")[0]
        raise MissingPackage(
            f"--executor {config.executor} needs {home}, which is not installed", hint="Run without --executor."
        )
    return executor()


def model_for(config: RunConfig, notify: Callable[[str], None] = lambda text: None) -> LM:
    """The model that a config names, where it says."""
    return executor_of(config).load(config, notify)


def ready_model(config: RunConfig, model: LM | object | None, notify: Callable[[str], None]) -> LM:
    """The model that was handed over, or the one that the config names."""
    if model is None:
        return model_for(config, notify)
    executor_of(config).accept(model)
    return load_model(model, config.model_args)


def mirrored(config: RunConfig) -> dict[str, Any]:
    """The model's arguments; names of the hub that `assay fetch --model` put into the mirror are the files there."""
    mirror = mirror_dir(config.data_dir)
    if mirror is None:
        return config.model_args
    named: dict[str, Any] = {
        key: config.model_args[key] for key in ("pretrained", "tokenizer") if key in config.model_args
    }
    places = {key: mirror / "models" / name for key, name in named.items() if isinstance(name, str)}
    there: dict[str, Any] = {
        key: str(path) for key, path in places.items() if path.is_dir() and not Path(named[key]).exists()
    }
    return {**config.model_args, **there}


def cost_limit(config: RunConfig, lm: LM) -> CostLimit | None:
    """What `--max_cost` allows. A model whose prices nobody gave would never reach it."""
    if config.max_cost is None:
        return None
    if not executor_of(config).counts_cost:
        raise ConfigError("max_cost works only on one machine", hint=f"Run without --executor {config.executor}.")
    if lm.info().prices is None:
        raise ConfigError(
            "max_cost needs the model's prices", hint="Add price_in=…,price_out=… (per million tokens) to --model_args."
        )
    return CostLimit(config.max_cost)


def is_known(lm: LM, progress: Progress) -> bool:
    """Whether anything tells this model from another one of its class; else it would get the other's answers."""
    if lm.fingerprint():
        return True
    progress.message(
        f"{lm.info().name} has no fingerprint, so its answers are neither kept nor reused. "
        "Give its class a fingerprint() method whose value changes whenever its answers may change."
    )
    return False


def model_name(config: RunConfig, model: LM | object | None) -> str:
    """What people call it: the checkpoint, the served model, the class, or the backend."""
    args = config.model_args
    handed_over = None if model is None else type(model).__name__
    return str(args.get("pretrained") or args.get("model") or handed_over or config.model.rpartition(".py:")[2])
