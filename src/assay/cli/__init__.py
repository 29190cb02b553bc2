"""Arguments to calls: one module a verb, loaded when the verb is used."""

from assay.cli.entry import main
from assay.cli.foreign_flags import ForeignFlags

__all__ = ["ForeignFlags", "main"]
