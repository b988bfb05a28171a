"""Ask a worker for the live figures of a key."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from slidestat.addresses import checked_address
from slidestat.declare.declared import Declared
from slidestat.errors import SlidestatError
from slidestat.faust.data_folder import user_folders
from slidestat.options import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from slidestat.schemas.query import Fault, KeyAnswer, RankingAnswer
from slidestat.schemas.sequence import decode_key_answer, decode_ranking
from slidestat.web.address import WORKER_HEADER, announcements, read_token

# A worker on the way through a large batch answers after it, and ranks all keys within half.
_TIMEOUT_S = 60.0
_PROBE_S = 5.0

_error_decoder = msgspec.json.Decoder(Fault)

Answer = TypeVar("Answer")

# No proxy: workers are near, and a token is for them only.
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
    url: str,
    topology: str,
    key: str,
    windows: Sequence[str] = (),
    statistics: Sequence[str] = (),
    quantiles: Sequence[float] = (),
    where: str | None = None,
    ranks: Sequence[float] = (),
    items: Sequence[str] = (),
    ago: str | None = None,
) -> tuple[KeyAnswer, bytes]:
    """Return a key's answer, and the JSON that it came in.

    Raises SlidestatError for an error in the worker's answer, and where none answers.
    """
    if not key:
        raise SlidestatError(
            "The key is empty.", "Name the key to ask for: no event has an empty one."
        )
    asked: dict[str, object] = {
        "window": windows,
        "statistic": statistics,
        "quantile": quantiles,
        "rank": ranks,
        "item": items,
        "where": [] if where is None else [where],
        "ago": [] if ago is None else [ago],
    }
    path = f"/topologies/{quote(topology, safe='')}/keys/{quote(key, safe='')}"
    return _answer(url, f"{path}?{urlencode(asked, doseq=True)}", decode_key_answer)


def ask_ranking(
    url: str,
    topology: str,
    by: str,
    largest: int | None = None,
    smallest: int | None = None,
    having: str = "",
) -> tuple[RankingAnswer, bytes]:
    """Return the keys of the largest or the smallest figures, and the JSON that they came in;
    raises SlidestatError as `ask` does.
    """
    given = {"by": by, "largest": largest, "smallest": smallest, "having": having or None}
    asked = {name: value for name, value in given.items() if value is not None}
    path = f"/topologies/{quote(topology, safe='')}/ranking?{urlencode(asked)}"
    return _answer(url, path, decode_ranking)


def _answer(url: str, path: str, decode: Callable[[bytes], Answer]) -> tuple[Answer, bytes]:
    shown = checked_address(url, "worker", "http://127.0.0.1:6066")
    if shown != url:
        raise SlidestatError(
            f"The URL of the worker at {shown} has a user in it, and workers know of none.",
            f"Leave it out; a token is in {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}.",
        )
    token = read_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = _get(f"{url.rstrip('/')}{path}", headers, url)
    try:
        return decode(body), body
    except msgspec.DecodeError as error:
        raise _no_worker(url) from error


def _get(address: str, headers: dict[str, str], url: str) -> bytes:
    try:
        request = urllib.request.Request(address, headers=headers)  # noqa: S310  checked above
        with _opener.open(request, timeout=_TIMEOUT_S) as response:
            body: bytes = response.read()
            return body
    except urllib.error.HTTPError as error:
        try:
            told = _error_decoder.decode(error.read())
        except msgspec.DecodeError:
            raise _no_worker(url) from error
        advice = told.advice
        if error.code == 401:
            advice = f"Set {TOKEN_VARIABLE} to the token that the worker was started with."
        raise SlidestatError(told.error, advice) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SlidestatError(
            f"No worker answers at {url}: {error}.",
            "Start one with `slidestat run`; it prints its URL.",
        ) from error


def _no_worker(url: str) -> SlidestatError:
    return SlidestatError(
        f"What answers at {url} is no worker of slidestat.",
        "Give the URL that a worker prints when it starts.",
    )
