"""Access tokens of an OAuth 2.0 server, for clients that fetch none by themselves.

Source: RFC 6749, section 4.4 (client credentials), and RFC 7628 (SASL OAUTHBEARER). librdkafka and
Kafka's Java clients do the same by settings alone; aiokafka asks its caller for a token.
"""

import asyncio
import base64
import binascii
import json
import math
import ssl
import threading
import time
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode
from urllib.request import Request, urlopen

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from slidestat.errors import SlidestatError
from slidestat.kafka.msk import msk_signer
from slidestat.kafka.settings import CarriedSecurity
from slidestat.redaction import keep_secret, redacted, without_user

_TIMEOUT_S = 10.0
# Part of a token's life after which a new one is fetched; the old one serves until its end.
_RENEWED_AFTER = 0.8


class MskTokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """A signed token for each connection with Amazon MSK; used from any event loop."""

    def __init__(self, region: str) -> None:
        self._region = region

    async def token(self) -> str:
        """Return a token; raises KafkaConnectionError if AWS has no credentials now."""
        return await asyncio.to_thread(self._signed)

    def _signed(self) -> str:
        try:
            return msk_signer(self._region).token()[0]
        except SlidestatError as error:
            raise KafkaConnectionError(error.message) from None


def token_provider(security: CarriedSecurity) -> AbstractTokenProvider | None:
    """Return what gives aiokafka its tokens; None for brokers that want none."""
    settings = security.settings
    if settings.region is not None:
        return MskTokenProvider(settings.region)
    return TokenProvider(security) if settings.has_oauth else None


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """A token for each connection, fetched again before it expires; used from any event loop."""

    def __init__(self, security: CarriedSecurity) -> None:
        self._security = security.settings
        self._shown = without_user(self._security.token_endpoint or "")
        authority = security.contents.get("oauth_ca_file")
        self._authority = None if authority is None else authority.decode("ascii")
        self._lock = threading.Lock()
        self._token = ""
        self._renewed_at = self._ends_at = 0.0

    async def token(self) -> str:
        """Return a token that has not expired; raises KafkaConnectionError if none can be had."""
        return await asyncio.to_thread(self._current)

    def extensions(self) -> dict[str, str]:
        """Return what is sent to the broker with the token."""
        return dict(self._security.extensions)

    def _current(self) -> str:
        with self._lock:
            now = time.monotonic()
            if now >= self._renewed_at:
                try:
                    self._fetch(now)
                except (OSError, HTTPException, ValueError, RecursionError) as error:
                    # The server may be away for a moment: the token that we have is good yet.
                    if now >= self._ends_at:
                        raise KafkaConnectionError(
                            f"no token from {self._shown}: {_reason(error)}"
                        ) from None
            return self._token

    def _fetch(self, now: float) -> None:
        security = self._security
        form = {"grant_type": "client_credentials"}
        if security.scope:
            form["scope"] = security.scope
        # Both are encoded as in a form before they are encoded as a header (RFC 6749, 2.3.1).
        user = f"{quote_plus(security.client_id or '')}:{quote_plus(security.client_secret or '')}"
        request = Request(  # noqa: S310  the settings allow http and https alone
            security.token_endpoint or "",
            urlencode(form).encode(),
            {
                "Authorization": f"Basic {base64.b64encode(user.encode()).decode()}",
                "Accept": "application/json",
            },
        )
        is_secure = request.type == "https"
        context = ssl.create_default_context(cadata=self._authority) if is_secure else None
        with urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:  # noqa: S310
            found: Any = json.loads(answer.read())
        token = found.get("access_token") if isinstance(found, dict) else None
        if not isinstance(token, str) or not token:
            raise ValueError("its answer has no access_token")
        keep_secret(token)
        life_s = _life_s(found, token)
        self._token = token
        self._ends_at = now + life_s
        self._renewed_at = now + _RENEWED_AFTER * life_s


def _life_s(found: dict[str, Any], token: str) -> float:
    """Return how long a token is good: as its answer has it, else as it has itself; else 0."""
    life_s = _seconds(found.get("expires_in"))
    if life_s is not None:
        return life_s
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        ends_at = _seconds(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, RecursionError, binascii.Error):
        return 0.0
    return 0.0 if ends_at is None else ends_at - time.time()


def _seconds(given: object) -> float | None:
    """Return a number that a server gave, also in a text; None if it is none, or has no end."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _reason(error: Exception) -> str:
    """Return why a server gave no token; its own words are in the answer's body."""
    if isinstance(error, HTTPError):
        try:
            found = json.loads(error.read(10_000))
            reason = found.get("error_description") or found.get("error")
        except (OSError, HTTPException, ValueError, RecursionError, AttributeError):
            reason = None
        return redacted(f"{error.code} {reason or error.reason}")
    return redacted(str(getattr(error, "reason", error)))
