"""A key is in nothing that a run writes, by whatever way it came in and wherever a server repeats it."""

from __future__ import annotations

import base64
import html
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

SECRET = "sk-4711/very+secret=key"
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}KWARGS}
test_split: test
doc_to_text: question
doc_to_target: answer
SCORED
"""
QUOTED = quote(SECRET, safe="")
CODED = [
    quote(QUOTED, safe=""),
    *(base64.b64encode(before + SECRET.encode() + b"?").decode() for before in (b"", b"u:", b"Bearer ")),
    base64.urlsafe_b64encode(SECRET.encode()).decode(),
    SECRET.encode().hex(),
    html.escape(SECRET).replace("/", "&#x2F;").replace("+", "&#43;"),
    re.sub("[/+=]", lambda sign: f"\\u{ord(sign[0]):04X}", SECRET),
]
"""As others write it who pass a text on."""


class Indiscreet(BaseHTTPRequestHandler):
    """Repeats what was sent with a request in every field of its reply."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = f"{self.path} {dict(self.headers)} {SECRET} {CODED} <verdict>correct</verdict>"
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"key": SECRET})}}
        message = {"role": "assistant", "content": said, "reasoning_content": said, "tool_calls": [call], "told": said}
        if self.path.split("?")[0].endswith("/fails/chat/completions"):
            self.reply(400, {"error": {"message": said}})
        else:
            self.reply(200, {"model": f"m {SECRET}", "choices": [{"message": message, "finish_reason": "stop"}]})

    def do_GET(self) -> None:
        self.reply(200, {"data": [{"id": "m", "owned_by": f"{self.path} {dict(self.headers)}"}]})

    def reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Indiscreet)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()


WAYS: dict[str, dict[str, Any]] = {
    "the environment": {"env": {"OPENAI_API_KEY": SECRET}},
    "a variable of another name": {"env": {"MY_OWN": SECRET}, "args": {"api_key_env": "MY_OWN"}},
    "another provider's variable": {"env": {"HF_TOKEN": SECRET}},
    "the address": {"query": f"?api_key={QUOTED}"},
    "the address, as Google writes it": {"query": f"?version=2&key={QUOTED}"},
    "the address, as Azure writes it": {"query": f"?sv=2024-05-01&sig={QUOTED}"},
    "the address, under a name of its own": {"query": f"?mine={QUOTED};x=1"},
    "the address, without a name": {"query": f"?{QUOTED}"},
    "behind the address": {"query": f"#mine={QUOTED}"},
    "the address of a judge": {"judge": {"query": f"?api_key={QUOTED}"}},
    "a header of a judge": {"judge": {"args": {"header": {"X-Custom": SECRET}}}},
    "the task's data": {"kwargs": f", token: '{SECRET}'"},
    "the settings of a generation": {"flags": ["--gen_kwargs", f"api_key={SECRET}"]},
    "a header": {"args": {"header": {"X-Custom": SECRET}}},
    "an argument": {"metadata": {"api_key": SECRET}},
    "nested arguments": {"metadata": {"service": [{"password": SECRET}]}},
}


def forms() -> list[bytes]:
    aligned = [
        text[4:24] if "sk-" not in text else text for text in CODED
    ]  # the ends of base64 are those of its neighbours
    return [text.encode() for text in (SECRET, QUOTED, SECRET[:12], *aligned)]


@pytest.mark.parametrize("path", ["/v1", "/fails"])
@pytest.mark.parametrize("way", WAYS)
def test_no_file_and_no_line_has_the_key(way: str, path: str, server: str, tmp_path: Path) -> None:
    given = WAYS[way]
    judge = given.get("judge")
    scored = "scorer: {type: judge, kind: correct}" if judge else "metric_list: [{metric: exact_match}]"
    (tmp_path / "sums.yaml").write_text(TASK.replace("SCORED", scored).replace("KWARGS", given.get("kwargs", "")))
    (tmp_path / "docs.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n{"question": "2 + 2", "answer": "4"}\n')
    args = {
        "base_url": f"{server}{path}{given.get('query', '')}",
        "model": "m",
        "max_retries": 1,
        **given.get("args", {}),
    }
    flags = given.get("flags", [])
    if judge:
        of_judge = {**args, "base_url": f"{server}{path}{judge.get('query', '')}", **judge.get("args", {})}
        flags = ["--role", f"judge=local-chat-completions,{json.dumps(of_judge)}"]
    code = f"""
import sys
from assay.cli.entry import main
args, metadata = {args!r}, {given.get("metadata", {})!r}
import json
main(["run", "--model", "local-chat-completions", "--model_args", json.dumps(args), "--metadata", json.dumps(metadata),
      "--tasks", "sums", "--include_path", ".", "--run_dir", "out/run", "--store", "out/store.sqlite", "--log_samples", *{flags!r}])
"""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ASSAY_HOME": str(tmp_path / "out/home")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, **given.get("env", {})},
        capture_output=True,
        timeout=120,
    )
    written = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert {"run.json"} <= {file.name for file in written}, done.stderr.decode()[-2000:]
    if path == "/v1":
        assert {"results.json", "store.sqlite", "samples_sums.jsonl"} <= {file.name for file in written}
    for file in written:
        assert not [form for form in forms() if form in file.read_bytes()], file.name
    assert not [form for form in forms() if form in done.stdout + done.stderr]
