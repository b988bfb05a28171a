"""Where a worker listens, and what must be shown there."""

import hashlib
import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from uuid import uuid4

import msgspec
from yarl import URL

from slidestat.errors import SlidestatError
from slidestat.options import (
    FIRST_PORT,
    LOOPBACK,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    VIEW_TOKEN_VARIABLE,
)
from slidestat.redaction import keep_secret
from slidestat.user_files import write_whole

# On a request: which worker is meant, and that it is to answer for itself alone. On a response:
# which worker answered.
WORKER_HEADER = "Slidestat-Worker"

# Without a choice, the first of these that is free.
_PORTS = 100

_BACKLOG = 128
# Connections whose other end takes nothing of what is sent to it are given up after as long.
_UNREAD_MS = 15_000
# The characters of a bearer token: RFC 6750, section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


def read_token(variable: str = TOKEN_VARIABLE) -> str | None:
    """Return the bearer token of a variable, or of the file that `variable`_FILE names; None
    without one.

    Raises SlidestatError for a file that cannot be read and for what is no token.
    """
    token, file = os.environ.get(variable), os.environ.get(f"{variable}_FILE")
    if token is not None and file is not None:
        raise SlidestatError(f"Both {variable} and {variable}_FILE are set.", "Unset one of them.")
    source = variable
    if file is not None:
        source = file
        try:
            token = Path(file).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
            raise SlidestatError(
                f"The token in {file} cannot be read: {reason}.",
                f"Name a file with the token in {variable}_FILE.",
            ) from error
    if token is not None:
        check_token(token, source)
    return token


def check_token(token: str, source: str) -> None:
    """Keep a bearer token out of texts; raise SlidestatError, with its source, for none."""
    keep_secret(token)
    if not _TOKEN.fullmatch(token):
        raise SlidestatError(
            f"{source} holds no bearer token.",
            "Use letters, digits and -._~+/, such as `openssl rand -hex 32` prints.",
        )


def _view_token(token: str | None) -> str | None:
    """Return the token that only allows looking; None without one."""
    view = read_token(VIEW_TOKEN_VARIABLE)
    if view is not None and token is None:
        raise SlidestatError(
            f"{VIEW_TOKEN_VARIABLE} is set, and {TOKEN_VARIABLE} is not.",
            "Set both: workers ask each other with the second one.",
        )
    if view is not None and view == token:
        raise SlidestatError(
            f"{VIEW_TOKEN_VARIABLE} and {TOKEN_VARIABLE} hold the same token.",
            "Use two: the first one is for those who only look.",
        )
    return view


@dataclass(frozen=True)
class WebAddress:
    """A socket that listens, its tokens, and the worker's name, which is new in each process.

    Two workers on different machines may both be at 127.0.0.1:6066: the name distinguishes them.
    """

    listener: socket.socket
    host: str
    token: str | None
    view_token: str | None = None
    worker: str = field(default_factory=lambda: uuid4().hex)

    @property
    def url(self) -> str:
        """The URL of the server, such as http://127.0.0.1:6066."""
        # An address of all interfaces is none to call.
        host = self.host if ip_of(self.host) != "any" else socket.gethostname()
        return str(URL.build(scheme="http", host=host, port=self.listener.getsockname()[1]))

    @property
    def canonical_url(self) -> str:
        """The URL with the worker's name, as its group knows it."""
        return str(URL(self.url).with_query(worker=self.worker))


def ip_of(host: str) -> str:
    """Return the sort of place that a host is: "loopback", "any" (all interfaces), or "other"."""
    try:
        address = ip_address(host)
    except ValueError:
        return "loopback" if host == "localhost" else "other"
    if address.is_unspecified:
        return "any"
    return "loopback" if address.is_loopback else "other"


def listen(host: str, port: int | None) -> WebAddress:
    """Listen on a port of `host`, or on the first free one from 6066 on.

    Raises SlidestatError for a host beyond loopback without a token, and where there is no port.
    """
    token = read_token()
    view_token = _view_token(token)
    if token is None and ip_of(host) != "loopback":
        raise SlidestatError(
            f"The web side would be open to anyone who reaches {host}.",
            f"Set {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}, or keep to --web-host {LOOPBACK}.",
        )
    ports = range(FIRST_PORT, FIRST_PORT + _PORTS) if port is None else (port,)
    refusal: OSError | UnicodeError | None = None
    for candidate in ports:
        try:
            return WebAddress(_listener(host, candidate), host, token, view_token)
        except (socket.gaierror, UnicodeError) as error:  # No host: no port of it will do.
            refusal = error
            break
        except OSError as error:
            refusal = error
    at = f"{host}:{ports[0]}" if len(ports) == 1 else f"{host}, ports {ports[0]} to {ports[-1]}"
    why = refusal.strerror if isinstance(refusal, OSError) else "this is no host's name"
    raise SlidestatError(
        f"The web side cannot listen at {at}: {why}.",
        "Give an address of this machine with --web-host, and a free port with --web-port.",
    ) from refusal


def _listener(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; a connection has what its listener has.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
        listener.bind(address)
        # Listening at once: two that are bound to one port would both be content until they listen.
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


# A file in a worker's data folder with the URL at which the worker answers; one that lies elsewhere
# than the user's has another one there, where it is looked for.

_FILE = "web.json"


class Announced(msgspec.Struct, frozen=True):
    """The URL of a worker, and its name."""

    url: str
    worker: str


@contextmanager
def announced(folder: Path, address: WebAddress, base: Path) -> Iterator[None]:
    """Keep a file in the worker's data folder with its URL while the context lasts, and one within
    `base`, which has the user's data folders, unless it cannot be written.
    """
    known = base / f"worker-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    is_there = folder.resolve().parent == base.resolve()
    _announce(folder, address)
    if not is_there:
        with suppress(OSError):
            _announce(known, address)
    try:
        yield
    finally:
        (folder / _FILE).unlink(missing_ok=True)
        if not is_there:
            with suppress(OSError):
                (known / _FILE).unlink()
                known.rmdir()


def _announce(folder: Path, address: WebAddress) -> None:
    write_whole(folder / _FILE, msgspec.json.encode(Announced(address.url, address.worker)))


def announcements(folders: Iterable[Path]) -> Iterator[Announced]:
    """Yield the announcements of workers with these data folders, also left by killed ones."""
    for folder in folders:
        try:
            yield msgspec.json.decode((folder / _FILE).read_bytes(), type=Announced)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # It ended just now, or was killed while it wrote.
