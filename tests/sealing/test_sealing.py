"""`assay seal` and `assay verify`: every number follows from the bundle's answers, and what was changed is found."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.run.support import write_benchmark
from tests.run.test_run import Echo, bench, run  # noqa: F401  `bench` is a fixture
from tests.run.test_until import many
from tests.scoring.judges import bench as judged_bench
from tests.scoring.judges.test_labels import is_right, label

import assay
from assay.cli.entry import main
from assay.data import doc_hash
from assay.errors import AssayError, ConfigError, UntrustedCode
from assay.evaluation import score_again
from assay.sealing import SealVerification, Sources, seal_run, verify_bundle
from assay.sealing.archive import seal_id
from assay.sealing.task_files import PACKAGE
from assay.timelimit import within

Rows = list[dict[str, Any]]


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, files: dict[str, bytes], *, sealed: bool) -> Path:
    """A bundle with these members; `sealed` makes a seal for them, as somebody would who knows how."""
    if sealed:
        about = json.loads(files["seal.json"])
        about["members"] = {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            for name, data in files.items()
            if name != "seal.json"
        }
        about["seal"] = seal_id(about)
        files = {**files, "seal.json": json.dumps(about).encode()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tampered(bundle: Path, change: Callable[[dict[str, bytes]], None], *, sealed: bool) -> Path:
    files = members(bundle)
    change(files)
    return write(bundle.with_name("tampered.zip"), files, sealed=sealed)


def samples_of(files: dict[str, bytes], task: str) -> tuple[str, Rows]:
    name = json.loads(files["seal.json"])["samples"][task]
    return name, [json.loads(line) for line in files[name].decode().splitlines()]


def edit_samples(task: str, edit: Callable[[Rows], Any]) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        name, rows = samples_of(files, task)
        edit(rows)
        files[name] = "".join(json.dumps(row) + "\n" for row in rows).encode()

    return change


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group of two tasks: choices with shots, and two draws of each doc under two filters."""
    folder = tmp_path_factory.mktemp("sealed")
    write_benchmark(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "home"))
        run(folder, run_dir=str(folder / "run"))
        path, found = seal_run(folder / "run", folder / "sealed.zip")
    assert found.passed
    return path


@pytest.fixture
def bundle(sealed: Path, tmp_path: Path) -> Path:
    """A copy of it, to be tampered with."""
    return Path(shutil.copy(sealed, tmp_path / "sealed.zip"))


def verify(path: Path, **words: Any) -> SealVerification:
    return verify_bundle(path, Sources(**words))


def kinds(found: SealVerification) -> set[str]:
    return {each.kind for each in found.differences}


def test_every_number_is_derived_again_from_the_dataset_and_from_the_bundle_alone(bundle: Path) -> None:
    for docs in ("dataset", "bundle"):
        found = verify(bundle, docs=docs)
        assert found.passed, [str(each) for each in found.differences]
        assert (found.docs, found.from_dataset) == (60, docs == "dataset")
        assert found.compared > 700


def test_it_is_verified_where_neither_data_nor_task_files_of_the_run_are(bench: Path) -> None:  # noqa: F811
    run(bench, run_dir=str(bench / "run"))
    path, _ = seal_run(bench / "run", bench / "sealed.zip")
    for name in ("test.jsonl", "train.jsonl", "colours.yaml", "sums.yaml", "both.yaml"):
        (bench / name).unlink()
    found = verify(path)
    assert found.passed
    assert not found.from_dataset
    assert "train.jsonl" in found.why_not


