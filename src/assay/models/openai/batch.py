"""OpenAI's batch endpoint: all requests in one file, answered within a day at half the price.

What was submitted is written down at once, so that the same command, given again, waits for the same batches and submits
only what no batch holds. A request is known by what it says: results fit whichever command asks for them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from assay.errors import ModelError
from assay.models.base import Stop, never
from assay.models.openai.arguments import sibling_address
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Failed, Job, Unusable, read_json, write_body
from assay.paths import assay_home

T = TypeVar("T")
MOST_REQUESTS = 50_000
"""Of one batch; the endpoint takes no more."""
_OVER = frozenset({"completed", "failed", "expired", "cancelled"})


@dataclass
class Submitted:
    """A batch that was handed over, and the requests in it."""

    id: str
    requests: list[str]
    path: Path

    @classmethod
    def read(cls, path: Path) -> Submitted:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return cls(stored["id"], stored["requests"], path)

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(json.dumps({"id": self.id, "requests": self.requests}), encoding="utf-8")
        os.replace(partial, self.path)


@dataclass
class Batches:
    """Sends jobs by batches. `name` tells servers and models apart; `wait` is how long between two looks, in seconds."""

    transport: Transport
    endpoint: str
    name: str
    wait: float = 30.0
    notify: Callable[[str], None] = field(default=lambda text: None)

    @property
    def folder(self) -> Path:
        return assay_home() / "batches" / hashlib.sha256(self.name.encode()).hexdigest()[:24]

    def send_all(self, jobs: Iterable[Job[T]], stop: Stop = never) -> Iterator[tuple[int, T | Failed]]:
        """Yield each job's value, or why it failed, batch by batch. Told to stop, it leaves the batches to the server."""
        wanted: dict[str, list[tuple[int, Job[T]]]] = {}
        bodies: dict[str, bytes] = {}
        for at, job in enumerate(jobs):
            written = write_body(job.body)
            if isinstance(written, Failed):
                yield at, written
                continue
            known_by = hashlib.sha256(written).hexdigest()
            bodies[known_by] = written
            wanted.setdefault(known_by, []).append((at, job))
        known = map(Submitted.read, sorted(self.folder.glob("*.json")))  # none where there is no such folder
        batches = [batch for batch in known if any(each in wanted for each in batch.requests)]
        under_way = {each for batch in batches for each in batch.requests}
        missing = [known_by for known_by in wanted if known_by not in under_way]
        for start in range(0, len(missing), MOST_REQUESTS):
            batches.append(self._submit(missing[start : start + MOST_REQUESTS], bodies))
        for batch in batches:
            results = self._results(batch, stop)
            if results is None:
                return
            for known_by in batch.requests:
                for at, job in wanted.pop(known_by, ()):
                    yield at, self._read(job, results.get(known_by))
            batch.path.unlink(missing_ok=True)  # its answers are with whoever sent it; only the store needs them now

    def _submit(self, requests: list[str], bodies: dict[str, bytes]) -> Submitted:
        url = "/v1" + self.endpoint
        lines = b"".join(
            b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' % (each.encode(), url.encode(), bodies[each])
            for each in requests
        )
        file = self.transport.upload(self._sibling("/files"), {"purpose": "batch"}, "requests.jsonl", lines)
        body = {"input_file_id": file["id"], "endpoint": url, "completion_window": "24h"}
        made = self.transport.post(self._sibling("/batches"), body)
        batch = Submitted(str(made["id"]), requests, self.folder / f"{made['id']}.json")
        batch.write()
        self.notify(
            f"batch {batch.id}: {len(requests):,} requests submitted; you can stop at any time and continue with the same command"
        )
        return batch

    def _results(self, batch: Submitted, stop: Stop) -> dict[str, Any] | None:
        """The replies by request, once there are any; None when it was told to stop before."""
        while True:
            state = self.transport.get(self._sibling(f"/batches/{batch.id}"))
            if state is None:
                batch.path.unlink(missing_ok=True)
                raise ModelError(
                    f"the server does not know the batch {batch.id}",
                    hint="Run the same command again to submit a new batch.",
                )
            if state.get("status") in _OVER:
                break
            until = time.monotonic() + self.wait
            while time.monotonic() < until:
                if stop():
                    return None
                time.sleep(min(0.2, self.wait))
        results: dict[str, Any] = {}
        for name in ("output_file_id", "error_file_id"):
            if state.get(name):
                content = self.transport.get_bytes(self._sibling(f"/files/{state[name]}/content"))
                for line in content.splitlines():
                    if line.strip():
                        entry = read_json(line)
                        results[str(entry.get("custom_id"))] = entry
        if not results:
            batch.path.unlink(missing_ok=True)
            errors = json.dumps(state.get("errors"))[:300]
            raise ModelError(f"batch {batch.id} is {state['status']} and has no answers: {errors}")
        return results

    def _read(self, job: Job[Any], entry: Any) -> Any:
        if entry is None:
            return Failed("the batch ended without an answer to this request")
        response = entry.get("response") or {}
        if response.get("status_code") != 200:
            said = entry.get("error") or (response.get("body") or {}).get("error") or response
            return Failed(
                f"HTTP {response.get('status_code')}: {json.dumps(said, ensure_ascii=False)[:300]}", refused=True
            )
        try:
            return job.read(response["body"])
        except Unusable as error:
            return Failed(f"unusable reply: {error}")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return Failed(f"malformed reply: {type(error).__name__}: {error}")

    def _sibling(self, path: str) -> str:
        return sibling_address(self.transport.settings.url, self.endpoint, path)
