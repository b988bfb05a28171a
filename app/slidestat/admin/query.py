"""Ask a worker for the live figures of a key."""

import http.client
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from slidestat.client.client import PATIENCE_S, Client
from slidestat.declare.declared import Declared
from slidestat.errors import SlidestatError
from slidestat.faust.data_folder import user_folders
from slidestat.web.address import WORKER_HEADER, announcements

_PROBE_S = 5.0

Answer = TypeVar("Answer")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects that are followed as aiohttp does: to another server without the token."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        is_same = before[:2] == after[:2]
        is_made_safe = (before.scheme, after.scheme) == ("http", "https")
        if followed and not is_same and not (is_made_safe and before.hostname == after.hostname):
            followed.remove_header("Authorization")
        return followed


# No proxy: workers are near.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Redirects)


class _WaitingClient(Client):
    """A client that waits for each answer: its coroutines never leave the caller's thread.

    Importing aiohttp and asyncio takes as long as all else that `slidestat query` does.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close nothing: each answer closes its connection."""

    async def fetch(self, address: str) -> tuple[int, bytes]:
        """Return the status and the body, as `Client` does."""
        request = urllib.request.Request(address, headers=self.headers)  # noqa: S310 - it was checked
        try:
            with _opener.open(request, timeout=PATIENCE_S) as response:
                return response.status, response.read()
        except HTTPError as refusal:
            with refusal:
                self.check_redirect(refusal.code, address, refusal.url)
                return refusal.code, refusal.read()
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise error.reason from error
            raise OSError(str(error.reason)) from error
        except http.client.HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error


def find_worker(topology: Declared, data_dir: Path | None = None) -> str:
    """Return the URL of a worker of `topology` that runs on this machine with the data folder
    `data_dir`, or one in it, as several workers of one command have; without `data_dir`, of one
    that this user has started, wherever its data folder is.

    Raises SlidestatError if none answers.
    """
    own = user_folders(topology.application_id)
    base = data_dir or own
    for announced in announcements([base, *sorted(base.glob("worker-*"))]):
        try:
            # Another server may have the port of a worker that was killed.
            with _opener.open(f"{announced.url}/healthz", timeout=_PROBE_S) as response:
                if response.headers.get(WORKER_HEADER) == announced.worker:
                    return announced.url
        except (OSError, http.client.HTTPException, ValueError):
            continue
    raise SlidestatError(
        f"No worker of {topology.name!r} was found on this machine: "
        + (
            f"no worker that answers uses the data folder {data_dir}."
            if data_dir
            else f"none that answers is in {own}."
        ),
        "Start one with `slidestat run`. If another user has started it, give its --data-dir here,"
        " too; if it runs on another machine, give --url with the URL that it printed.",
    )


def ask(
    url: str, question: Callable[[Client], Coroutine[Any, Any, Answer]]
) -> tuple[Answer, bytes]:
    """Return the answer of the worker at `url` to a question, and the JSON that it came in.

    Raises SlidestatError for an error in the worker's answer, and where none answers.
    """

    client = _WaitingClient(url)
    try:
        question(client).send(None)
    except StopIteration as answered:
        return answered.value, client.last_json
    raise RuntimeError("a question left the thread of who asked it")
