"""Who may ask: the bearer of the token, or, without one, who is on this machine."""

import hmac

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from yarl import URL

from slidestat.web.address import ip_of
from slidestat.web.errors import HttpError
from slidestat.web.page import is_page

# For probes, which carry no token; their answers show no data.
_OPEN_PATHS = frozenset(("/healthz", "/readyz"))


def guard(token: str | None) -> Middleware:
    """Return a middleware that lets only permitted requests through."""
    expected = None if token is None else f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if expected is None:
            _check_host(request)
        elif request.path not in _OPEN_PATHS and not is_page(request.path):
            _check_token(request, expected)
        return await handler(request)

    return check


def _check_token(request: web.Request, expected: bytes) -> None:
    shown = request.headers.get("Authorization", "")
    scheme, _, rest = shown.partition(" ")
    # The scheme's name may be written in any case.
    given = f"{scheme.capitalize()} {rest.strip()}".encode("utf-8", "replace")
    if not hmac.compare_digest(given, expected):
        raise HttpError(
            401,
            "The request does not carry the worker's token.",
            "Send the header `Authorization: Bearer TOKEN`.",
            {"WWW-Authenticate": 'Bearer realm="slidestat"'},
        )


def _check_host(request: web.Request) -> None:
    """Refuse a request that names another host than this machine.

    A page of a strange site can have its own name resolve to this machine, and a browser would give
    it the answers as its own: only callers that use one of this machine's own names get them.
    """
    try:
        host = URL.build(scheme="http", authority=request.host).host
    except ValueError:
        host = None
    if host is None or ip_of(host) != "loopback":
        raise HttpError(
            403,
            f"The worker answers to names of its own machine, not to {request.host!r}.",
            "Call it as 127.0.0.1, or set a token, as for use from elsewhere.",
        )
