"""Errors for an HTTP client: a status, what is wrong, what to do."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from slidestat.errors import SlidestatError
from slidestat.schemas.query import Fault

_log = logging.getLogger(__name__)

_ADVICE = {404: "GET /openapi.json says what there is.", 405: "Everything here is read with GET."}


class HttpError(Exception):
    """An error that is answered with an HTTP status."""

    def __init__(
        self, status: int, message: str, advice: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = Fault(message, advice)
        self.headers = headers or {}


@contextmanager
def parsing() -> Iterator[None]:
    """Make errors of what a request asks for HttpErrors of an invalid parameter."""
    try:
        yield
    except SlidestatError as error:
        raise HttpError(400, error.message, error.advice) from error


def unavailable(message: str) -> HttpError:
    """Return the error for a state that passes by itself."""
    return HttpError(503, message, "Ask again in a moment.", {"Retry-After": "1"})


def too_many() -> HttpError:
    """Return the error of a worker that is asked more than it can answer beside its work."""
    return HttpError(
        429,
        "The worker is asked more than it answers beside its work.",
        "Ask again in a moment, and one question after the other.",
        {"Retry-After": "1"},
    )


def json_response(
    answer: msgspec.Struct, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Return a response with a struct as its body."""
    return web.Response(
        body=msgspec.json.encode(answer),
        status=status,
        content_type="application/json",
        headers=headers,
    )


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Make every error a JSON body; unexpected ones go to the log, not to the client."""
    try:
        return await handler(request)
    except HttpError as error:
        return json_response(error.body, error.status, error.headers)
    except SlidestatError as error:
        return json_response(Fault(error.message, error.advice), 500)
    except web.HTTPException as error:
        allow = error.headers.get("Allow")
        return json_response(
            Fault(
                f"{error.status} {error.reason}: {request.method} {request.path}.",
                _ADVICE.get(error.status, "Correct the request."),
            ),
            error.status,
            {"Allow": allow} if allow else None,
        )
    except Exception:  # noqa: BLE001  never a trace for a client, nor a connection cut off
        _log.exception("%s %s", request.method, request.path)
        body = Fault("The worker could not answer.", "Its log says why; this is its own fault.")
        return json_response(body, 500)
