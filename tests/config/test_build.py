"""Mappings to typed configs: loose forms, unknown keys, and errors that name the line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from assay.config import (
    ConfigWarning,
    FunctionRef,
    build_group_config,
    build_task_config,
    load_yaml,
    split_group,
)
from assay.errors import ConfigError

TASK: dict[str, Any] = {"task": "t", "dataset_path": "d", "test_split": "test"}


def build_file(path: Path) -> Any:
    loaded = load_yaml(path)
    return build_task_config(loaded.data, loaded.origins)


def test_loose_forms_become_lists() -> None:
    config = build_task_config(
        {**TASK, "tag": "a", "metric_list": {"metric": "acc"}, "filter_list": {"name": "f", "filter": "take_first"}}
    )
    assert config.tag == ["a"]
    assert config.metric_list is not None
    assert [metric.name for metric in config.metric_list] == ["acc"]
    assert config.filter_list is not None
    assert config.filter_list[0].filter[0].function == "take_first"


def test_other_keys_of_a_metric_are_its_arguments() -> None:
    config = build_task_config({**TASK, "metric_list": [{"metric": "exact_match", "ignore_case": True}]})
    assert config.metric_list is not None
    assert config.metric_list[0].kwargs == {"ignore_case": True}


def test_generation_defaults_are_greedy_up_to_the_fewshot_delimiter() -> None:
    kwargs = build_task_config({**TASK, "fewshot_delimiter": "\n"}).generation_kwargs
    assert kwargs == {"until": ["\n"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 256}


@pytest.mark.parametrize(("written", "shown"), [("null", "None"), ("hot", "'hot'"), ("[1]", r"\[1\]")])
def test_a_temperature_that_is_no_number_is_named_with_its_line(tmp_path: Path, written: str, shown: str) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(f"task: t\ndataset_path: d\ngeneration_kwargs:\n  temperature: {written}\n")
    with pytest.raises(
        ConfigError, match=rf"task\.yaml:3: .*generation_kwargs: temperature is {shown}, expected a number"
    ):
        build_file(path)
    path.write_text("task: t\ndataset_path: d\ngeneration_kwargs: {temperature: '0.5', top_p: 1}\n")
    assert build_file(path).generation_kwargs == {"temperature": 0.5, "top_p": 1, "until": ["\n\n"]}


def test_a_description_left_empty_is_none(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("task: t\ndataset_path: d\ndescription:\n")
    assert build_file(path).description == ""


def test_an_unknown_key_names_file_line_and_the_nearest_key(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.write_text("dataset_path: d\ndoc_to_txt: x\n")
    path = tmp_path / "task.yaml"
    path.write_text("task: t\ninclude: base\n")
    with pytest.raises(ConfigError) as caught:
        build_file(path)
    assert f"{base}:2: task 't': unknown key 'doc_to_txt'" in str(caught.value)
    assert "Did you mean doc_to_text" in str(caught.value)


def test_a_wrong_value_names_the_line_inside_the_field(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("task: t\nfewshot_config:\n  sampler: first_n\n  fewshot_indices: all\n")
    with pytest.raises(ConfigError, match=r"task.yaml:4: task 't': fewshot_config.fewshot_indices: .*list.*'all'"):
        build_file(path)


def test_a_missing_field_of_an_entry_is_named(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("task: t\nmetric_list:\n  - aggregation: mean\n")
    with pytest.raises(ConfigError, match=r"task.yaml:3: task 't': metric_list.0.metric: is missing"):
        build_file(path)


def test_a_misspelt_key_deep_inside_gets_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("task: t\nfewshot_config: {samplr: first_n}\n")
    with pytest.raises(ConfigError, match="Did you mean sampler"):
        build_file(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("output_type", "multiple_choise"),
        ("repeats", 0),
        ("num_fewshot", "five"),
        ("metadata", 3.5),
        ("generation_kwargs", [1]),
    ],
)
def test_wrong_values(field: str, value: Any) -> None:
    if field == "metadata":
        # A bare version is what many old files have there.
        assert build_task_config({**TASK, field: value}).metadata == {"_metadata": 3.5}
    else:
        with pytest.raises(ConfigError, match=field):
            build_task_config({**TASK, field: value})


def test_known_slips_of_published_files_warn_and_are_read_as_meant() -> None:
    entry = {"metric": "acc", "high_is_better": False, "weight_by_size": True}
    with pytest.warns(ConfigWarning) as caught:
        config = build_task_config({**TASK, "metric_list": [entry]})
    assert len(caught) == 2
    assert config.metric_list is not None
    assert config.metric_list[0].higher_is_better is False
    assert config.metric_list[0].kwargs == {}


def test_a_truthy_word_for_weight_by_size_warns() -> None:
    with pytest.warns(ConfigWarning, match="truez is treated as true"):
        config = build_group_config(
            {"group": "g", "aggregate_metric_list": [{"metric": "acc", "weight_by_size": "truez"}]}
        )
    assert config.aggregate_metric_list is not None
    assert config.aggregate_metric_list[0].weight_by_size is True


def test_a_class_task_keeps_the_keys_that_only_its_class_knows() -> None:
    config = build_task_config({"task": "t", "class": FunctionRef("task.Unitxt"), "recipe": "card=x"})
    assert config.class_config == {"recipe": "card=x"}


def test_a_group_keeps_its_own_fields_and_passes_on_the_rest() -> None:
    own, inherited = split_group({"group": "g", "task": ["a"], "num_fewshot": 5, "metadata": {"version": 1}})
    assert own == {"group": "g", "task": ["a"], "metadata": {"version": 1}}
    assert inherited == {"num_fewshot": 5}


def test_a_key_that_is_neither_the_groups_nor_the_childrens() -> None:
    with pytest.raises(ConfigError, match="Did you mean num_fewshot"):
        split_group({"group": "g", "num_fewshots": 5})


def test_a_metric_given_as_function_aggregates_under_its_name() -> None:
    config = build_group_config({"group": "g", "aggregate_metric_list": {"metric": FunctionRef("bleu.smoothed")}})
    assert config.aggregate_metric_list is not None
    assert config.aggregate_metric_list[0].metric == "smoothed"


def test_our_own_fields_are_accepted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_task_config({**TASK, "style": "mc", "reducer": "mean", "cluster": "passage", "language": "German"})
        build_group_config(
            {
                "group": "g",
                "task": [{"task": "a", "if": "model.params > 1"}],
                "aggregate_metric_list": [{"metric": "acc", "over": "subgroups", "missing": "skip"}],
                "group_filter": {"function": "top_k", "k": 2},
                "scorer": FunctionRef("m.f"),
                "metadata": {"description": "x", "difficulty": "hard", "domain": "d", "citation": "c", "version": 1},
            }
        )
