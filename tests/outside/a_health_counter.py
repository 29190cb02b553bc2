"""Answers that begin with an apology."""

from assay.results import HealthCounter

APOLOGETIC = HealthCounter(
    "apologetic",
    "an answer begins with an apology",
    find=lambda instance: any(text.startswith("I'm sorry") for text in instance.resps),
    of_text=True,
)
