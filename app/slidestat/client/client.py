"""An asynchronous client of running workers: their questions with typed answers.

async with Client("http://127.0.0.1:6066") as client:
    answer = await client.query("flights", "JFK", windows=["7d"])
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from slidestat.addresses import checked_address
from slidestat.errors import SlidestatError, shown
from slidestat.options import KEYS_OF_A_PAGE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from slidestat.schemas.query import (
    Fault,
    KeyAlert,
    KeyAnswer,
    KeyHistory,
    KeyPage,
    RankingAnswer,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
)
from slidestat.schemas.sequence import decode_key_answer, decode_key_history, decode_ranking
from slidestat.web.address import check_token, read_token

if TYPE_CHECKING:
    import asyncio

    import aiohttp

Answer = TypeVar("Answer")

# A worker on the way through a large batch answers after it, and ranks all keys within half.
PATIENCE_S = 60.0
# Proxies take addresses of 8 KiB, a worker of 32: none refuses a shorter one for its length.
_LONG = 8_000
_fault = msgspec.json.Decoder(Fault).decode
_topologies = msgspec.json.Decoder(TopologyList).decode
_keys = msgspec.json.Decoder(KeyPage).decode
_status = msgspec.json.Decoder(TopologyStatus).decode


class Client:
    """A client of the worker at `url`, which answers for all workers of its group.

    Each method raises SlidestatError if the worker answers with an error, or none answers.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        """Create the client. Without a `token` it takes that of SLIDESTAT_WEB_TOKEN, or of the file
        that SLIDESTAT_WEB_TOKEN_FILE names. Raises SlidestatError for what is no URL.
        """
        seen = checked_address(url, "worker", "http://127.0.0.1:6066")
        if seen != url:
            raise SlidestatError(
                f"The URL of the worker at {seen} has a user in it, and workers know of none.",
                f"Leave it out; a token is in {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}.",
            )
        self._url = url.rstrip("/")
        if token is not None and not isinstance(token, str):
            raise SlidestatError("`token` is no text.", "Give it as a str.")
        if token:
            check_token(token, "`token`")
        token = read_token() if token is None else token
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.last_json = b""
        """The newest answer, as the worker sent it."""

    async def __aenter__(self) -> Self:
        """Open the connections. No proxy is asked: workers are near, and a token is for them."""
        # The command asks by other means, and aiohttp takes a third of its time to import.
        import asyncio

        import aiohttp

        if self._session is not None and not self._session.closed:
            raise SlidestatError(
                f"The client of {self._url} is open already.", "Ask it, or create another one."
            )
        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(
            headers=self.headers, timeout=aiohttp.ClientTimeout(PATIENCE_S)
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close them."""
        if self._session is not None:
            await self._session.close()

    async def topologies(self) -> list[TopologyDescription]:
        """Return the topologies of the worker."""
        return (await self._ask(_topologies)).topologies

    async def status(self, topology: str) -> TopologyStatus:
        """Return how far all workers have come, and for how many keys each alert fires."""
        return await self._ask(_status, topology, "status")

    async def keys(
        self, topology: str, *, prefix: str = "", after: str = "", limit: int = KEYS_OF_A_PAGE
    ) -> KeyPage:
        """Return a page of the keys that begin with `prefix`. It begins behind the key `after`: for
        the next page, give the `next_after` of this one.
        """
        asked = {"prefix": prefix, "after": after, "limit": limit}
        return await self._ask(_keys, topology, "keys", **asked)

    async def query(
        self,
        topology: str,
        key: str,
        *,
        windows: Sequence[str] = (),
        statistics: Sequence[str] = (),
        quantiles: Sequence[float] = (),
        where: str | None = None,
        ranks: Sequence[float] = (),
        items: Sequence[str] = (),
        ago: str | None = None,
    ) -> KeyAnswer:
        """Return a key's figures with their bounds, and its alerts."""
        if not key:
            raise SlidestatError(
                "The key is empty.", "Name the key to ask for: no event has an empty one."
            )
        return await self._ask(
            decode_key_answer,
            topology,
            "key",
            key=key,
            window=windows,
            statistic=statistics,
            quantile=quantiles,
            rank=ranks,
            item=items,
            where=where,
            ago=ago,
        )

    async def history(self, topology: str, key: str) -> KeyHistory:
        """Return the newest emissions of a key that the output topic has."""
        return await self._ask(decode_key_history, topology, "key/history", key=key)

    async def ranking(
        self,
        topology: str,
        by: str,
        *,
        largest: int | None = None,
        smallest: int | None = None,
        having: str = "",
    ) -> RankingAnswer:
        """Return the keys with the largest or the smallest figures, each with the first and the
        last place that it may have.
        """
        given = {"by": by, "largest": largest, "smallest": smallest, "having": having or None}
        return await self._ask(decode_ranking, topology, "ranking", **given)

    async def alerts(self, topology: str, key: str) -> list[KeyAlert]:
        """Return the alerts of a key that fire, or wait for more ticks to do so."""
        return (await self.query(topology, key)).alerts or []

    async def fetch(self, address: str) -> tuple[int, bytes]:
        """Return the status and the body of what answers at an address; raises OSError or
        ValueError where nothing does. A redirect is followed; to another server it goes without
        the token.
        """
        import asyncio

        from aiohttp import ClientError, ClientResponseError
        from yarl import URL

        if self._session is None or self._session.closed:
            raise SlidestatError(
                f"The client of {self._url} is not open.",
                "Ask within `async with Client(...) as client:`.",
            )
        if asyncio.get_running_loop() is not self._loop:
            raise SlidestatError(
                f"The client of {self._url} was opened in another event loop.",
                "Open one within each `asyncio.run`.",
            )
        try:
            async with self._session.get(URL(address, encoded=True)) as response:
                self.check_redirect(response.status, address, str(response.url))
                return response.status, await response.read()
        except (ClientError, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            # If the session closes, it cancels those who wait for a connection; the user did not.
            if self._session.closed and not (task and task.cancelling()):
                raise SlidestatError(
                    f"The client of {self._url} was closed before the answer came.",
                    "Wait for its answers before you leave `async with Client(...)`.",
                ) from error
            if isinstance(error, asyncio.CancelledError):
                raise
            # The system's words where a connection fails: aiohttp's speak of TLS wherever it asks.
            said = getattr(error, "os_error", error)
            reason = error.message if isinstance(error, ClientResponseError) else str(said)
            raise OSError(" ".join(reason.split()) or type(error).__name__) from error

    def check_redirect(self, status: int, address: str, answered: str) -> None:
        """Raise SlidestatError for a token that did not go along to where a redirect led."""
        asked, led = urlsplit(address), urlsplit(answered)
        if status == 401 and self.headers and (asked[:2] != led[:2]):
            raise SlidestatError(
                f"{self._url} redirects to {led.scheme}://{led.netloc}, and the token does not go"
                " along to another server.",
                f"Give the worker's URL as {led.scheme}://{led.netloc}, with its path if it has"
                " one.",
            )

    async def _ask(
        self,
        decode: Callable[[bytes], Answer],
        topology: str | None = None,
        what: str = "",
        **asked: object,
    ) -> Answer:
        address = self._address(topology, what, asked)
        try:
            status, body = await self.fetch(address)
        except (OSError, ValueError) as error:
            is_late = isinstance(error, TimeoutError)
            reason = f"nothing within {PATIENCE_S:.0f} s" if is_late else str(error)
            raise SlidestatError(
                f"No worker answers at {self._url}: {reason or type(error).__name__}.",
                "Start one with `slidestat run`; it prints its URL.",
            ) from error
        try:
            if status == 200:
                self.last_json = body
                return decode(body)
            fault = _fault(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._strange(status, address) from error
        advice = fault.advice
        if status == 401:
            advice = f"Set {TOKEN_VARIABLE} to the token that the worker was started with."
        raise SlidestatError(fault.error, advice)

    def _strange(self, status: int, address: str) -> SlidestatError:
        """Return the error for an answer that is not in a worker's words."""
        if status >= 500:
            return SlidestatError(
                f"The server at {self._url} answers with status {status}, and not in a worker's"
                " words.",
                "A proxy does so while it reaches no worker: see whether one runs behind it, and"
                " ask again.",
            )
        # A server that does not read a request to its end does not say in whose words it speaks.
        if status in (400, 414, 431) and len(address) > _LONG:
            return SlidestatError(
                f"The question is an address of {len(address):,} characters, and the server at"
                f" {self._url} refuses it with status {status}, as servers do with long ones.",
                "Ask for less at once, such as fewer items; keys have at most 256 characters.",
            )
        return SlidestatError(
            f"The server at {self._url} is no worker of slidestat"
            + (f": it answers with status {status}." if status != 200 else "."),
            "Give the URL that a worker prints when it starts.",
        )

    def _address(self, topology: str | None, what: str, asked: Mapping[str, object]) -> str:
        """Return the address of a question, of all topologies where `topology` is None."""
        if topology == "":
            raise SlidestatError("The topology is empty.", "Name one that the worker runs.")
        if what and not isinstance(topology, str):
            raise SlidestatError(
                f"{shown(topology)} is no name of a topology.", "Name one that the worker runs."
            )
        given = {name: it for name, it in asked.items() if it is not None}
        try:
            path = "" if topology is None else f"/{quote(topology, safe='')}/{what}"
            query = urlencode(given, doseq=True)
        except UnicodeEncodeError as error:
            raise SlidestatError(
                f"{error.object!r} is no Unicode text.",
                "Give texts as records have them, in UTF-8.",
            ) from error
        return f"{self._url}/topologies{path}" + (f"?{query}" if query else "")
