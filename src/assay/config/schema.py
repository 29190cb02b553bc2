"""JSON Schema of task and group files, made from the models, so that an editor knows what the loader knows."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from assay.config.ci import OPTION_SECTIONS, CIConfig
from assay.config.group import GroupConfig
from assay.config.task import TaskConfig, as_list

_FUNCTION: JsonSchemaValue = {"type": "string", "description": "!function module.name"}
_NAME_OR_MAPPING = ("MetricConfig", "FilterStep", "AggMetricConfig", "ScorerConfig")
"""Entries that may be a bare name instead of a mapping."""
_TAKES_ARGUMENTS = ("MetricConfig", "FilterStep", "ScorerConfig")
"""Entries whose further keys are arguments."""


class _FileSchema(GenerateJsonSchema):
    """What may stand in a file, which is looser than what the model holds."""

    def callable_schema(self, schema: Any) -> JsonSchemaValue:
        return _FUNCTION

    def is_instance_schema(self, schema: Any) -> JsonSchemaValue:
        return _FUNCTION

    def function_before_schema(self, schema: Any) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        if schema["function"]["function"] is as_list and inner.get("type") == "array":
            return {"anyOf": [inner["items"], inner]}
        return inner


def _ci_schema() -> dict[str, Any]:
    """Rules are texts in the file, and verbs have sections of their own."""
    ci = CIConfig.model_json_schema()
    ci["$defs"].pop("CIRule")
    ci["properties"]["rules"]["items"] = {"type": "string", "description": "arc_easy acc: not worse than 0.01"}
    for verb in OPTION_SECTIONS:
        options = {"type": "object", "description": f"Options of `assay {verb}`."}
        stated = ci["properties"].get(verb)
        ci["properties"][verb] = options if stated is None else {"anyOf": [stated, options]}
    return _titled(ci, "assay.yaml: rules for continuous integration")


def file_schema(kind: str) -> dict[str, Any]:
    """The schema of a `task`, `group` or `ci` file."""
    if kind == "ci":
        return _ci_schema()
    task = _generate(TaskConfig)
    include = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    task["properties"].pop("class_config")
    task["properties"]["include"] = {**include, "description": "Files whose keys this one builds on."}
    if kind == "task":
        task["properties"]["group"] = {"type": "string"}
        # A Python task may read keys of its own.
        task["if"], task["then"], task["else"] = (
            {"required": ["class"]},
            {},
            {"propertyNames": {"enum": sorted(task["properties"])}},
        )
        del task["additionalProperties"]
        return _titled(task, "An assay task file")
    group = _generate(GroupConfig)
    # What is not a group's own key is every child's.
    group["properties"] = {**task["properties"], **group["properties"]}
    group["$defs"] = {**task.get("$defs", {}), **group.get("$defs", {})}
    return _titled(group, "An assay group file")


def _generate(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    for name in _NAME_OR_MAPPING:
        entry = schema.get("$defs", {}).get(name)
        if entry is not None:
            if name in _TAKES_ARGUMENTS:
                entry["additionalProperties"] = True
            schema["$defs"][name] = {"anyOf": [{"type": "string"}, entry]}
    return schema


def _titled(schema: dict[str, Any], title: str) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
