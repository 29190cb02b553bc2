"""One registry class for every kind of plug-in: models, metrics, aggregations, aggregators, filters, stylers, samplers.

An entry is an object, or a `"module:attribute"` string that is imported when it is first asked for. Packages add their
own through Python entry points (`assay.models`, `assay.metrics`, …), which are read only when a name is not found here
or when all names are listed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from assay.errors import EXTRA_OF_PACKAGE, ConfigError, MissingPackage, UnknownName, did_you_mean, install_hint

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to objects of one kind.

    >>> colours = Registry[str]("colour")
    >>> colours.add("red", "#f00")
    '#f00'
    >>> colours["red"]
    '#f00'
    >>> "blue" in colours
    False
    """

    def __init__(
        self,
        kind: str,
        *,
        group: str | tuple[str, ...] = (),
        lazy: dict[str, str] | None = None,
        made_of: Callable[[str, object], T] | None = None,
    ) -> None:
        """`made_of(name, entry)` turns what people register, a plain function say, into what the kind is."""
        self.kind = kind
        self._made_of = made_of
        self._entries: dict[str, T] = {}
        self._lazy: dict[str, str] = dict(lazy or {})
        self._groups = (group,) if isinstance(group, str) else group
        self._plugins_read = False

    def add(self, name: str, entry: T, *, replace: bool = False) -> T:
        """Register an object; a second one under the same name is an error unless `replace` is set."""
        entry = entry if self._made_of is None else self._made_of(name, entry)
        if not replace and name in self._entries and self._entries[name] is not entry:
            raise ConfigError(f"there is already a {self.kind} named {name!r}", hint="Choose another name.")
        self._entries[name] = entry
        return entry

    def register(self, *names: str) -> Callable[[T], T]:
        """Decorator form of `add`."""

        def decorate(entry: T) -> T:
            for name in names:
                self.add(name, entry)
            return entry

        return decorate

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            return self._entries[name]
        if name not in self._lazy:
            self._read_plugins()
        if name in self._lazy:
            # Importing the module may register the entry under this very name by its own decorator.
            loaded = cast(T, load_object(self._lazy[name], kind=self.kind))
            loaded = loaded if self._made_of is None else self._made_of(name, loaded)
            return self._entries.setdefault(name, loaded)
        raise UnknownName(f"unknown {self.kind} {name!r}", hint=did_you_mean(name, self) or self._listing())

    def get(self, name: str) -> T | None:
        return self[name] if name in self else None  # noqa: SIM401 (this is `get`)

    def get_installed(self, name: str) -> T | None:
        """The entry, or None where the module that it lives in is not there; a package that *it* lacks is an error."""
        try:
            return self[name]
        except MissingPackage as error:
            missing = getattr(error.__cause__, "name", None)
            if f"{self._lazy[name].partition(':')[0]}.".startswith(f"{missing}."):
                return None
            raise

    def home(self, name: str) -> str:
        """Where an entry comes from, `module:attribute` where it is known; nothing is imported to find out."""
        if name in self._lazy:
            return self._lazy[name]
        entry = self._entries[name]
        owner = entry if hasattr(entry, "__qualname__") else type(entry)
        return f"{owner.__module__}:{getattr(entry, '__qualname__', name)}"

    def __contains__(self, name: object) -> bool:
        if name in self._entries or name in self._lazy:
            return True
        self._read_plugins()
        return name in self._lazy

    def __iter__(self) -> Iterator[str]:
        self._read_plugins()
        return iter(sorted(self._entries.keys() | self._lazy.keys()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _listing(self) -> str:
        return f"Known: {', '.join(self)}." if len(self) else f"No {self.kind} is registered."

    def _read_plugins(self) -> None:
        if self._plugins_read:
            return
        self._plugins_read = True
        for group in self._groups:
            for point in entry_points(group=group):
                self._lazy.setdefault(point.name, point.value)


def load_object(target: str, *, kind: str = "object") -> object:
    """Import `"module:attribute"`; the error says which package is missing."""
    module_name, _, attribute = target.partition(":")
    try:
        target_object: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise missing_package(f"the {kind} {target!r}", error) from error
    for part in attribute.split("."):
        if not hasattr(target_object, part):
            raise ConfigError(f"the {kind} {target!r} does not exist: {module_name} has no {part!r}")
        target_object = getattr(target_object, part)
    return target_object


def missing_package(what: str, error: ModuleNotFoundError) -> MissingPackage:
    package = (error.name or "").partition(".")[0]
    return MissingPackage(
        f"{what} needs the package {error.name!r}, which is not installed",
        hint=install_hint(EXTRA_OF_PACKAGE[package]) if package in EXTRA_OF_PACKAGE else f"pip install {package}",
        package=package,
    )
