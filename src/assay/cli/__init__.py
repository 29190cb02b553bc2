"""Words to calls: one module a verb, loaded when the verb is used."""

from assay.cli.main import main

__all__ = ["main"]
