"""Merged mappings to typed configs, with errors that name the file and line of the field at fault; and the JSON Schema of such
files, made from the models, so that an editor knows what the loader knows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from assay.config.ci import OPTION_SECTIONS, CIConfig
from assay.config.group import AggMetricConfig, GroupConfig, GroupFilter
from assay.config.loader import Origin, locate
from assay.config.task import FewshotConfig, FilterConfig, TaskConfig, as_list
from assay.errors import ConfigError, ConfigWarning, did_you_mean

M = TypeVar("M", bound=BaseModel)


STRUCTURAL_KEYS = frozenset({"group", "include", "task_list"})
"""Keys of a task file that place it among others and are no part of the task."""

FILE_FORMATS = frozenset({"json", "csv", "parquet", "text", "arrow"})
"""Values of `dataset_path` that name a file format (a loader of the `datasets` library) and not a dataset of the hub."""

NOT_IN_FILES = frozenset({"class_config", "form_stops", "is_own"})
"""Fields of a task's config that its file cannot set."""
TASK_KEYS = frozenset(field.alias or name for name, field in TaskConfig.model_fields.items()) - NOT_IN_FILES
GROUP_KEYS = frozenset(GroupConfig.model_fields)


def build_task_config(
    data: Mapping[str, Any], origins: Mapping[str, Origin] | None = None, *, name: str | None = None
) -> TaskConfig:
    """The typed task; `name` is used in messages and where the file gives none."""
    origins = origins or {}
    fields = {key: value for key, value in data.items() if key not in STRUCTURAL_KEYS}
    if isinstance(repeated := fields.get("repeat_cfg"), dict):  # the same two fields, in one
        unknown = [key for key in repeated if key not in ("repeats", "reducer")]
        if unknown:
            raise _unknown_key(
                unknown[0],
                {**origins, unknown[0]: origins["repeat_cfg"]} if "repeat_cfg" in origins else {},
                "task",
                frozenset({"repeats", "reducer"}),
                fields.get("task"),
            )
        fields = {**{key: value for key, value in fields.items() if key != "repeat_cfg"}, **repeated}
    if name is not None:
        fields.setdefault("task", name)
    unknown = [key for key in fields if key not in TASK_KEYS]
    if "class" in fields:
        # A Python task reads keys of its own from its config; they are handed to the class untouched.
        fields["class_config"] = {key: fields.pop(key) for key in unknown}
    else:
        for key in unknown:
            raise _unknown_key(key, origins, "task", TASK_KEYS, fields.get("task"))
    if origin := origins.get("dataset_kwargs"):
        folder = origin.path.parent
        fields["dataset_kwargs"] = locate_data_files(fields.get("dataset_path"), fields["dataset_kwargs"], folder)
    if (origin := origins.get("scorer")) and isinstance(fields["scorer"], dict):
        fields["scorer"] = _locate_settings(fields["scorer"], origin.path.parent)
    metadata = fields.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        fields["metadata"] = {"_metadata": metadata}
    if isinstance(fields.get("metric_list"), list):
        fields["metric_list"] = [_repair_metric(entry, origins) for entry in fields["metric_list"]]
    return _validate(TaskConfig, fields, origins, "task", fields.get("task"))


def locate_data_files(dataset_path: Any, kwargs: Any, folder: Path) -> Any:
    """`data_files` that lie beside the task file as absolute paths; others are left to the working directory."""
    files = kwargs.get("data_files") if isinstance(kwargs, Mapping) else None
    if dataset_path not in FILE_FORMATS or files is None:
        return kwargs

    def absolute(given: Any) -> Any:
        if isinstance(given, Mapping):
            return {split: absolute(file) for split, file in given.items()}
        if isinstance(given, list):
            return [absolute(file) for file in given]
        return str(folder / given) if isinstance(given, str) and (folder / given).is_file() else given

    return {**kwargs, "data_files": absolute(files)}


