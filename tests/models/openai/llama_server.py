"""llama.cpp's own server on loopback, and a model of a few kilobytes made here for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
xllamacpp = pytest.importorskip("xllamacpp")


def byte_characters() -> list[str]:
    """One printable character for each byte, as in GPT-2's vocabulary."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    extra = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(extra)) for byte in range(256)]


def write_model(path: Path) -> None:
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_characters(), "th"]
    size, rng, writer = 64, np.random.default_rng(0), gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(size)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_chat_template(
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    )
    square, half, row = (size, size), (size // 2, size), (size,)
    shapes = {"token_embd": (len(tokens), size), "output_norm": row, "blk.0.attn_norm": row, "blk.0.ffn_norm": row}
    shapes |= {f"blk.0.{name}": square for name in ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
    shapes |= {"blk.0.attn_k": half, "blk.0.attn_v": half}
    for name, shape in shapes.items():
        values = rng.normal(size=shape) * 0.3
        if name == "token_embd":  # it writes whole characters: llama.cpp lists nothing beside half of one
            values[[i for i in range(len(tokens)) if not 35 <= i < 130]] *= 0.01
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def start(path: Path, n_ctx: int = 1024, *, at_once: int = 2, exact: bool = False) -> Any:
    params = xllamacpp.CommonParams()
    if exact:
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.port, params.warmup = n_ctx, at_once, 0, False
    params.cpuparams.n_threads, params.verbosity = 1, 0
    return xllamacpp.Server(params)


def write_float32(source: Path, target: Path) -> None:
    """The weights of a quantised file as float32: what the hf backend computes with."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            kind, *_, within = [*field.types, None] if len(field.types) == 1 else field.types
            writer.add_key_value(field.name, field.contents(), kind, sub_type=within)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Gateway:
    """Stands before a server: `change` is what it makes of each request to complete a text; None: it answers 500."""

    def __init__(self, address: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        self.bodies: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                sent: dict[str, Any] | None = body
                if self.path.endswith("/completions"):
                    outer.bodies.append(body)
                    sent = change(body)
                self.forward(sent)

            def do_GET(self) -> None:
                self.forward({})

            def forward(self, body: dict[str, Any] | None) -> None:
                status, reply = 500, b'{"error": {"message": "out of luck"}}'
                if body is not None:
                    data = json.dumps(body).encode() if self.command == "POST" else None
                    request = Request(address + self.path, data, {"Content-Type": "application/json"})
                    try:
                        with urlopen(request) as there:
                            status, reply = there.status, there.read()
                    except HTTPError as error:
                        status, reply = error.code, error.read()
                self.send_response(status)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Gateway:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
