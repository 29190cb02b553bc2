"""How tasks are named, `[group::]…task[@format][:variant]…`: taken apart and put together here, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from assay.errors import UnknownName, did_you_mean
from assay.tasks.index import Entry

_SINGLE_COLON = re.compile(r"(?<!:):(?!:)")


class Names:
    """The registered names, and what a name with a format and variants after it means among them.

    What follows a name is kept as its parts, formats with their `@`: `arc_easy@mcqa:5shot` is `arc_easy`, `("@mcqa",
    "5shot")`.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = entries

    def find(self, name: str, *, place: str = "") -> tuple[Entry, tuple[str, ...]]:
        """The entry, and what follows the name."""
        parts = self.split(name)
        if parts is None:
            raise UnknownName(
                f"{place}there is no task, group or tag named {name!r}",
                hint=did_you_mean(name, self.entries) or "`assay ls` lists them; --include_path adds a directory.",
            )
        return self.entries[parts[0]], parts[1]

    def split(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """The registered name, and what follows it: `@format` of lm-evaluation-harness 0.5, then `:variant` of ours."""
        if name in self.entries:
            return name, ()
        base, *variant = _SINGLE_COLON.split(name)
        if base in self.entries:
            return base, tuple(variant)
        plain, *formats = _split_format(base)
        if formats and plain in self.entries:
            return plain, (*formats, *variant)
        # A file may choose for itself (`task: arc_easy@cloze`); it is the task's only one, so the bare name means it too.
        own = [each for each in self._with_format if each.startswith(f"{plain}@")]
        return (own[0], (*formats, *variant)) if len(own) == 1 else None

    @cached_property
    def _with_format(self) -> list[str]:
        return [name for name in self.entries if "@" in name]

    def is_path(self, name: object) -> bool:
        """Whether it names a member of a group by the groups above it."""
        return isinstance(name, str) and "::" in name and self.split(name) is None


def split_path(path: str) -> tuple[str, list[str], tuple[str, ...]]:
    """
    >>> split_path("mmlu::stem::physics@mcqa:5shot")
    ('mmlu', ['stem', 'physics'], ('@mcqa', '5shot'))
    """
    base, *variant = _SINGLE_COLON.split(path)
    plain, *formats = _split_format(base)
    head, *parts = plain.split("::")
    return head, parts, (*formats, *variant)


def _split_format(base: str) -> list[str]:
    """
    >>> _split_format("arc_easy@mcqa"), _split_format("arc_easy")
    (['arc_easy', '@mcqa'], ['arc_easy'])
    """
    plain, at, chosen = base.rpartition("@")
    return [plain, f"@{chosen}"] if at else [base]


def with_variant(name: str, variant: tuple[str, ...]) -> str:
    """
    >>> with_variant("arc_easy", ("@mcqa", "5shot")), with_variant("arc_easy@cloze", ("@mcqa", "@cot"))
    ('arc_easy@mcqa:5shot', 'arc_easy@cot')
    """
    formats = [part for part in variant if part.startswith("@")]
    base = f"{name.rpartition('@')[0] or name}{formats[-1]}" if formats else name
    return ":".join((base, *(part for part in variant if not part.startswith("@"))))
