"""The JSON Schema of what gates write."""

from __future__ import annotations

from typing import Any

_TEXT, _NUMBER = {"type": ["string", "null"]}, {"type": ["number", "null"]}
_OUTCOME = {"enum": ["passed", "failed", "cannot tell"]}
GATE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A gate's report: `assay gate --report FILE`, `assay ci`",
    "type": "object",
    "required": ["passed", "outcome", "checks", "notes"],
    "properties": {
        "format": {"const": 1},
        "title": _TEXT,
        "link": _TEXT,
        "passed": {"type": "boolean"},
        "outcome": {**_OUTCOME, "description": "One failed check outweighs others that cannot tell."},
        "notes": {"type": "array", "items": {"type": "string"}},
        "checks": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "key", "outcome", "kind", "result", "value", "against", "n", "rule", "reason"],
                "properties": {
                    "name": {"type": "string", "description": "Task or group."},
                    "key": {"type": "string", "description": "metric,filter; empty for a whole task."},
                    "rule": {"type": "string", "description": "As written in assay.yaml; empty for `assay gate`."},
                    "outcome": _OUTCOME,
                    "reason": {"type": "string", "description": "What was measured and required, in words."},
                    "kind": {"type": "string", "description": "paired, unpaired, threshold, newly wrong, or why not."},
                    "value": _NUMBER,
                    "against": {**_NUMBER, "description": "The baseline's value."},
                    "n": {"type": "integer"},
                    "result": {
                        "type": "object",
                        "required": ["passed", "bound", "limit", "alpha", "unclear", "docs_needed"],
                        "properties": {
                            "passed": {"type": "boolean"},
                            "bound": {
                                **_NUMBER,
                                "description": "The worst value that the data allow at this error rate.",
                            },
                            "limit": {"type": "number"},
                            "alpha": {"type": "number"},
                            "unclear": {"type": "boolean"},
                            "best": {
                                "type": ["number", "null"],
                                "description": "The best value that the data allow; beyond the limit, the check has failed.",
                            },
                            "docs_needed": {"type": ["integer", "null"]},
                        },
                    },
                },
            },
        },
    },
}
