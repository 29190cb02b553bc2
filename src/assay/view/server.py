"""`assay view`: pages over HTTP, on this machine unless told otherwise."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from assay.errors import AssayError, ConfigError, install_hint
from assay.scratch import scratch_directory
from assay.show import PALETTE_FILE
from assay.view import downloads
from assay.view.analysis_pages import PAGES, analysis_page
from assay.view.background import PATIENCE
from assay.view.notes import Note, note_from
from assay.view.render import render
from assay.view.security import RequestGuard
from assay.view.site import NotFound, Site, live_part, run_page, runs_page
from assay.view.task_pages import (
    TaskPlace,
    asked_query,
    other_file,
    place_with_samples,
    sample_page,
    samples_page,
    task_page,
    whole,
)
from assay.view.trends import trend_page, trend_rows

MOST_BODY = 1 << 17
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


class ServerLinks:
    """Addresses of pages. Templates know no other way to make one; a bundle has `BundleLinks` in its place."""

    live = True
    """Whether a server answers: then pages can be searched, sorted and downloaded."""

    def static(self, name: str) -> str:
        return f"/static/{name}"

    def runs(self, **query: Any) -> str:
        return _address("/", query)

    def run(self, run_id: str, **query: Any) -> str:
        return _address(f"/run/{run_id}", query)

    def live_part(self, run_id: str) -> str:
        return f"/live/{run_id}"

    def task(self, run_id: str, task: str, **query: Any) -> str:
        return _address(f"/task/{run_id}/{quote(task, safe='')}", query)

    def samples(self, run_id: str, task: str, **query: Any) -> str:
        return _address(f"/samples/{run_id}/{quote(task, safe='')}", query)

    def sample(self, run_id: str, task: str, doc_id: int, **query: Any) -> str:
        return _address(f"/sample/{run_id}/{doc_id}/{quote(task, safe='')}", query)

    def trend(self, **query: Any) -> str:
        return _address("/trend", query)

    def compare(self, run_ids: Sequence[str], **query: Any) -> str:
        return self.analysis("compare", run_ids, **query)

    def analysis(self, name: str, run_ids: Sequence[str], **query: Any) -> str:
        return _address(f"/{name}", {**query, "run": list(run_ids)})


def _address(path: str, query: Mapping[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value not in (None, "", False, [])}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


LINKS = ServerLinks()


def create_app(
    directories: Sequence[Path], *, scratch: Path, host: str = "127.0.0.1", token: str | None = None
) -> RequestGuard:
    """The application, guard included."""
    site = Site(directories, scratch)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        yield
        site.close()

    handlers = Handlers(site)
    routes = [
        Route("/", shown(handlers.runs)),
        Route("/run/{run_id}", shown(handlers.run)),
        Route("/live/{run_id}", shown(handlers.live)),
        Route("/task/{run_id}/{task:path}", shown(handlers.task)),
        Route("/samples/{run_id}/{task:path}", shown(handlers.samples)),
        Route("/sample/{run_id}/{doc_id:int}/{task:path}", shown(handlers.sample)),
        *(Route(f"/{name}", shown(partial(handlers.analysis, name))) for name in PAGES),
        Route("/trend", shown(handlers.trend)),
        Route(handlers.note_path, handlers.note, methods=["POST"]),
        Route("/static/plotly.min.js", plotly_script),
        Route("/static/palette.css", palette),
        Mount("/static", StaticFiles(directory=static_directory())),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: not_found, 500: failed})
    return RequestGuard(
        app, hosts=LOOPBACK_NAMES if is_loopback(host) else None, token=token, writes=handlers.note_path
    )


log = logging.getLogger(__name__)
Handler = Callable[[Request], Response]


def shown(handler: Handler) -> Handler:
    """The handler, with a page where it finds nothing or a file cannot be read."""

    def wrapped(request: Request) -> Response:
        try:
            return handler(request)
        except NotFound as error:
            return html("error.html", 404, title="Not found", message=str(error), hint=None)
        except AssayError as error:
            return html("error.html", 422, title="This cannot be shown", message=error.message, hint=error.hint)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if not {"run_id", "task"} & request.path_params.keys():
                raise
            log.exception("a page about a run")
            message = f"A file of this run is not as Assay writes it ({type(error).__name__}: {error})."
            return html("error.html", 422, title="This cannot be shown", message=message, hint=None)

    return wrapped


class Handlers:
    """One method a page. They are plain functions: each request runs in a thread with its own cursor."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.note_path = f"/note/{secrets.token_urlsafe(16)}"
        """Where notes are sent. No other site can know it, so none can make a browser write one."""

    def runs(self, request: Request) -> Response:
        context = runs_page(self.site, request.query_params)
        if form := wants(request):
            return attachment(downloads.run_list(context["runs"]), form, "runs")
        return html(
            "runs.html", pages={name: page.title for name in PAGES if (page := PAGES[name]).least > 1}, **context
        )

    def run(self, request: Request) -> Response:
        run_id = request.path_params["run_id"]
        if form := wants(request):
            result = self.site.results_of(self.site.run_of(run_id))
            return attachment(downloads.score_rows(result), form, f"scores-{run_id}")
        return html("run.html", **run_page(self.site, run_id))

    def live(self, request: Request) -> Response:
        return html("_live.html", **live_part(self.site, request.path_params["run_id"]))

    def task(self, request: Request) -> Response:
        run_id, name = request.path_params["run_id"], request.path_params["task"]
        context = task_page(self.site, run_id, name, request.query_params)
        if form := wants(request):
            result = self.site.results_of(self.site.run_of(run_id))
            rows = (row for row in downloads.score_rows(result) if row["name"] == name)
            return attachment(rows, form, f"task-{run_id}")
        return html("task.html", **context)

    def samples(self, request: Request) -> Response:
        run_id, name = request.path_params["run_id"], request.path_params["task"]
        if form := wants(request):
            at, file = place_with_samples(self.site, run_id, name)
            _, other = other_file(self.site, request.query_params, name)
            rows = self.site.samples.download(file, asked_query(self.site, at, request.query_params, file), other)
            return attachment(downloads.sample_rows(rows, self._notes(at)), form, f"samples-{run_id}")
        return html("samples.html", **samples_page(self.site, run_id, name, request.query_params))

    def sample(self, request: Request) -> Response:
        run_id, name, doc_id = (request.path_params[key] for key in ("run_id", "task", "doc_id"))
        if form := wants(request):
            at, file = place_with_samples(self.site, run_id, name)
            rows = self.site.samples.doc(file, doc_id)
            return attachment(downloads.sample_rows(rows, self._notes(at)), form, f"sample-{run_id}-{doc_id}")
        context = sample_page(self.site, run_id, name, doc_id, request.query_params)
        return html("sample.html", **context, note_path=self.note_path, here=str(request.url.query))

    def _notes(self, at: TaskPlace) -> dict[int, Note]:
        return self.site.notes.of(at.run).of_task(at.node.name)

    async def note(self, request: Request) -> Response:
        """Keep what somebody wrote about a doc, and go back to it."""
        if int(request.headers.get("content-length") or 0) > MOST_BODY:
            return html("error.html", 413, title="Too long", message="A note has at most 10,000 characters.", hint=None)
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))
        return await run_in_threadpool(shown(lambda request: self._keep(form)), request)

    def _keep(self, form: Mapping[str, str]) -> Response:
        run_id, task = form.get("run", ""), form.get("task", "")
        at, file = place_with_samples(self.site, run_id, task)
        doc_id = whole(form.get("doc"), -1, -1, 2**62)
        rows = self.site.samples.doc(file, doc_id)
        if not rows:
            raise NotFound(f"There is no doc {doc_id} in {task!r}.")
        self.site.notes.write(at.run, note_from(form, task, doc_id, rows[0]["doc_hash"] or ""))
        query = {name: value for name, value in parse_qsl(form.get("here", "")) if name != "download"}
        return RedirectResponse(LINKS.sample(run_id, task, doc_id, **query), 303)

    def analysis(self, name: str, request: Request) -> Response:
        form, chosen = wants(request), request.query_params.getlist("run")
        context = analysis_page(self.site, name, chosen, LINKS, request.query_params, 60.0 if form else PATIENCE)
        if form:
            return attachment(context["shown"].rows, form, name)
        return html("findings.html", **context)

    def trend(self, request: Request) -> Response:
        form = wants(request)
        context = trend_page(self.site, request.query_params, 60.0 if form else PATIENCE)
        if form:
            return attachment(trend_rows(context), form, "trend")
        return html("trend.html", **context)


