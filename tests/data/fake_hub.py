"""A hub on loopback: repositories in memory, served as the hub serves them, with the faults that a test asks for."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


class FakeHub:
    """`files[(kind, repo, revision)]` is path to bytes. Files above `large` are told by SHA-256 and sent by a redirect."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str, str], dict[str, bytes]] = {}
        self.large = 1000
        self.page = 1000
        self.asked: list[tuple[str, str]] = []
        """Method and path of every request."""
        self.tokens: set[tuple[str, str | None]] = set()
        """(api, resolve or store; the token that came)."""
        self.faults: dict[str, list[str]] = {}
        """File name, or `api`, to what goes wrong, in turn: 429, 503, cut, wrong, stall (half of it, and then nothing)."""
        self.stalled = threading.Event()
        self.pulls: dict[str, dict[str, bytes]] = {}
        """Pull requests: repository to the files that were proposed."""
        self.writers: set[str] = set()
        """Tokens that may write."""
        self.address = ""

    def add(self, repo: str, files: dict[str, bytes | str], kind: str = "dataset", revision: str = "main") -> None:
        data = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
        self.files.setdefault((kind, repo, revision), {}).update(data)

    def downloads(self) -> list[str]:
        return [unquote(path).rpartition("/")[2] for how, path in self.asked if how == "GET" and "/api/" not in path]

    def commit_of(self, kind: str, repo: str, revision: str) -> str:
        return hashlib.sha1(f"{kind}{repo}{revision}".encode()).hexdigest()

    def at(self, kind: str, repo: str, revision: str) -> dict[str, bytes] | None:
        for (its_kind, its_repo, name), files in self.files.items():
            if (its_kind, its_repo) == (kind, repo) and revision in (name, self.commit_of(kind, repo, name)):
                return files
        return None


class Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.hub.asked.append((self.command, url.path))
        parts = [unquote(part) for part in url.path.split("/")[1:]]
        place = "store" if parts[0] == "store" else "api" if parts[0] == "api" else "resolve"
        self.hub.tokens.add((place, self.headers.get("Authorization")))
        faults = self.hub.faults.get("api", [])
        if place == "api" and faults:
            self.send_json({"error": "busy"}, int(faults.pop(0)), {"Retry-After": "3"})
        elif place == "api":
            self.answer_api(parts[1:], url.query)
        elif place == "store":
            self.send_file(parts[-1], self.hub.at(parts[1], f"{parts[2]}/{parts[3]}", parts[4])["/".join(parts[5:])])  # type: ignore[index]
        else:
            self.resolve(parts)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Pull requests to models, as `create_commit` sends them: first what kind each file is, then all of them."""
        url = urlsplit(self.path)
        self.hub.asked.append((self.command, url.path))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        owner, name, verb, revision = url.path.split("/")[3:] or [""] * 4
        if url.path == "/api/validate-yaml":
            self.send_json({"errors": [], "warnings": []})
        elif (self.headers.get("Authorization") or "").removeprefix("Bearer ") not in self.hub.writers:
            self.send_json({"error": "You are not allowed to write"}, 403)
        elif verb == "preupload":
            paths = [file["path"] for file in json.loads(body)["files"]]
            kinds = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
            self.send_json({"files": kinds})
        else:
            assert (verb, revision, url.query) == ("commit", "main", "create_pr=1")
            lines = [json.loads(line) for line in body.splitlines()]
            files = [line["value"] for line in lines if line["key"] == "file"]
            self.hub.pulls[f"{owner}/{name}"] = {file["path"]: base64.b64decode(file["content"]) for file in files}
            where = f"{self.hub.address}/{owner}/{name}"
            told = {
                "commitUrl": f"{where}/commit/{COMMIT}",
                "commitOid": COMMIT,
                "pullRequestUrl": f"{where}/discussions/1",
            }
            self.send_json(told)

    def answer_api(self, parts: list[str], query: str) -> None:
        kind, cut = parts[0].removesuffix("s"), next(i for i, p in enumerate(parts) if p in ("revision", "tree"))
        repo, verb, revision, inside = "/".join(parts[1:cut]), parts[cut], parts[cut + 1], "/".join(parts[cut + 2 :])
        files = self.hub.at(kind, repo, revision)
        if files is None:
            self.send_json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        elif verb == "revision":
            sha = revision if len(revision) == 40 else self.hub.commit_of(kind, repo, revision)
            self.send_json({"id": repo, "sha": sha})
        else:
            listed = [self.entry(path, data) for path, data in sorted(files.items()) if path.startswith(inside)]
            start = int(query.partition("cursor=")[2] or 0)
            further = start + self.hub.page
            headers = {}
            if further < len(listed):
                base = self.path.partition("&cursor=")[0]
                headers["Link"] = f'<{self.hub.address}{base}&cursor={further}>; rel="next"'
            self.send_json(listed[start:further], headers=headers)

    def entry(self, path: str, data: bytes) -> dict[str, Any]:
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        large = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return {"type": "file", "oid": git, "size": len(data), "path": path} | (
            {"lfs": large} if len(data) > self.hub.large else {}
        )

    def resolve(self, parts: list[str]) -> None:
        kind = "dataset" if parts[0] == "datasets" else "model"
        parts = parts[1:] if kind == "dataset" else parts
        cut = parts.index("resolve")
        repo, revision, path = "/".join(parts[:cut]), parts[cut + 1], "/".join(parts[cut + 2 :])
        data = (self.hub.at(kind, repo, revision) or {}).get(path)
        if data is None:
            self.send_json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        elif len(data) > self.hub.large:
            host = self.hub.address.replace("127.0.0.1", "localhost")
            self.send_response(302)
            self.send_header("Location", f"{host}/store/{kind}/{repo}/{revision}/{path}")
            self.send_header("X-Repo-Commit", revision)
            self.send_header("X-Linked-Etag", hashlib.sha256(data).hexdigest())
            self.send_header("X-Linked-Size", str(len(data)))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.send_file(path.rpartition("/")[2], data)

    def send_file(self, name: str, data: bytes) -> None:
        faults = self.hub.faults.get(name, []) if self.command == "GET" else []
        fault = faults.pop(0) if faults else ""
        if fault.isdecimal():
            self.send_json({"error": "busy"}, int(fault), {"Retry-After": "1"} if fault == "429" else {})
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        body = data[start:]
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "wrong":
            body = bytes(byte ^ 1 for byte in body)
        if self.command == "HEAD":
            return
        self.wfile.write(body[: len(body) // 2] if fault in ("cut", "stall") else body)
        if fault == "stall":
            self.wfile.flush()
            self.hub.stalled.set()
            time.sleep(30)
        if fault in ("cut", "stall"):
            self.close_connection = True

    def send_json(self, data: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[FakeHub]:
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
