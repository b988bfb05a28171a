"""Addresses that may have a user and a password in them."""

import re

from slidestat.errors import SlidestatError
from slidestat.redaction import without_user

_NOT_IN_A_USER = re.compile(r"[/?#@\[\]\s\\]|%(?![0-9A-Fa-f]{2})")

ESCAPES = (
    "Write @ of a user or password as %40, / as %2F, : as %3A, # as %23, ? as %3F and % as %25."
)


def checked_address(address: str, what: str, example: str) -> str:
    """Return an http address without its user and password, to be shown. Raises SlidestatError for
    what is none, and for a user that would have to be escaped: libraries would take a part of it
    for the host, and show that.
    """
    shown = without_user(address)
    scheme, separator, rest = address.partition("://")
    if not separator or scheme.lower() not in ("http", "https") or not shown.partition("://")[2]:
        raise SlidestatError(f"{shown!r} is no {what}'s address.", f'Write it as "{example}".')
    user, _, _ = rest.rpartition("@")
    if _NOT_IN_A_USER.search(user):
        raise SlidestatError(
            f"The {what}'s address has characters in its user or password that are not escaped.",
            ESCAPES,
        )
    return shown
