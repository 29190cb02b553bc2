"""`assay fetch`: exactly the files that are needed, whole and right, from a hub that is busy, breaks off, or lies."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data.fake_hub import FakeHub, serving

from assay.cli.entry import main
from assay.data import (
    DatasetNeed,
    DataSource,
    FoundDataset,
    HubClient,
    check_mirror,
    fill_mirror,
    find_dataset,
    find_model,
)
from assay.data.hub import safe_path
from assay.data.mirror import read_manifest
from assay.errors import ConfigError, DataError

ROWS = "".join(json.dumps({"q": f"question {i}", "a": i}) + "\n" for i in range(100))
CARD = """---
configs:
- config_name: main
  data_files:
  - split: test
    path: main/test-*.parquet
  - split: train
    path: main/train.parquet
---
A card.
"""


def parquet(rows: int, start: int = 0) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table({"q": [f"q{i}" for i in range(start, start + rows)], "a": list(range(rows))}), out)
    return out.getvalue()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serving() as made:
        made.add("own/plain", {"README.md": "no card", "test.jsonl": ROWS, "train.jsonl": ROWS, "notes.pdf": "x"})
        shards = {"main/test-00000-of-00002.parquet": parquet(3), "main/test-00001-of-00002.parquet": parquet(4, 3)}
        made.add(
            "own/shards", {"README.md": CARD, **shards, "main/train.parquet": parquet(9), "old/test.csv": "q\nx\n"}
        )
        made.add("old/scripted", {"scripted.py": "raise SystemExit", "README.md": "x"})
        made.add(
            "old/scripted",
            {"en/test/0000.parquet": parquet(5), "de/test/0000.parquet": parquet(6)},
            revision="refs/convert/parquet",
        )
        yield made


def client(hub: FakeHub, waits: list[float] | None = None, token: str | None = None) -> HubClient:
    return HubClient(hub.address, token, sleep=(waits if waits is not None else []).append)


def found(hub: FakeHub, path: str, name: str | None = None, *splits: str, **words: Any) -> FoundDataset:
    return find_dataset(client(hub), DatasetNeed(path, name, splits, **words))


def files_in(folder: Path) -> set[str]:
    """Without what lies there while it comes."""
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {file for file in files if not file.startswith(".fetching/")}


def test_only_the_files_of_the_wanted_splits_come(hub: FakeHub, tmp_path: Path) -> None:
    fill_mirror(
        tmp_path, [found(hub, "own/plain", None, "test"), found(hub, "own/shards", "main", "test")], client(hub)
    )
    assert files_in(tmp_path) == {
        "own/plain/default/test.jsonl",
        "own/shards/main/test-00000-of-00002.parquet",
        "own/shards/main/test-00001-of-00002.parquet",
        "manifest.json",
    }


def test_the_mirror_is_read_without_the_hub_and_says_where_it_is_from(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_mirror(tmp_path, [found(hub, "own/shards", "main", "test")], client(hub))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    source = DataSource("own/shards", "main", data_dir=tmp_path)
    assert [row["q"] for row in source["test"]] == [f"q{i}" for i in range(7)]
    about = source.provenance()
    assert (about["repo"], about["commit"]) == ("own/shards", hub.commit_of("dataset", "own/shards", "main"))


def test_a_dataset_of_a_script_comes_as_the_hubs_parquet_with_a_note(hub: FakeHub, tmp_path: Path) -> None:
    made = found(hub, "old/scripted", "de", "test")
    assert "loaded by a script" in (made.note or "")
    fill_mirror(tmp_path, [made], client(hub))
    assert files_in(tmp_path) == {"old/scripted/de/test.parquet", "manifest.json"}
    (record,) = read_manifest(tmp_path)["datasets"]
    assert record["revision"] == hub.commit_of("dataset", "old/scripted", "refs/convert/parquet")
    with pytest.raises(DataError, match="no config"):
        found(hub, "old/scripted", "fr", "test")


def test_a_script_without_a_conversion_has_a_successor(hub: FakeHub) -> None:
    hub.add("demelin/moral_stories", {"moral_stories.py": ""})
    hub.add("LabHC/moral_stories", {"train.parquet": parquet(2)})
    made = found(hub, "demelin/moral_stories", "full", "train")
    assert [each.target for each in made.files] == ["demelin/moral_stories/full/train.parquet"]
    assert "LabHC/moral_stories was used" in (made.note or "")


def test_a_name_without_owner_is_looked_for_at_its_new_place(hub: FakeHub) -> None:
    hub.add("facebook/xnli", {"de/test.jsonl": ROWS})
    made = found(hub, "xnli", "de", "test")
    assert [each.target for each in made.files] == ["xnli/de/test.jsonl"]
    assert "now called facebook/xnli" in (made.note or "")


def test_files_that_a_task_names_come_to_where_the_mirror_looks(hub: FakeHub, tmp_path: Path) -> None:
    need = found(hub, "json", None, data_files=("hf://datasets/own/plain@main/te*.jsonl",))
    fill_mirror(tmp_path, [need], client(hub))
    kwargs = {"data_files": {"test": "hf://datasets/own/plain@main/te*.jsonl"}}
    assert len(DataSource("json", None, kwargs, data_dir=tmp_path)["test"]) == 100


def test_a_second_go_fetches_only_what_is_missing_or_wrong(hub: FakeHub, tmp_path: Path) -> None:
    wanted = [found(hub, "own/plain", None, "test", "train")]
    fill_mirror(tmp_path, wanted, client(hub))
    hub.asked.clear()
    assert fill_mirror(tmp_path, wanted, client(hub)).kept == 2
    assert hub.downloads() == []
    (tmp_path / "own/plain/default/test.jsonl").write_text("x" * len(ROWS))
    assert check_mirror(tmp_path) == ["own/plain/default/test.jsonl differs from the file that was fetched"]
    fill_mirror(tmp_path, wanted, client(hub))
    assert hub.downloads() == ["test.jsonl"]
    assert check_mirror(tmp_path) == []
    (tmp_path / "own/plain/default/train.jsonl").unlink()
    assert check_mirror(tmp_path) == ["own/plain/default/train.jsonl is missing"]


@pytest.mark.parametrize("large", [1000, 10**6])
def test_a_body_that_is_cut_off_goes_on_where_it_broke(hub: FakeHub, tmp_path: Path, large: int) -> None:
    hub.large = large
    hub.faults["test.jsonl"] = ["cut"]
    fill_mirror(tmp_path, [found(hub, "own/plain", None, "test")], client(hub))
    assert (tmp_path / "own/plain/default/test.jsonl").read_text() == ROWS
    assert hub.downloads().count("test.jsonl") == 2


def test_a_card_that_is_cut_off_is_read_whole(hub: FakeHub) -> None:
    """Half of it names no configs, and the data files would be guessed."""
    whole = found(hub, "own/shards", "main", "test", "train")
    hub.faults["README.md"] = ["cut"]
    assert found(hub, "own/shards", "main", "test", "train") == whole


def test_what_fails_leaves_nothing_in_place_and_the_rest_stays(hub: FakeHub, tmp_path: Path) -> None:
    wanted = [found(hub, "own/plain", None, "test", "train")]
    hub.faults["test.jsonl"] = ["503"] * 3
    with pytest.raises(DataError, match="answers 503"):
        fill_mirror(tmp_path, wanted, client(hub))
    assert files_in(tmp_path) == {"own/plain/default/train.jsonl", "manifest.json"}
    hub.asked.clear()
    fill_mirror(tmp_path, wanted, client(hub))
    assert hub.downloads() == ["test.jsonl"]
    assert not (tmp_path / ".fetching").exists()


def test_a_fetch_that_was_killed_goes_on_with_what_is_missing(hub: FakeHub, own_tasks: Path, tmp_path: Path) -> None:
    hub.faults["0000.parquet"] = ["stall"]
    (own_tasks / "a.yaml").write_text(TASK.format(name="a", path="own/plain", more="training_split: train\n"))
    words = ["fetch", "a,b", "--to", str(tmp_path / "mirror"), "--include_path", str(own_tasks), "--no-defaults"]
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    command = [sys.executable, "-m", "assay", *words]
    process = subprocess.Popen(command, env={**environment, "HF_ENDPOINT": hub.address}, stderr=subprocess.DEVNULL)
    assert hub.stalled.wait(60)
    deadline = time.monotonic() + 30
    while not (tmp_path / "mirror/own/plain/default/test.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert files_in(tmp_path / "mirror") == {"own/plain/default/test.jsonl"}
    hub.asked.clear()
    assert code_of(*words) == 0
    assert [name for name in hub.downloads() if name != "README.md"] == ["0000.parquet"]
    assert files_in(tmp_path / "mirror") == {
        "own/plain/default/test.jsonl",
        "old/scripted/en/test.parquet",
        "manifest.json",
    }
    assert check_mirror(tmp_path / "mirror") == []


def test_the_fake_hub_is_understood_by_the_hubs_own_library(hub: FakeHub, tmp_path: Path) -> None:
    from huggingface_hub import HfApi, hf_hub_download

    api = HfApi(endpoint=hub.address)
    listed = [*api.list_repo_tree("own/plain", recursive=True, repo_type="dataset", revision="main")]
    assert {each.path for each in listed} == {"README.md", "notes.pdf", "test.jsonl", "train.jsonl"}
    for name, text in (("README.md", "no card"), ("test.jsonl", ROWS)):
        path = hf_hub_download(
            "own/plain", name, repo_type="dataset", endpoint=hub.address, cache_dir=tmp_path, token=False
        )
        assert Path(path).read_text() == text


def test_a_busy_hub_is_waited_for_as_long_as_it_says(hub: FakeHub, tmp_path: Path) -> None:
    waits: list[float] = []
    hub.faults |= {"test.jsonl": ["429", "503"], "api": ["429"]}
    asked = client(hub, waits)
    fill_mirror(tmp_path, [find_dataset(asked, DatasetNeed("own/plain", None, ("test",)))], asked)
    assert waits == [3.0, 1.0]
    assert check_mirror(tmp_path) == []


def test_a_hub_that_stays_busy_or_must_not_be_asked_is_said(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    hub.faults["api"] = ["503"] * 3
    with pytest.raises(DataError, match="answers 503"):
        client(hub, waits).commit("dataset", "own/plain", "main")
    assert waits == [3.0, 3.0]
    hub.faults["api"] = ["403"]
    with pytest.raises(DataError, match=r"registered users \(403\)"):
        client(hub, waits).commit("dataset", "own/plain", "main")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="cannot be fetched"):
        client(hub, waits).commit("dataset", "own/plain", "main")
    assert len(waits) == 2


def test_the_endpoint_is_read_when_the_hub_is_asked(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    assert hub.address != huggingface_hub.constants.ENDPOINT
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.address}/")
    commit = HubClient().commit("dataset", "own/plain", "main")
    assert HubClient().text("dataset", "own/plain", commit, "README.md") == "no card"


def test_a_wrong_hash_is_fetched_once_more_and_then_refused(hub: FakeHub, tmp_path: Path) -> None:
    wanted = [found(hub, "own/plain", None, "test", "train")]
    hub.faults["test.jsonl"] = ["wrong"]
    fill_mirror(tmp_path, wanted, client(hub))
    assert check_mirror(tmp_path) == []
    (tmp_path / "own/plain/default/test.jsonl").unlink()
    hub.faults["test.jsonl"] = ["wrong", "wrong"]
    with pytest.raises(DataError, match="did not match the hub"):
        fill_mirror(tmp_path, wanted, client(hub))
    assert files_in(tmp_path) == {"own/plain/default/train.jsonl", "manifest.json"}


def test_what_the_hub_does_not_have_is_said(hub: FakeHub) -> None:
    with pytest.raises(DataError, match="no dataset own/nothing"):
        found(hub, "own/nothing", None, "test")
    with pytest.raises(DataError, match="own/plain"):
        found(hub, "own/plain", None, "testing")


def test_lists_come_in_pages(hub: FakeHub) -> None:
    hub.page = 2
    commit = client(hub).commit("dataset", "own/shards", "main")
    assert len(client(hub).tree("dataset", "own/shards", commit)) == 5


@pytest.mark.parametrize("name", ["../x.jsonl", "/etc/x", "a/../../x", "a\\b", "C:x", "a//b", "a\nb", "", "a/./b"])
def test_names_of_the_hub_that_lead_elsewhere_are_refused(hub: FakeHub, name: str) -> None:
    with pytest.raises(DataError):
        safe_path(name)
    hub.add("own/plain", {name: "x"})
    with pytest.raises(DataError):
        found(hub, "own/plain", None, "test")


def test_a_link_in_the_mirror_is_not_followed(hub: FakeHub, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mirror = tmp_path / "mirror"
    (mirror / "own").mkdir(parents=True)
    (mirror / "own" / "plain").symlink_to(elsewhere)
    with pytest.raises(DataError, match="through a link"):
        fill_mirror(mirror, [found(hub, "own/plain", None, "test")], client(hub))
    assert files_in(elsewhere) == set()


def test_the_token_goes_to_the_hub_alone_and_into_no_file(hub: FakeHub, tmp_path: Path) -> None:
    asked = client(hub, token="hf_secret")
    fill_mirror(tmp_path, [find_dataset(asked, DatasetNeed("own/plain", None, ("test",)))], asked)
    assert hub.tokens == {("api", "Bearer hf_secret"), ("resolve", "Bearer hf_secret"), ("store", None)}
    assert all(b"hf_secret" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_model_comes_without_code_and_copies(hub: FakeHub, tmp_path: Path) -> None:
    files = {"config.json": "{}", "tokenizer.json": "{}", "model.safetensors": b"w" * 2000, "pytorch_model.bin": b"w"}
    hub.add("own/model", {**files, "modeling.py": "x", "onnx/model.onnx": b"w"}, kind="model")
    fill_mirror(tmp_path, [find_model(client(hub), "own/model")], client(hub))
    names = {path for path in files_in(tmp_path) if path.startswith("models/")}
    assert names == {f"models/own/model/{name}" for name in ("config.json", "tokenizer.json", "model.safetensors")}


def test_two_fetches_do_not_write_into_one_mirror(hub: FakeHub, tmp_path: Path) -> None:
    from assay.paths import try_lock

    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert try_lock(descriptor)
        with pytest.raises(ConfigError, match="another fetch"):
            fill_mirror(tmp_path, [found(hub, "own/plain", None, "test")], client(hub))
    finally:
        os.close(descriptor)


TASK = """task: {name}
dataset_path: {path}
{more}test_split: test
fewshot_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
"""


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(words)
    return int(left.value.code or 0)


@pytest.fixture
def own_tasks(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "a.yaml").write_text(TASK.format(name="a", path="own/plain", more=""))
    (folder / "b.yaml").write_text(TASK.format(name="b", path="old/scripted", more="dataset_name: en\n"))
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setattr("assay.data.why_out_of_reach", lambda: None)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    return folder


def test_the_verb_fills_a_mirror_that_a_run_needs_nothing_beside(
    own_tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], hub: FakeHub
) -> None:
    mirror, words = str(tmp_path / "mirror"), ["--include_path", str(own_tasks), "--no-defaults"]
    assert code_of("fetch", "a,b", "--to", mirror, *words) == 0
    said = capsys.readouterr()
    assert "2 files" in said.out
    assert "loaded by a script" in said.err
    assert code_of("fetch", "--check", "--to", mirror) == 0
    hub.asked.clear()
    run = ["run", "--model", "dummy", "--tasks", "a,b", "--include_path", str(own_tasks), "--data_dir", mirror]
    assert code_of(*run, "--run_dir", str(tmp_path / "run")) == 0
    assert hub.asked == []
    block = json.loads((tmp_path / "run" / "results.json").read_text())["assay"]
    assert block["tasks"]["b"]["data"]["repo"] == "old/scripted"
    assert any("loaded by a script" in note for note in block["notes"])


def test_the_verb_says_which_datasets_there_are_not(
    own_tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_tasks / "c.yaml").write_text(TASK.format(name="c", path="own/gone", more=""))
    assert code_of("fetch", "a,c", "--to", str(tmp_path / "mirror"), "--include_path", str(own_tasks)) == 3
    assert "own/gone" in capsys.readouterr().err
    assert (tmp_path / "mirror" / "own" / "plain" / "default" / "test.jsonl").is_file()


def test_where_the_library_meets_a_script_the_conversion_is_taken_and_said(
    own_tasks: Path, tmp_path: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Dataset scripts are no longer supported, but found scripted.py")

    real = datasets.load_dataset
    monkeypatch.setattr("assay.data.source.why_out_of_reach", lambda: None)
    monkeypatch.setattr(
        datasets, "load_dataset", lambda path, *a, **k: (real if path == "parquet" else refuse)(path, *a, **k)
    )
    source = DataSource("old/scripted", "en")
    assert len(source["test"]) == 5
    about = source.provenance()
    assert about["commit"] == hub.commit_of("dataset", "old/scripted", "refs/convert/parquet")
    assert "loaded by a script" in about["note"]
    with pytest.raises(DataError, match="cannot be loaded"):
        DataSource("json", None, {"data_files": "nowhere.jsonl"})["train"]


def test_validate_says_which_tasks_can_load_their_data(
    own_tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.data.source.why_out_of_reach", lambda: None)
    monkeypatch.setattr("assay.data.why_out_of_reach", lambda: None)
    words = ["--include_path", str(own_tasks), "--no-defaults"]
    assert code_of("validate", "a", "b", "--data", *words) == 0
    shown = capsys.readouterr().out
    assert "data of 1 tasks: on the hub\n" in shown
    assert "data of 1 tasks: on the hub, in another form or place" in shown
    code_of("fetch", "a", "--to", str(tmp_path / "mirror"), *words)
    (own_tasks / "c.yaml").write_text(TASK.format(name="c", path="own/gone", more=""))
    capsys.readouterr()
    assert code_of("validate", "--data", "--data_dir", str(tmp_path / "mirror"), "--json", *words) == 3
    found = json.loads(capsys.readouterr().out)["data"]
    assert found["tasks"] == {"mirror": 1, "stand-in": 1, "nowhere": 1}
    (reason,) = found["failures"]
    assert reason.startswith("own/gone: ")


def test_a_hub_out_of_reach_is_asked_nothing(
    own_tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("assay.data.why_out_of_reach", lambda: "far away")
    words = ["--include_path", str(own_tasks), "--no-defaults"]
    assert code_of("fetch", "a", "--to", str(tmp_path / "mirror"), *words) == 3
    assert code_of("validate", "a", "--data", *words) == 3
    assert "cannot be reached (far away)" in capsys.readouterr().out
