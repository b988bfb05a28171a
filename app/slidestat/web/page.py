"""The live page: a few files, open to every client of the worker: they have no data.

The page asks the API's routes, with the token if there is one. It may load nothing from elsewhere,
run no script but these files, and be shown inside no other page.
"""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

PAGE_PATH = "/"
STATIC_PATH = "/static/"

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Asked for each time, and sent only when it has changed: a new version is there at once.
    "Cache-Control": "no-cache",
}


class Page:
    """The files of the page, read once; no other file is served."""

    def __init__(self) -> None:
        self._files = dict(_files(files("slidestat.web") / "static"))

    def add_to(self, app: web.Application) -> None:
        """Route to the files."""
        app.add_routes(
            [
                web.get(PAGE_PATH, self.index),
                web.get(STATIC_PATH + "{path:.+}", self.file),
            ]
        )

    async def index(self, request: web.Request) -> web.Response:
        """Serve the page itself."""
        return self._response(request, "index.html")

    async def file(self, request: web.Request) -> web.Response:
        """Serve a file that the page loads."""
        return self._response(request, request.match_info["path"])

    def _response(self, request: web.Request, path: str) -> web.Response:
        body = self._files.get(path)
        if body is None:
            raise web.HTTPNotFound
        tag = hashlib.sha256(body).hexdigest()
        response = web.Response(
            body=body, content_type=_TYPES[path[path.rindex(".") :]], charset="utf-8"
        )
        if any(known.value == tag for known in request.if_none_match or ()):
            response = web.Response(status=304)
        response.headers.update(_HEADERS)
        response.etag = tag
        return response


def is_page(path: str) -> bool:
    """Return whether a request for this path is one for the page or its files."""
    return path == PAGE_PATH or path.startswith(STATIC_PATH)


def _files(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(tuple(_TYPES)):
            found.append((prefix + entry.name, entry.read_bytes()))
    return found
