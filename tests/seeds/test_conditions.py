"""Seed 000, first open question: members that belong only to some models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.seeds.parts import Written, run, write_task
from tests.seeds.test_ready_models import Plain

from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.models.identity import parameters_in_files


def group(folder: Path, members: str) -> Path:
    for name in ("ner", "siqa"):
        write_task(folder, name)
    (folder / "g.yaml").write_text(f"group: g\ntask:\n{members}")
    return folder


ASKED = '  - {task: ner, if: "model_size > 7e9"}\n  - siqa\n'


@pytest.mark.parametrize(("size", "members"), [("8e9", ["ner", "siqa"]), ("1e9", ["siqa"]), ("8B", ["ner", "siqa"])])
def test_000_056_conditions_compare_what_metadata_gives(size: str, members: list[str], tmp_path: Path) -> None:
    found = run(group(tmp_path, ASKED), ["g"], Plain("2"), metadata=f"model_size={size}")
    assert list(found.tasks) == members
    assert found.groups["g"].children == tuple(members)


def test_000_056_any_name_of_the_metadata_will_do(tmp_path: Path) -> None:
    folder = group(tmp_path, "  - {task: ner, if: \"stage == 'final' and not draft\"}\n  - siqa\n")
    assert list(run(folder, ["g"], Plain("2"), metadata={"stage": "final", "draft": False}).tasks) == ["ner", "siqa"]
    with pytest.raises(ConfigError, match="asks for 'stage', which is not known"):
        run(folder, ["g"], Plain("2"))


class Sized(Plain):
    num_parameters: Any = 10**9


def test_000_057_a_plain_model_class_tells_its_size(tmp_path: Path) -> None:
    folder = group(tmp_path, '  - {task: ner, if: "model.params > 7e9"}\n  - siqa\n')
    assert list(run(folder, ["g"], Sized("2")).tasks) == ["siqa"]
    big = Sized("2")
    big.num_parameters = lambda: 8 * 10**9
    assert list(run(folder, ["g"], big).tasks) == ["ner", "siqa"]
    assert list(run(folder, ["g"], Plain("2"), metadata={"params": "8B"}).tasks) == ["ner", "siqa"]
    with pytest.raises(ConfigError, match="which this model does not report") as error:
        run(folder, ["g"], Plain("2"))
    assert "--metadata model_size=7B" in str(error.value)


def test_000_055_the_seeds_own_spelling(tmp_path: Path) -> None:
    folder = group(tmp_path, "  - ner: if model_size > 7B\n  - siqa: always\n")
    assert list(run(folder, ["g"], Plain("2"), metadata="model_size=1.5B").tasks) == ["siqa"]
    assert list(run(folder, ["g"], Plain("2"), metadata="model_size=70B").tasks) == ["ner", "siqa"]


def test_000_057_scoring_again_remembers_the_size(tmp_path: Path) -> None:
    folder = group(tmp_path, '  - {task: ner, if: "model.params > 7e9"}\n  - siqa\n')
    model = Written(lambda prompt, draw: "2")
    model.num_parameters = 10**9  # type: ignore[attr-defined]
    run(folder, ["g"], model, run_dir=str(tmp_path / "run"))
    assert list(score_again(tmp_path / "run").tasks) == ["siqa"]


def test_000_057_files_of_weights_tell_their_size(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    gguf = pytest.importorskip("gguf")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"a": numpy.zeros((3, 4), "float32"), "b": numpy.zeros(5, "float32")}, tmp_path / "m.safetensors")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("a", numpy.zeros((2, 3), "float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert parameters_in_files([tmp_path / "m.safetensors"]) == 17
    assert parameters_in_files([tmp_path / "m.gguf"]) == 6
    assert parameters_in_files([tmp_path / "g.yaml"]) is None


def test_000_057_a_server_tells_its_size_by_its_list_of_models() -> None:
    """As llama.cpp writes it."""
    import json
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    from assay.models import load_model

    class Listing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": "m", "meta": {"n_params": 8030261312}}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Listing)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    model = load_model("local-chat-completions", {"base_url": address, "model": "m"})
    try:
        assert model.parameter_count() == 8030261312
    finally:
        model.close()
        server.shutdown()
        server.server_close()
