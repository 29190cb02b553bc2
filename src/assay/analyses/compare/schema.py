"""The JSON Schema of what comparisons write."""

from __future__ import annotations

from typing import Any

_TEXT, _NUMBER = {"type": ["string", "null"]}, {"type": ["number", "null"]}
_RUN = {
    "type": "object",
    "required": ["path", "model", "format"],
    "properties": {name: {"type": "string"} for name in ("path", "model", "format")},
}
COMPARISON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What a comparison found: `assay compare --report FILE`",
    "type": "object",
    "required": ["format", "comparisons"],
    "properties": {
        "format": {"const": 1},
        "link": _TEXT,
        "comparisons": {
            "type": "array",
            "description": "Every further run (b) against the first (a).",
            "items": {
                "type": "object",
                "required": ["a", "b", "alpha", "rows", "not_compared"],
                "properties": {
                    "a": _RUN,
                    "b": _RUN,
                    "alpha": {"type": "number"},
                    "tests_corrected_for": {"type": "integer"},
                    "rows": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": [
                                "name",
                                "metric",
                                "filter",
                                "a",
                                "b",
                                "difference",
                                "low",
                                "high",
                                "n",
                                "verdict",
                            ],
                            "properties": {
                                "name": {"type": "string", "description": "Task or group."},
                                "kind": {"enum": ["task", "group"]},
                                "metric": {"type": "string"},
                                "filter": {"type": "string"},
                                "a": _NUMBER,
                                "b": _NUMBER,
                                "difference": {**_NUMBER, "description": "b less a."},
                                "stderr": _NUMBER,
                                "low": {**_NUMBER, "description": "Holds together with the intervals of all rows."},
                                "high": _NUMBER,
                                "level": {"type": "number"},
                                "alone": {
                                    "type": "object",
                                    "description": "The interval of this row by itself.",
                                    "properties": {"low": _NUMBER, "high": _NUMBER, "level": {"type": "number"}},
                                },
                                "n": {"type": "integer"},
                                "paired": {"type": "boolean"},
                                "verdict": {"enum": ["better", "worse", "equivalent", "same", "undecided", None]},
                                "notes": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                    },
                    "not_compared": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name", "reason"],
                            "properties": {"name": {"type": "string"}, "reason": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
}
