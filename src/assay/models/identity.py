"""Which model is this? What tells one from another: behind an address, what it says of itself and answers to a handful of
fixed probes; here, its code, its arguments, and the weights inside it or in its files.

Two models can say the same of themselves, and one model need not answer the same twice: its sums depend on what else it
computes. So the probes are sent three times at first, and a later reply counts as another model's only where it is
further from the earlier ones than those are from each other.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

from assay.secret_texts import without_secrets

PROBES = (
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):",
    "12 + 7 * 3 =",
    "Die Hauptstadt von Österreich heißt",
)
PROBE_TOKENS = 12
TIMES_AT_FIRST = 3
ROUNDING = 0.005
"""Difference in log-probability of one probe that is nobody's: servers round what they write."""
LENGTHS = frozenset({"max_model_len", "context_length", "context_window", "meta.n_ctx"})
"""What a server says of how much it reads at once, which changes with how it is started. No answer that it gave would have
been another: a prompt that does not fit has none."""
DEPTH = 3
"""How many attributes deep weights are looked for: a pipeline holds a model that holds them."""


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """A greedy answer, and the log-probabilities of the likeliest tokens at its first places, where they were given."""

    text: str
    tops: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """What one model was found to be. `replies[i]` are the replies to probe i, each time it was sent."""

    says: Mapping[str, Any] = field(default_factory=dict)
    """Of itself: what it is called, whose it is, how much it reads."""
    builds: tuple[str, ...] = ()
    """`system_fingerprint` of its replies; behind one address there may be several."""
    replies: tuple[tuple[ProbeReply, ...], ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether every probe was answered: what a model says of itself alone does not tell it from another."""
        return bool(self.replies) and all(self.replies)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Identity:
        stored = json.loads(text)
        replies = [[ProbeReply(r["text"], tuple(r["tops"])) for r in times] for times in stored["replies"]]
        return cls(stored["says"], tuple(stored["builds"]), tuple(map(tuple, replies)))

    def joined(self, other: Identity) -> Identity:
        """The same model, probed more often."""
        return Identity(
            {**self.says, **other.says},
            tuple(dict.fromkeys([*self.builds, *other.builds])),
            tuple((*a, *b) for a, b in zip(self.replies, other.replies)),
        )


def difference(one: Identity, two: Identity) -> str | None:
    """Why these are two models; None where nothing tells them apart."""
    for name in sorted((one.says.keys() & two.says.keys()) - LENGTHS):
        if one.says[name] != two.says[name]:
            return f"its {name} was {one.says[name]} and is now {two.says[name]}"
    if one.builds and two.builds and not set(one.builds) & set(two.builds):
        return f"its system_fingerprint was {', '.join(one.builds)} and is now {', '.join(two.builds)}"
    pairs = list(zip(one.replies, two.replies))
    gaps = [min(distance(a, b) for a, b in product(before, now)) for before, now in pairs]
    # Over all probes together: with a server that varies, one probe alone would raise the alarm too often.
    allowed = sum(max(spread(before), spread(now)) + ROUNDING for before, now in pairs)
    if sum(gaps) <= allowed:
        return None
    worst = max(range(len(gaps)), key=gaps.__getitem__)
    before, now = pairs[worst]
    return f"to the probe {PROBES[worst]!r} it answered {before[0].text!r} and now {now[0].text!r}"


def spread(replies: Sequence[ProbeReply]) -> float:
    """How far the replies to one probe are from each other."""
    return max((distance(a, b) for a, b in combinations(replies, 2)), default=0.0)


def distance(one: ProbeReply, two: ProbeReply) -> float:
    """0 for the same text and log-probabilities: the share of the text that differs, and the mean difference of
    log-probabilities at the places before the answers part.
    """
    same = next((i for i, (a, b) in enumerate(zip(one.text, two.text)) if a != b), min(len(one.text), len(two.text)))
    apart = 1 - same / max(len(one.text), len(two.text), 1) if one.text != two.text else 0.0
    for a, b in zip(one.tops, two.tops):
        shared = [abs(a[token] - b[token]) for token in a.keys() & b.keys()]
        # Tokens at the end of the list come and go; the likeliest ones do not, unless the models differ.
        apart += sum(shared) / len(shared) if shared else 1.0
        if not a or not b or max(a, key=a.__getitem__) != max(b, key=b.__getitem__):
            break
    return apart if math.isfinite(apart) else 1.0


def modules_in(model: object) -> list[Any]:
    """The outermost `torch.nn.Module`s in an object, in the order of its attributes. Torch is not imported for it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    found: list[Any] = []
    seen: set[int] = set()

    def look(value: object, depth: int) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            found.append(value)
        elif depth and not isinstance(value, type):
            for inner in getattr(value, "__dict__", {}).values():
                look(inner, depth - 1)

    look(model, DEPTH)
    return found


def weights_digest(module: Any) -> str:
    """Every parameter by name, shape, a few of its values, and two sums that all its values enter."""
    digest = hashlib.sha256(type(module).__qualname__.encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        if not tensor.numel():
            continue
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // 64)].float().cpu()
        wide = flat.double()
        digest.update(some.numpy().tobytes())
        digest.update(f"{wide.sum().item()!r} {wide.abs().sum().item()!r}".encode())
    return digest.hexdigest()


def parameters_in_files(files: Iterable[Path]) -> int | None:
    """Parameters by the headers of safetensors and GGUF files; None where there are none of these."""
    sizes = [size for path in files if (size := _parameters_in(path)) is not None]
    return sum(sizes) if sizes else None


def _parameters_in(path: Path) -> int | None:
    if path.suffix == ".safetensors":
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return sum(int(math.prod(entry["shape"])) for name, entry in header.items() if name != "__metadata__")
    if path.suffix == ".gguf":
        from gguf import GGUFReader

        return sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)
    return None


def object_fingerprint(model: object) -> str:
    """A ready object by its class, its plain settings and the weights in it; empty where it holds none."""
    modules = modules_in(model)
    if not modules:
        return ""
    plain = {name: value for name, value in sorted(vars(model).items()) if isinstance(value, str | int | float)}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for module in modules:
        digest.update(weights_digest(module).encode())
    return f"{class_fingerprint(type(model), {})}:{digest.hexdigest()}"


def count_parameters(model: object) -> int | None:
    """What an object says of its own size, by method or attribute, else the parameters of the weights in it."""
    own = getattr(model, "num_parameters", None)
    said = own() if callable(own) else own
    if isinstance(said, int | float):
        return int(said)
    sizes = [sum(parameter.numel() for parameter in module.parameters()) for module in modules_in(model)]
    return max(sizes, default=None)


def class_fingerprint(cls: type, model_args: Mapping[str, Any]) -> str:
    """The class, the text of the file that defines it, and its arguments but for secrets.

    An edited model file is a new model: its old answers are not reused. A new key to the same model is not.
    """
    digest = hashlib.sha256(f"{cls.__module__}:{cls.__qualname__}\n".encode())
    try:
        source = inspect.getsourcefile(cls)
    except (TypeError, OSError):  # built in a console or by a notebook: there is no file
        source = None
    if source:
        try:
            with open(source, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
        except OSError:
            digest.update(source.encode())
    digest.update(json.dumps(without_secrets(model_args), sort_keys=True, default=str).encode())
    return f"{cls.__qualname__}:{digest.hexdigest()}"
