"""Datasets of lm-evaluation-harness's tasks that were loaded by a script, which `datasets` no longer runs, and what stands for them.

The rule for all of them is the hub's own Parquet conversion. Where the conversion is missing, or a copy was compared with the
original, a successor is named. `SCRIPTS` were seen to fail with "Dataset scripts are no longer supported" (lm-evaluation-harness,
issue 3171); a path that is not listed falls under the same rule as soon as its repository turns out to hold a script.
"""

from __future__ import annotations

from dataclasses import dataclass

SCRIPTS = frozenset(
    [
        "CogComp/mc_taco",
        "EleutherAI/advanced_ai_risk",
        "EleutherAI/arithmetic",
        "EleutherAI/hendrycks_ethics",
        "EleutherAI/logiqa",
        "EleutherAI/mutual",
        "EleutherAI/persona",
        "EleutherAI/pile",
        "EleutherAI/sycophancy",
        "EleutherAI/unscramble",
        "allenai/math_qa",
        "allenai/qasper",
        "allenai/social_i_qa",
        "asi/wikitext_fr",
        "baber/logiqa2",
        "bigbio/meddialog",
        "bigbio/mediqa_qa",
        "bigbio/meqsum",
        "bigbio/pubmed_qa",
        "corypaik/prost",
        "csebuetnlp/xlsum",
        "demelin/moral_stories",
        "tau/scrolls",
        "winograd_wsc",
    ]
)


@dataclass(frozen=True)
class Successor:
    """A dataset that holds the same rows without a script."""

    path: str
    name: str | None = None
    """The config there, where it is called otherwise."""
    drops_name: bool = False
    """Whether the successor has one config without a name."""
    source: str = ""
    """Who compared the two."""


SUCCESSORS = {
    "math_qa": Successor("regisss/math_qa", source="lm-evaluation-harness, pull request 3943: all rows equal"),
    "allenai/math_qa": Successor("regisss/math_qa", source="lm-evaluation-harness, pull request 3943: all rows equal"),
    "allenai/social_i_qa": Successor(
        "lighteval/siqa", source="lm-evaluation-harness, pull request 3943: all rows equal"
    ),
    "demelin/moral_stories": Successor(
        "LabHC/moral_stories",
        drops_name=True,
        source="lm-evaluation-harness, pull request 3943: rows of the config `full` equal",
    ),
    "winograd_wsc": Successor(
        "lighteval/winograd_wsc", source="lm-evaluation-harness, pull request 3946: all 273 rows of wsc273 equal"
    ),
}
RENAMED = {
    "blimp": "nyu-mll/blimp",
    "medmcqa": "openlifescienceai/medmcqa",
    "paws-x": "google-research-datasets/paws-x",
    "truthful_qa": "truthfulqa/truthful_qa",
    "web_questions": "stanfordnlp/web_questions",
    "wmt16": "wmt/wmt16",
    "xcopa": "cambridgeltl/xcopa",
    "xnli": "facebook/xnli",
    "xquad": "google/xquad",
}
"""Names without an owner that the hub used to forward; later task files of lm-evaluation-harness name the new place themselves."""