def test_data_files_named_beside_the_task_file_are_sealed_and_verified_where_they_are_not(
    bench: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A results file names them by where they were; elsewhere they lie in another directory, or nowhere."""
    for task in (bench / "colours.yaml", bench / "sums.yaml"):
        task.write_text(task.read_text().replace(f"{bench}/", ""))
    run(bench, run_dir=str(bench / "run"))
    sealed = bench / "sealed.zip"
    assert code_of("seal", str(bench / "run"), "-o", str(sealed)) == 0
    assert "does not carry" not in capsys.readouterr().err
    elsewhere = bench.rename(bench.with_name("elsewhere"))
    found = verify(elsewhere / "sealed.zip")
    assert found.passed, [str(each) for each in found.differences]
    assert not found.from_dataset
    found = verify(elsewhere / "sealed.zip", include_path=(str(elsewhere),))
    assert found.passed, [str(each) for each in found.differences]
    assert found.from_dataset


def test_a_bundle_without_the_task_files_it_needs_says_how_to_pass_them(bundle: Path) -> None:
    def strip(files: dict[str, bytes]) -> None:
        about = json.loads(files["seal.json"])
        files["seal.json"] = json.dumps({**about, "task_roots": []}).encode()
        for name in [name for name in files if name.startswith("tasks/")]:
            del files[name]

    with pytest.raises(ConfigError, match="does not carry its task files") as refused:
        verify(tampered(bundle, strip, sealed=True))
    assert "--include_path" in str(refused.value.hint)


def test_the_same_run_gives_the_same_bytes(sealed: Path, tmp_path: Path) -> None:
    again, _ = seal_run(sealed.parent / "run", tmp_path / "again.zip")
    assert again.read_bytes() == sealed.read_bytes()


def edit_answer(rows: Rows) -> None:
    """Doc 4 of `colours`: another choice is now the likeliest."""
    (row,) = [row for row in rows if row["doc_id"] == 4]
    answers = json.loads(row["resps"])
    answers[0] = [[99.0, False]]
    row["resps"] = json.dumps(answers)


def edit_score(rows: Rows) -> None:
    rows[4]["metric:acc"] = 1 - rows[4]["metric:acc"]


def swap_doc(rows: Rows) -> None:
    """Two docs change places, each with all that was made of it."""
    rows[4]["doc"], rows[5]["doc"] = rows[5]["doc"], rows[4]["doc"]


def swap_doc_and_hash(rows: Rows) -> None:
    swap_doc(rows)
    rows[4]["doc_hash"], rows[5]["doc_hash"] = rows[5]["doc_hash"], rows[4]["doc_hash"]


def swap_all_but_the_answer(rows: Rows) -> None:
    swap_doc_and_hash(rows)
    for field in ("arguments", "request_hash", "target"):
        rows[4][field], rows[5][field] = rows[5][field], rows[4][field]


def drop_doc(rows: Rows) -> None:
    del rows[4]


def double_doc(rows: Rows) -> None:
    rows.insert(5, rows[4])


def double_doc_as_another(rows: Rows) -> None:
    rows.append({**rows[4], "doc_id": 30})


CHANGES = [
    *(edit_answer, edit_score, swap_doc, swap_doc_and_hash, swap_all_but_the_answer),
    *(drop_doc, double_doc, double_doc_as_another),
]


@pytest.mark.parametrize("docs", ["dataset", "bundle"])
@pytest.mark.parametrize("edit", CHANGES, ids=lambda edit: edit.__name__)
def test_what_was_changed_is_found_although_the_seal_was_made_anew(
    bundle: Path, edit: Callable[[Rows], Any], docs: str
) -> None:
    found = verify(tampered(bundle, edit_samples("colours", edit), sealed=True), docs=docs)
    assert not found.passed
    assert "file" not in kinds(found)


@pytest.mark.parametrize("edit", CHANGES, ids=lambda edit: edit.__name__)
def test_what_was_changed_is_found_by_the_seal_alone(bundle: Path, edit: Callable[[Rows], Any]) -> None:
    found = verify(tampered(bundle, edit_samples("colours", edit), sealed=False))
    assert "file" in kinds(found)


def test_a_difference_says_where_it_is(bundle: Path) -> None:
    found = verify(tampered(bundle, edit_samples("colours", edit_score), sealed=True))
    assert "colours, doc 4, filter none: metric:acc: the bundle says" in str(found.differences[0])


def edit_results(path: str, value: Any) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        results = json.loads(files["results.json"])
        *parents, last = path.split("|")
        place = results
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        assert place[last] != value
        place[last] = value
        files["results.json"] = json.dumps(results).encode()

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("results|colours|acc,none", 0.9),
        ("results|both|acc,none", 0.9),
        ("assay|tasks|sums|health|docs", 31),
        ("assay|config|num_fewshot", 5),
        ("assay|model|name", "a better one"),
        ("configs|sums|filter_list", []),
        ("task_hashes|sums", "0" * 64),
    ],
)
def test_a_changed_number_setting_or_config_of_the_results_is_found(bundle: Path, path: str, value: Any) -> None:
    found = verify(tampered(bundle, edit_results(path, value), sealed=True))
    assert not found.passed
    assert path.split("|")[-1] in str(found.differences[0])


def test_a_changed_filter_of_the_bundles_task_file_is_found(bundle: Path) -> None:
    def soften(files: dict[str, bytes]) -> None:
        (name,) = [name for name in files if name.endswith("/sums.yaml")]
        files[name] = files[name].replace(b'"([0-9])"', b'"([0-9]+) of"')

    found = verify(tampered(bundle, soften, sealed=True))
    assert not found.passed


def test_a_changed_setting_of_the_config_is_found(bundle: Path) -> None:
    def fewer_shots(files: dict[str, bytes]) -> None:
        data = json.loads(files["run.json"])
        data["config"]["num_fewshot"] = 0
        files["run.json"] = json.dumps(data).encode()

    found = verify(tampered(bundle, fewer_shots, sealed=True))
    assert {"setting", "request"} <= kinds(found) or not found.passed


def test_a_bundle_without_docs_holds_none_and_needs_the_dataset(bench: Path) -> None:  # noqa: F811
    run(bench, run_dir=str(bench / "run"))
    path, found = seal_run(bench / "run", bench / "bare.zip", docs=False)
    assert found.from_dataset
    text = b"".join(data for name, data in members(path).items() if name.startswith("samples/"))
    assert b"test 4 +" not in text
    assert verify(path).passed
    assert not verify(tampered(path, edit_samples("colours", edit_answer), sealed=True)).passed
    with pytest.raises(ConfigError, match="has no docs"):
        verify(path, docs="bundle")


def test_a_run_until_enough_was_known_is_sealed(bench: Path) -> None:  # noqa: F811
    many(bench)
    run(bench, tasks=["colours"], until="ci=0.1", run_dir=str(bench / "run"))
    path, found = seal_run(bench / "run", bench / "sealed.zip")
    assert found.docs < 600
    assert verify(path, docs="dataset").passed
    assert verify(path, docs="bundle").passed


def test_failed_requests_and_a_limit_are_sealed(bench: Path) -> None:  # noqa: F811
    run(bench, Echo(fail=" 1"), limit=20, run_dir=str(bench / "run"))
    path, found = seal_run(bench / "run")
    assert path == bench / "run" / "bundle.zip"
    assert found.docs == 40
    assert verify(path).passed


def with_floors(bench: Path, ending: str) -> Path:  # noqa: F811
    """A run with what is asked for floors, an overlay and labels of gold answers, sealed."""
    rows = [json.loads(line) for line in (bench / "test.jsonl").read_text().splitlines()]
    hashes = [doc_hash(row) for row in rows]
    docs = [
        {"doc_hash": hashes[0], "task": "colours", "gold": 1, "why": "a typo"},
        {"doc_hash": hashes[1], "task": "colours", "exclude": True, "why": "two are right"},
    ]
    overlay = bench / f"overlay{ending}"
    if ending == ".jsonl":
        overlay.write_text("".join(json.dumps(each) + "\n" for each in [{"overlay": "colours-1"}, *docs]))
    else:
        overlay.write_text(json.dumps({"overlay": "colours-1", "docs": docs}))
    labels = [{"task": "colours", "doc_hash": each, "gold": "right", "weight": 1.2} for each in hashes[2:27]]
    (bench / "gold.jsonl").write_text("".join(json.dumps(each) + "\n" for each in labels))
    words: dict[str, Any] = {"overlay": [str(overlay)], "labels": [str(bench / "gold.jsonl")]}
    result = run(bench, run_dir=str(bench / "run"), floors=["blind", "longest", "no_context"], **words)
    (score,) = [each for key, each in result.tasks["colours"].scores.items() if key.metric == "acc"]
    assert {*score.floors} >= {"blind", "longest"}
    return seal_run(bench / "run", bench / "sealed.zip")[0]


@pytest.mark.parametrize("ending", [".jsonl", ".yaml"])
def test_floors_overlays_and_gold_labels_are_sealed_and_verified_from_the_bundle_alone(
    bench: Path,  # noqa: F811
    ending: str,
) -> None:
    path = with_floors(bench, ending)
    for name in ("test.jsonl", "train.jsonl", f"overlay{ending}", "gold.jsonl"):
        (bench / name).unlink()
    found = verify(path, docs="bundle")
    assert found.passed, [str(each) for each in found.differences]
    blind = edit_samples("colours:blind", lambda rows: rows[0].update(resps='[["-1.0", "False"]]'))
    assert kinds(verify(tampered(path, blind, sealed=True), docs="bundle")), "an answer of a floor was changed"


def test_a_bundle_with_a_member_that_is_empty_is_told(bundle: Path) -> None:
    for task in json.loads(members(bundle)["seal.json"])["samples"]:
        path = tampered(bundle, edit_samples(task, list.clear), sealed=True)
        for docs in ("bundle", "dataset"):
            with contextlib.suppress(AssayError):
                assert not verify(path, docs=docs).passed


def test_judged_and_labelled_answers_are_verified_without_a_judge(tmp_path: Path) -> None:
    judged_bench.write_bench(tmp_path, 60, judged="scorer: {type: judge}")
    judged_bench.run(tmp_path, "judged", rule="kind", run_dir=str(tmp_path / "first"))
    labels = label(tmp_path, "first", is_right)
    judged_bench.run(tmp_path, "judged", rule="kind", run_dir=str(tmp_path / "run"), labels=[str(labels)])
    path, _ = seal_run(tmp_path / "run", tmp_path / "sealed.zip")
    asked = (tmp_path / "judge.txt").read_text()
    assert verify(path).passed
    changed = tampered(path, edit_samples("judged", lambda rows: rows[4].update(resps='[["5"]]')), sealed=True)
    assert not verify(changed).passed
    assert (tmp_path / "judge.txt").read_text() == asked


@pytest.mark.parametrize("name", ["labels.jsonl", "data/labels.jsonl"])
def test_labels_that_a_task_file_names_are_carried(tmp_path: Path, name: str) -> None:
    judged_bench.write_bench(tmp_path, 60, judged="scorer: {type: judge}")
    judged_bench.run(tmp_path, "judged", rule="kind", run_dir=str(tmp_path / "first"))
    labels = label(tmp_path, "first", is_right)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(labels.read_bytes())
    judged_bench.write_bench(tmp_path, 60, judged=f"scorer: {{type: judge, labels: {name}}}")
    judged_bench.run(tmp_path, "judged", rule="kind", run_dir=str(tmp_path / "run"))
    path, _ = seal_run(tmp_path / "run", tmp_path / "sealed.zip")
    labels.unlink(missing_ok=True)
    (tmp_path / name).unlink(missing_ok=True)
    assert verify(path).passed


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"predict_only": True}, "answers but no scores"),
        ({"limit": 10, "control": "base"}, "another run"),
        ({"until": "decided vs base margin=0.02"}, "another run"),
    ],
)
def test_what_rests_on_more_than_the_run_is_refused(bench: Path, words: dict[str, Any], reason: str) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "base"))
    words = {
        key: word.replace("base", str(bench / "base")) if isinstance(word, str) else word for key, word in words.items()
    }
    run(bench, tasks=["colours"], run_dir=str(bench / "run"), **words)
    with pytest.raises(ConfigError, match=reason):
        seal_run(bench / "run", bench / "sealed.zip")


def test_a_run_whose_task_file_changed_is_refused_and_its_new_scores_are_sealed(bench: Path) -> None:  # noqa: F811
    run(bench, tasks=["sums"], run_dir=str(bench / "run"))
    task = bench / "sums.yaml"
    task.write_text(task.read_text().replace('"([0-9])"', '"([a-z])"'))
    with pytest.raises(ConfigError, match="cannot be computed again"):
        seal_run(bench / "run", bench / "sealed.zip")
    assert not (bench / "sealed.zip").exists()
    score_again(bench / "run", run_dir=bench / "new")
    assert seal_run(bench / "new", bench / "sealed.zip")[1].passed


def test_code_of_a_bundle_does_not_run_unless_trusted(bench: Path) -> None:  # noqa: F811
    (bench / "helpers.py").write_text("def first(docs):\n    return docs\n")
    task = bench / "sums.yaml"
    task.write_text(task.read_text() + "process_docs: !function helpers.first\n")
    run(bench, tasks=["sums"], run_dir=str(bench / "run"))
    path, _ = seal_run(bench / "run", bench / "sealed.zip")
    with pytest.raises(UntrustedCode):
        verify(path)
    assert verify(path, trust=True).passed


# ---------------------------------------------------------------------- hostile archives


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_place_of_a_bundle_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.zip")
    with pytest.raises(ConfigError, match="not a regular file"):
        within(5, lambda: verify(tmp_path / "run.zip"))


def test_a_bundle_that_was_cut_off_is_refused(bundle: Path) -> None:
    whole = bundle.read_bytes()
    for share in (0.1, 0.5, 0.99):
        bundle.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(ConfigError, match="bundle"):
            verify(bundle)


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "a\\..\\b", "tasks/../../evil", "C:evil", "a//b", "a/./b"])
def test_names_that_lead_elsewhere_are_refused(bundle: Path, name: str) -> None:
    with zipfile.ZipFile(bundle, "a") as archive:
        archive.writestr(name, "x")
    with pytest.raises(ConfigError, match="is refused"):
        verify(bundle)


def test_links_duplicates_and_bombs_are_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bundle.read_bytes()
    link = zipfile.ZipInfo("tasks/0/link.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for what in (link, "results.json"):
        bundle.write_bytes(whole)
        with zipfile.ZipFile(bundle, "a") as archive, pytest.warns() if what != link else io.StringIO():
            archive.writestr(what, "/etc/passwd")
        with pytest.raises(ConfigError, match="is refused"):
            verify(bundle)
    monkeypatch.setattr("assay.sealing.archive.FREE_BYTES", 2**20)
    files = members(write(bundle, {"seal.json": json.dumps({"members": {}}).encode()}, sealed=True))
    files["bomb"] = b"\0" * 2**23
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        about = {"format": 1, "members": {"bomb": {"sha256": "", "size": 1}}}
        archive.writestr("seal.json", json.dumps(about))
        archive.writestr("bomb", files["bomb"])
    with pytest.raises(ConfigError, match="far more than their compressed size"):
        verify(bundle)


def test_a_task_folder_that_leads_elsewhere_is_refused(bundle: Path) -> None:
    def escape(files: dict[str, bytes]) -> None:
        about = json.loads(files["seal.json"])
        about["task_roots"][0]["folder"] = "../../elsewhere"
        files["seal.json"] = json.dumps(about).encode()

    with pytest.raises(ConfigError, match="names a folder"):
        verify(tampered(bundle, escape, sealed=True))


def test_what_is_no_bundle_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"hello")
    with pytest.raises(ConfigError, match="bundle"):
        verify(tmp_path / "a.zip")
    write(tmp_path / "b.zip", {"x": b""}, sealed=False)
    with pytest.raises(ConfigError, match=r"no seal\.json"):
        verify(tmp_path / "b.zip")


# ---------------------------------------------------------------------- the verbs


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(words)
    return int(left.value.code or 0)


def test_the_verbs_say_what_they_found(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    run(bench, run_dir=str(bench / "run"))
    sealed = str(bench / "sealed.zip")
    assert code_of("seal", str(bench / "run"), "-o", sealed) == 0
    assert code_of("verify", sealed) == 0
    assert "Verified: every number follows from the answers" in capsys.readouterr().out
    changed = tampered(Path(sealed), edit_samples("colours", edit_score), sealed=True)
    assert code_of("verify", str(changed)) == 1
    shown = capsys.readouterr().out
    assert "✗ numbers" in shown
    assert "Not verified." in shown
    assert code_of("verify", str(changed), "--json") == 1
    assert json.loads(capsys.readouterr().out)["differences"][0]["kind"] == "number"


def test_the_hash_of_the_code_is_that_of_this_package_alone() -> None:
    assert Path(str(assay.__file__)).parent == PACKAGE
