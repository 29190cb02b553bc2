"""The hub's HTTP interface as far as a mirror needs it: which commit a revision is, which files it has, and their bytes.

Endpoint and token are those of `huggingface_hub` (`HF_ENDPOINT`, `HF_TOKEN`). What the hub says of names, sizes and hashes is a
claim to be checked. The token goes to the hub alone: not to the host that it redirects a download to, and into no file.
"""

from __future__ import annotations

import email.utils
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from assay.errors import DataError

CONVERTED = "refs/convert/parquet"
"""The branch in which the hub keeps every dataset as Parquet: `<config>/<split>/0000.parquet`."""
ATTEMPTS = 6
LONGEST_WAIT = 120.0
TIMEOUT = 60.0
MOST_JSON = 256 * 2**20
_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubFile:
    """A file of a repository as its tree lists it."""

    path: str
    size: int
    sha256: str | None
    """Known of large files; of others the hub knows the git hash."""
    git_sha1: str


class HubNotFound(DataError):
    """The hub has no such repository, revision or file, or shows it to nobody."""


class _KeepTokenHome(HTTPRedirectHandler):
    """Redirects lead to stores of other hosts, which get no token."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            made.headers.pop("Authorization", None)
            made.unredirected_hdrs.pop("Authorization", None)
        return made


class HubClient:
    """Asks the hub, again where it is busy or breaks off."""

    def __init__(
        self, endpoint: str | None = None, token: str | None = None, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        if endpoint is None:
            from huggingface_hub import constants, get_token

            endpoint, token = constants.ENDPOINT, token or get_token()
        self.endpoint, self._token, self._sleep = endpoint.rstrip("/"), token, sleep
        self._opener: OpenerDirector = build_opener(_KeepTokenHome())

    def commit(self, kind: str, repo: str, revision: str) -> str:
        """The commit that a branch, tag or commit is now."""
        found = self._json(f"/api/{kind}s/{quote(repo)}/revision/{quote(revision, safe='')}")[0]
        sha = found.get("sha") if isinstance(found, dict) else None
        if not isinstance(sha, str) or not _SHA.fullmatch(sha):
            raise DataError(f"{repo}: the hub does not say which commit {revision} is")
        return sha

    def tree(self, kind: str, repo: str, commit: str, folder: str = "") -> list[HubFile]:
        """All files below a folder of a commit; none where there is no such folder."""
        inside = f"/{quote(folder, safe='')}" if folder else ""
        path: str | None = (
            f"/api/{kind}s/{quote(repo)}/tree/{quote(commit, safe='')}{inside}?recursive=true&expand=false"
        )
        files: list[HubFile] = []
        while path is not None:
            page, path = self._json(path)
            if not isinstance(page, list):
                raise DataError(f"{repo}: the hub's list of files is not a list")
            files += [_hub_file(repo, entry) for entry in page if entry.get("type") == "file"]
        return files

    def download(self, kind: str, repo: str, commit: str, file: HubFile, out: IO[bytes], start: int) -> Iterator[int]:
        """Write the file's bytes from `start` on; gives the count of each block. Ends early where the hub breaks off."""
        prefix = "" if kind == "model" else f"{kind}s/"
        url = f"{self.endpoint}/{prefix}{quote(repo)}/resolve/{commit}/{quote(file.path)}"
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._open(url, headers) as answer:
            if start and answer.status != 206:  # the whole file comes again
                out.seek(0)
                out.truncate()
                yield -start
            left = file.size - out.tell() + 1  # one more than it may have
            while left > 0 and (block := answer.read(min(1 << 18, left))):
                out.write(block)
                left -= len(block)
                yield len(block)

    def text(self, kind: str, repo: str, commit: str, file: HubFile) -> str:
        """A small text file, such as a README, whole: half a card would name other data files."""
        out = io.BytesIO()
        for attempt in range(ATTEMPTS):
            try:
                for _ in self.download(kind, repo, commit, file, out, out.tell()):
                    pass
            except (HTTPException, OSError):
                pass  # as much as came stays, and the rest is asked for
            if out.tell() >= file.size:
                return out.getvalue().decode("utf-8", "replace")
            self._sleep(2.0**attempt)
        raise DataError(
            f"{repo}/{file.path} was cut off {ATTEMPTS} times",
            hint="Run the same command again; what was fetched stays.",
        )

    def _json(self, path: str) -> tuple[Any, str | None]:
        """The answer, and where its next page is."""
        url = urljoin(f"{self.endpoint}/", path)
        for attempt in range(ATTEMPTS):
            try:
                with self._open(url, {"Accept": "application/json"}) as answer:
                    data, link = json.loads(answer.read(MOST_JSON)), answer.headers.get("Link") or ""
                    break
            except (ValueError, HTTPException, OSError) as error:
                if attempt == ATTEMPTS - 1:
                    raise DataError(f"{url}: the hub's answer cannot be read: {error}") from error
                self._sleep(2.0**attempt)
        further = re.search(r'<([^>]+)>;\s*rel="next"', link)
        following = urljoin(url, further[1]) if further else None
        if following is not None and urlsplit(following)[:2] != urlsplit(self.endpoint)[:2]:
            raise DataError(f"{url}: the hub's next page is on another host: {following}")
        return data, following

    def _open(self, url: str, headers: dict[str, str]) -> Any:
        """The open answer. Waits and asks again where the hub says that it is busy, or cannot be reached."""
        given = {"User-Agent": "assay", **headers}
        if self._token:
            given["Authorization"] = f"Bearer {self._token}"
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                return self._opener.open(Request(url, headers=given), timeout=TIMEOUT)
            except HTTPError as error:
                with error:
                    if error.code not in (408, 429, 500, 502, 503, 504) or last:
                        raise _refused(url, error) from error
                    wait = _retry_after(error.headers.get("Retry-After"))
            except (URLError, HTTPException, OSError) as error:
                if last:
                    raise DataError(
                        f"{urlsplit(url).hostname} cannot be reached: {getattr(error, 'reason', error)}",
                        hint="Run the same command again; what was fetched stays.",
                    ) from error
                wait = None
            self._sleep(2.0**attempt if wait is None else wait)
        raise AssertionError("unreachable")


