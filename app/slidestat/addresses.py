"""Addresses that may have a user and a password in them, and secrets of variables and files."""

import re
from collections.abc import Mapping
from pathlib import Path

from slidestat.errors import SlidestatError
from slidestat.redaction import HIDDEN, keep_header, keep_secret, without_user

_NOT_IN_A_PLACE = re.compile(r"[\s?#\\\x00-\x1f]")
_NOT_IN_A_USER = re.compile(r"[/?#@\[\]\s\\]|%(?![0-9A-Fa-f]{2})")
# Bytes of a variable that are no text, as Python has them.
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")

ESCAPES = (
    "Write @ of a user or password as %40, / as %2F, : as %3A, # as %23, ? as %3F and % as %25."
)


def checked_address(address: str, what: str, example: str) -> str:
    """Return an http address without its user and password, to be shown. Raises SlidestatError for
    what is none, and for a user that would have to be escaped: libraries would take a part of it
    for the host, and show that.
    """
    if not isinstance(address, str):
        kind = type(address).__name__
        raise SlidestatError(f"The {what}'s address is no text: {kind}.", f'Write "{example}".')
    shown = without_user(address)
    scheme, separator, rest = address.partition("://")
    if not separator or scheme.lower() not in ("http", "https") or not shown.partition("://")[2]:
        raise SlidestatError(f"{shown!r} is no {what}'s address.", f'Write it as "{example}".')
    user, _, place = rest.rpartition("@")
    if _NOT_IN_A_USER.search(user):
        raise SlidestatError(
            f"The {what}'s address has characters in its user or password that are not escaped.",
            ESCAPES,
        )
    if shown.endswith(f":{HIDDEN}"):
        raise SlidestatError(
            f"The {what}'s address {shown!r} has a port that is no number.",
            f'Write it as "{example}".',
        )
    # A request's path would be appended behind these, and not be read as a path.
    if _NOT_IN_A_PLACE.search(place):
        raise SlidestatError(
            f"The {what}'s address {shown!r} has a blank, ? or # in it.", f'Write "{example}".'
        )
    return shown


# Variables of slidestat, and of the libraries that it hands settings to.
_OURS = ("KAFKA_", "SCHEMA_REGISTRY_", "SLIDESTAT_", "ALERTMANAGER_", "OTEL_", "AWS_", "SPARK_")
_SECRETS = ("PASSWORD", "TOKEN", "SECRET", "ACCESS_KEY")


def keep_secrets_of(environment: Mapping[str, str]) -> None:
    """Keep all that variables have of secrets, whether anything reads them or not: passwords and
    tokens, users in addresses, and headers.
    """
    for name, value in environment.items():
        is_proxy = name.lower().endswith("_proxy")
        if not (is_proxy or name.startswith(_OURS)):
            continue
        if name.endswith(_SECRETS):
            keep_secret(value.rstrip("\r\n"))
        elif name.endswith("HEADERS"):
            for pair in value.split(","):
                header, _, content = pair.partition("=")
                keep_header(header, content.strip())
        elif "://" in value or is_proxy:
            without_user(value)


def secret(environment: Mapping[str, str], name: str) -> str | None:
    """Return a secret, from its variable or its file, without the line feed that editors and `echo`
    leave, and without a byte order mark.
    """
    value, path = environment.get(name), environment.get(f"{name}_FILE")
    if value and path:
        raise SlidestatError(
            f"Both {name} and {name}_FILE are set.",
            "Unset one of them: it is not clear which holds.",
        )
    if path:
        try:
            value = Path(path).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = (
                (error.strerror or str(error)).lower()
                if isinstance(error, OSError)
                else "it is not text"
            )
            raise SlidestatError(
                f"{name}_FILE names {path}, which cannot be read: {why}.",
                "Name a text file that this process may read, with the secret alone in it.",
            ) from None
    found = (value or "").rstrip("\r\n")
    keep_secret(found)
    if not found.isascii() and _NOT_UTF_8.search(found):
        raise SlidestatError(
            f"The secret of {name} has bytes that are no UTF-8.",
            "Write it in UTF-8: the brokers and servers that ask for it expect that.",
        )
    if path and not found:
        raise SlidestatError(
            f"{name}_FILE names {path}, which is empty.", "Write the secret to it."
        )
    # librdkafka cuts a blank in front off, and sends several lines as they are.
    if found != found.lstrip() or len(found.splitlines()) > 1:
        raise SlidestatError(
            f"The secret of {f'{path} ({name}_FILE)' if path else name} begins with a blank, or has"
            " several lines.",
            "Give the secret alone, in one line.",
        )
    return found or None
