"""What people type from habit with another harness: taken where it means something here, else answered with what to
type instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import click

from assay.cli.output import echo
from assay.registry import Registry


class ForeignFlags:
    """The command line of another harness. This one is that of none: nothing is translated."""

    def add_verb(self, arguments: Sequence[str]) -> list[str]:
        """The arguments with the verb that they lack."""
        return [*arguments]

    def repeat_flags(self, arguments: Sequence[str], repeatable: Collection[str]) -> list[str]:
        """`--tasks a b` as `--tasks a --tasks b`."""
        return [*arguments]

    def unneeded(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """The arguments without the flags that there is no need of here, and a note for each that was left out."""
        return [*arguments], []

    def not_needed(self, flag: str) -> str | None:
        """Why there is no need of a flag here."""
        return None

    def instead(self, flag: str) -> str | None:
        """What to type instead of a flag that there is not here."""
        return None

    def check_output_path(self, path: str) -> None:
        """Refuse a path that means something else there."""


FOREIGN_FLAGS: Registry[ForeignFlags] = Registry(
    "foreign command line", lazy={"lm_eval": "assay.compat.lm_eval.flags:LM_EVAL_FLAGS"}
)


def foreign_flags() -> ForeignFlags:
    return FOREIGN_FLAGS.get_installed("lm_eval") or ForeignFlags()


class RunCommand(click.Command):
    """A verb with the flags of a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [each for each in self.params if isinstance(each, click.Option) and each.multiple]
        repeatable = {flag for option in options for flag in option.opts}
        kept, notes = foreign_flags().unneeded(args)
        for note in notes:
            echo(f"note: {note}", err=True)
        return super().parse_args(ctx, foreign_flags().repeat_flags(kept, repeatable))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags that people use first, then the others under headings."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", _OF_VERB), []).append(record)
        for section, records in sorted(sections.items(), key=lambda item: (item[0] != "", item[0] != _OF_VERB)):
            with formatter.section(section or "Options"):
                formatter.write_dl(records)


_OF_VERB = "Output and more"