def _retry_after(text: str | None) -> float | None:
    """Seconds that a server asks to wait, which it says as a number or as a date.

    >>> _retry_after("3"), _retry_after(None), _retry_after("100000")
    (3.0, None, 120.0)
    """
    if not text:
        return None
    if text.strip().isdecimal():
        return min(float(text), LONGEST_WAIT)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError):
        return None
    return min(max(0.0, moment - time.time()), LONGEST_WAIT)


def _refused(url: str, error: HTTPError) -> DataError:
    where = urlsplit(url).path
    if error.code in (401, 403):
        return DataError(
            f"the hub shows {where} only to registered users ({error.code})",
            hint="Accept its terms on its page, and set HF_TOKEN. The hub also says this about names that do not exist.",
        )
    if error.code == 404:
        return HubNotFound(f"the hub has no {where}", hint="Check the name; it may have been renamed or removed.")
    return DataError(f"the hub answers {error.code} to {where}", hint="Run the same command again later.")


def _hub_file(repo: str, entry: Any) -> HubFile:
    try:
        path, large = safe_path(entry["path"]), entry.get("lfs") or {}
        return HubFile(path, int(large.get("size", entry["size"])), large.get("oid") or None, str(entry["oid"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{repo}: the hub lists an invalid file: {str(entry)[:120]}") from error


_SEGMENT = re.compile(r"[^\x00-\x1f\x7f/\\:*?\"<>|]+")


def safe_path(path: str) -> str:
    """A path that stays below the directory it is put in, and is one file on every system.

    >>> safe_path("data/train-00000-of-00001.parquet")
    'data/train-00000-of-00001.parquet'
    """
    parts = path.split("/") if isinstance(path, str) else [""]
    for part in parts:
        if part in (".", "..") or not _SEGMENT.fullmatch(part) or len(part.encode()) > 255:
            raise DataError(f"the name {path!r:.120} leads outside the mirror, or is empty", hint="It is not fetched.")
    return path