def _locate_settings(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Files of a scorer that lie beside the task file as absolute paths; others are left to the working directory."""
    located = {}
    for key, value in settings.items():
        beside = key in ("labels", "opponent") and isinstance(value, str) and (folder / value).exists()
        located[key] = str(folder / value) if beside else value
    return located


def build_group_config(data: Mapping[str, Any], origins: Mapping[str, Origin] | None = None) -> GroupConfig:
    """The typed group. Keys that do not belong to a group go to its children; see `split_group`."""
    origins = origins or {}
    fields = {key: value for key, value in data.items() if key in GROUP_KEYS}
    entries = fields.get("aggregate_metric_list")
    if isinstance(entries, list):
        fields["aggregate_metric_list"] = [_repair_aggregate(entry, origins) for entry in entries]
    elif isinstance(entries, dict):
        fields["aggregate_metric_list"] = [_repair_aggregate(entries, origins)]
    metadata = fields.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        fields["metadata"] = {"_metadata": metadata}
    return _validate(GroupConfig, fields, origins, "group", fields.get("group"))


def split_group(
    data: Mapping[str, Any], origins: Mapping[str, Origin] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A group file's own fields, and those that every child inherits; a key that is neither is an error.

    `include` may also be a mapping, whose fields are the children's. A `scorer` is the group's own, but the children's
    where it comes through `include`.
    """
    origins = origins or {}
    given = data.get("include")
    included = given if isinstance(given, Mapping) else {}
    theirs = {key for key in GROUP_KEYS & {"scorer"} if _is_included(key, origins)}
    own = {key: value for key, value in data.items() if key in GROUP_KEYS - theirs}
    direct = {key: value for key, value in data.items() if key not in own and key not in STRUCTURAL_KEYS}
    for key in {**included, **direct}:
        if key not in TASK_KEYS:
            raise _unknown_key(key, origins, "group", GROUP_KEYS | TASK_KEYS, data.get("group"))
    return own, {**included, **direct}


def _is_included(key: str, origins: Mapping[str, Origin]) -> bool:
    """Whether another file than the group's own set the field."""
    own, here = origins.get("group"), origins.get(key)
    return own is not None and here is not None and here.path != own.path


def _unknown_key(
    key: str, origins: Mapping[str, Origin], kind: str, known: frozenset[str], name: object
) -> ConfigError:
    return ConfigError(
        f"{_place(origins.get(key))}{kind} {name!r}: unknown key {key!r}",
        hint=did_you_mean(key, known) or f"`assay show --schema {kind}` lists the keys of a {kind} file.",
    )


def _place(origin: Origin | None) -> str:
    return f"{origin}: " if origin else ""


def _validate(model: type[M], fields: dict[str, Any], origins: Mapping[str, Origin], kind: str, name: object) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = _own_location(fields, first["loc"])
        origin = locate(origins.get(str(location[0])) if location else None, location)
        field = ".".join(str(part) for part in location) or "config"
        raise ConfigError(
            f"{_place(origin)}{kind} {name!r}: {field}: {_reason(first)}", hint=_hint(first, location, model)
        ) from None


def _own_location(fields: Any, location: tuple[Any, ...]) -> tuple[Any, ...]:
    """The part of pydantic's location that is a path into the data: union branches and function names are left out."""
    path: list[Any] = []
    for part in location:
        try:
            fields = fields[part]
        except (KeyError, IndexError, TypeError):
            # A missing field is not in the data, but its name says what to add.
            if part == location[-1] and isinstance(fields, dict) and isinstance(part, str):
                path.append(part)
            continue
        path.append(part)
    return tuple(path)


def _reason(error: Any) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "extra_forbidden":
        return "is not a known key"
    if error["type"].startswith("assertion") or error["type"] == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    shown = repr(error["input"])
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, found {shown if len(shown) < 60 else shown[:57] + '...'}"


def _hint(error: Any, location: tuple[Any, ...], model: type[BaseModel]) -> str | None:
    if error["type"] != "extra_forbidden" or not location:
        return None
    nested = (FewshotConfig, FilterConfig) if model is TaskConfig else (AggMetricConfig, GroupFilter)
    return did_you_mean(str(location[-1]), {name for config in (model, *nested) for name in config.model_fields})


def _repair_metric(entry: Any, origins: Mapping[str, Origin]) -> Any:
    """Known slips of published task files. Both would otherwise be handed to the metric as arguments."""
    if not isinstance(entry, dict):
        return entry
    repaired = dict(entry)
    if "high_is_better" in repaired:
        _warn(origins.get("metric_list"), "metric_list: high_is_better is treated as higher_is_better")
        repaired.setdefault("higher_is_better", repaired.pop("high_is_better"))
        repaired.pop("high_is_better", None)
    if "weight_by_size" in repaired:
        _warn(
            origins.get("metric_list"),
            "metric_list: weight_by_size belongs in a group's aggregate_metric_list; ignored",
        )
        del repaired["weight_by_size"]
    return repaired


def _repair_aggregate(entry: Any, origins: Mapping[str, Origin]) -> Any:
    weight = entry.get("weight_by_size") if isinstance(entry, dict) else None
    if isinstance(weight, str) and weight.lower() not in {"true", "false", "yes", "no", "on", "off"}:
        _warn(
            origins.get("aggregate_metric_list"), f"aggregate_metric_list: weight_by_size: {weight} is treated as true"
        )
        return {**entry, "weight_by_size": True}
    return entry


def _warn(origin: Origin | None, message: str) -> None:
    warnings.warn(f"{_place(origin)}{message}", ConfigWarning, stacklevel=2)


_FUNCTION: JsonSchemaValue = {"type": "string", "description": "!function module.name"}
_NAME_OR_MAPPING = ("MetricConfig", "FilterStep", "AggMetricConfig", "ScorerConfig", "ToolConfig")
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
    for name in NOT_IN_FILES:
        task["properties"].pop(name)
    both = {name: task["properties"][name] for name in ("repeats", "reducer")}
    said = "The two fields of that name, in one."
    task["properties"]["repeat_cfg"] = {"type": "object", "properties": both, "description": said}
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
    if "FunctionRef" in schema.get("$defs", {}):
        schema["$defs"]["FunctionRef"] = _FUNCTION
    return schema


def _titled(schema: dict[str, Any], title: str) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