def html(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    # Half a surrogate pair is text in JSON, and nothing that can be sent.
    return HTMLResponse(render(template, link=LINKS, **context).encode("utf-8", "replace"), status)


def wants(request: Request) -> str | None:
    form = request.query_params.get("download")
    return form if form in downloads.FORMATS else None


def attachment(rows: Any, form: str, name: str) -> StreamingResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(downloads.encode(rows, form), media_type=downloads.FORMATS[form], headers=headers)


def not_found(request: Request, error: Exception) -> Response:
    return html("error.html", 404, title="Not found", message="There is no such page.", hint=None)


def failed(request: Request, error: Exception) -> Response:
    return html(
        "error.html",
        500,
        title="This page failed",
        message=f"{type(error).__name__}: {error}",
        hint="The server's log has the details.",
    )


def static_directory() -> Path:
    return Path(__file__).parent / "static"


def plotly_file() -> Path:
    """The script that comes with the plotly package; nothing is fetched from the network."""
    import importlib.util

    spec = importlib.util.find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("plotly is not installed", hint=install_hint("view"))
    return Path(next(iter(spec.submodule_search_locations))) / "package_data" / "plotly.min.js"


def plotly_script(request: Request) -> Response:
    return FileResponse(plotly_file(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})


def palette(request: Request) -> Response:
    return FileResponse(PALETTE_FILE, media_type="text/css")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    directories: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    open_browser: bool = True,
    ready: Callable[[str], None] = print,
    first: str = "/",
) -> None:
    """Serve until interrupted. `ready` is told the address of the `first` page once the server listens."""
    import uvicorn

    listener = listen(host, port)
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    shown = f"[{host}]" if ":" in host else host
    secret = f"{'&' if '?' in first else '?'}token={token}" if token else ""
    address = f"http://{shown}:{listener.getsockname()[1]}{first}{secret}"
    with scratch_directory("view") as scratch:
        app = create_app(directories, scratch=scratch, host=host, token=token)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        ready(address)
        if open_browser:
            webbrowser.open(address)
        uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # from here on a browser that is opened too early waits instead of failing
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="Use another --port; 0 picks a free one."
        ) from error
    return listener
