"""Ask a worker for the live figures of a key."""

import asyncio
import http.client
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from slidestat.client import Client
from slidestat.declare.declared import Declared
from slidestat.errors import SlidestatError
from slidestat.faust.data_folder import user_folders
from slidestat.web.address import WORKER_HEADER, announcements

_PROBE_S = 5.0

Answer = TypeVar("Answer")

# No proxy: workers are near.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def find_worker(topology: Declared, data_dir: Path | None = None) -> str:
    """Return the URL of a worker of `topology` that runs on this machine with the data folder
    `data_dir`, or one in it, as several workers of one command have; without `data_dir`, with one
    of the user's.

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
        f"No worker of {topology.name!r} was found on this machine: no worker that answers uses"
        + (f" the data folder {data_dir}." if data_dir else f" a data folder in {own}."),
        "Start one with `slidestat run`. If it was started with --data-dir, give it here,"
        " too; if it runs on another machine, give --url with the URL that it printed.",
    )


def ask(
    url: str, question: Callable[[Client], Coroutine[Any, Any, Answer]]
) -> tuple[Answer, bytes]:
    """Return the answer of the worker at `url` to a question, and the JSON that it came in.

    Raises SlidestatError for an error in the worker's answer, and where none answers.
    """

    async def asked() -> tuple[Answer, bytes]:
        async with Client(url) as client:
            return await question(client), client.last_json

    return asyncio.run(asked())
