"""What comes before the first request, the same for every run: config → checks → tasks → needs → plan.

Running, scoring again, a dry run and asking again differ in who answers; what is refused is refused here, for all of them.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from assay.config import ConfigWarning, FunctionRef, RunConfig, Seeds
from assay.data import mirror_dir
from assay.errors import ConfigError, MissingPackage
from assay.metrics import allow_unsafe_code
from assay.models import LM, CostLimit, load_model, load_when_asked
from assay.registry import Registry
from assay.results import RunDirectory
from assay.run.checks import require_sound
from assay.run.needs import check_needs, with_style
from assay.run.plan import MAY_HOLD_KEYS, Plan, check_own_workspaces, make_plan, manager_for
from assay.run.progress import Progress
from assay.run.settle import settle, settle_stored, with_docs
from assay.scoring import doubtful_settings, filters_of, gold_labels, resolve_metrics
from assay.secret_texts import note_secrets
from assay.store import ResponseStore
from assay.timelimit import bounded_planning

if TYPE_CHECKING:
    from assay.data import Docs
    from assay.tasks import Loaded, TaskManager


@dataclass(frozen=True)
class Earlier:
    """An earlier run whose docs are taken again."""

    source: RunDirectory
    docs: Mapping[str, Docs] | None = None
    """The docs themselves: no dataset is read then, and prompts are taken as they are stored."""
    is_sealed: bool = False
    """Whether the task files are a bundle's: what they name may lie on another machine, and is not looked at."""

    @property
    def model(self) -> dict[str, Any]:
        """What the run wrote down of its model."""
        return (self.source.read_json("run.json") or {}).get("model") or {}


@dataclass(frozen=True)
class Prepared:
    """Everything that is settled before the first request."""

    config: RunConfig
    plan: Plan
    lm: LM | None = None
    store: ResponseStore | None = None
    notes: tuple[str, ...] = ()
    """What is to be said about docs of an earlier run that are left out."""

    @property
    def model(self) -> LM:
        assert self.lm is not None, "this run was prepared without a model"
        return self.lm


def prepare(
    config: RunConfig,
    stack: ExitStack,
    progress: Progress,
    *,
    load: Callable[[], LM] | None = None,
    store: ResponseStore | None = None,
    manager: TaskManager | None = None,
    ready: Loaded | None = None,
    earlier: Earlier | None = None,
    scores: bool = True,
    lap: Callable[[str], None] = lambda name: None,
) -> Prepared:
    """Settle what is requested and how it is scored, with everything found wrong that can be found before the first request.

    `load` gives the model; without it nothing is sent. What it is found able to do is stored in `store`, which is
    opened where answers will be scored and none is given.
    `ready` are tasks that are objects already, `scores` says whether answers will be scored, and `lap` is told what took time.
    """
    set_process(config)
    progress.stage("checking tasks")
    manager = manager or manager_for(config)
    own = () if ready is None else ready.roots
    if earlier is None or not earlier.is_sealed:
        with bounded_planning():
            check_tasks(config, manager, ready=own)
    lm = None
    if load is not None:
        progress.stage("loading the model")
        lm = load()
        lap("load_model")
    progress.stage("reading tasks")
    if lm is not None and earlier is None:
        if store is None and scores:
            store = stack.enter_context(ResponseStore(config.store, fresh=config.fresh, notify=progress.message))
        config = with_style(config, lm, manager, ready=own, store=store)
    if lm is not None:
        lm.info()  # one that nothing is known of is loaded here, outside the limits
    with bounded_planning():
        has_prompts = earlier is not None and earlier.docs is not None
        about = None if earlier is None else earlier.model
        plan = make_plan(config, None if has_prompts else lm, manager, about=about, ready=ready)
    for planned in plan.tasks.values():
        note_secrets([getattr(planned.task.config, name) for name in MAY_HOLD_KEYS])
    if lm is not None and any(each.task.converses for each in plan.tasks.values()):
        lm.expect_conversations()
    if lm is not None and not config.offline:
        check_needs(plan, lm, store)
    notes: list[str] = []
    with bounded_planning():
        if earlier is None:
            plan = settle(plan, config)
            check_own_workspaces(plan, config)
        else:
            plan = plan if earlier.docs is None else with_docs(plan, earlier.docs)
            plan, notes = settle_stored(plan, config, earlier.source)
    if scores:
        load_scoring_code(plan, config)
    lap("load_tasks")
    return Prepared(config, plan, lm, store, tuple(notes))


def set_process(config: RunConfig) -> None:
    """Set what is global to the process: seeds, permission to run code, and which texts are secrets."""
    for each in (os.environ, config.model_args, config.roles, config.metadata, config.gen_kwargs, config.loggers):
        note_secrets(each)
    seed_everything(config.seed)
    allow_unsafe_code(config.confirm_run_unsafe_code, config.sandbox, config.allow_network)


def check_tasks(config: RunConfig, manager: TaskManager, *, ready: Collection[str] = ()) -> None:
    """All that can be known of the tasks without their data and without a model."""
    if not config.tasks:
        raise ConfigError("no tasks given", hint="Name some with --tasks; `assay ls tasks` lists all tasks.")
    named = [name for name in config.tasks if name not in ready]
    require_sound(manager, named, Path(config.data_dir) if config.data_dir else None)


def load_scoring_code(plan: Plan, run: RunConfig) -> None:
    """Import what tasks score with, so that a missing package is found before the first request, not after the last."""
    if run.predict_only:
        return
    gold_labels(run.labels)
    for planned in plan.tasks.values():
        config = planned.task.config
        for role in (*planned.task.roles, *planned.task.scorer.roles):
            if role not in run.roles:
                raise ConfigError(
                    f"task {planned.name!r} needs a second model, the {role}, but none is named",
                    hint=f"Name one with --role {role}=hf,pretrained=….",
                )
        if run.until and planned.task.scorer.has_labels(run.labels):
            raise ConfigError(
                f"task {planned.name!r} has labels, but --until watches only the judge's opinion",
                hint="Leave out --until, or the labels.",
            )
        for doubt in doubtful_settings(config, run.repeats, habits=False):
            warnings.warn(f"task {planned.name}: {doubt}", ConfigWarning, stacklevel=2)
        planned.task.scorer.prepare(config, run.labels)
        if isinstance(config.process_results, FunctionRef):
            config.process_results.load()
        elif config.process_results is None:
            for each in filters_of(config):
                resolve_metrics(config, each, without=planned.task.scorer.own_metrics)


def seed_everything(seeds: Seeds) -> None:
    """Seed the global generators that task utilities use. Torch only if something has imported it."""
    import numpy as np

    if seeds.python is not None:
        random.seed(seeds.python)
    if seeds.numpy is not None:
        np.random.seed(seeds.numpy)
    if seeds.torch is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seeds.torch)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


# Where the model runs


class Executor(Protocol):
    """Where models run."""

    counts_cost: bool
    """Whether `--max_cost` holds there."""

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
    handed_over = None if model is None else getattr(model, "class_name", type(model).__name__)
    return str(args.get("pretrained") or args.get("model") or handed_over or config.model.rpartition(".py:")[2])
