"""Secrets, and texts without them: the one place that cuts them out of messages and logs.

A secret is kept where it is read, and taken out of all texts from there on, in each form in which a
library may write it. What looks like the user of an address, a setting of a login, or a header that
carries one is cut out of any text, whether it was kept or not.
"""

import json
import logging
import re
from base64 import b64encode
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"

# Shorter ones are parts of too many words; no text has them but as what is cut below.
_SHORTEST = 4

_USER = re.compile(r"(?<=://)[^\s/?#'\"<>]+@")
_SETTING = re.compile(
    r"((?:password|passwd|secret|token|user\.info|secret[._]key)=)"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;,&\"']+)",
    re.IGNORECASE,
)
# No user and password begins as "authentication" and "credentials" do, in base64.
_HEADER = re.compile(r"\b(Basic(?! [Aa]uth| [Cc]red)|Bearer) [A-Za-z0-9._~+/-]{8,}=*")
# A token for Amazon MSK, a signed address in base64.
_SIGNED = re.compile(r"\baHR0cHM6Ly9rYWZrYS[A-Za-z0-9_-]{40,}")

_forms: set[str] = set()
_known = re.compile(r"(?!)")


def keep_secret(secret: str | None) -> None:
    """Take a secret out of all texts from now on."""
    global _known
    if secret is None or len(secret) < _SHORTEST:
        return
    plain = {secret, unquote(secret)}
    forms = {
        form for one in plain for form in (one, quote(one, safe=""), quote(one), quote_plus(one))
    }
    forms |= {repr(one)[1:-1] for one in plain} | {json.dumps(one)[1:-1] for one in plain}
    # As in Java's configuration of a login.
    forms |= {one.replace("\\", "\\\\").replace('"', '\\"') for one in plain}
    if forms <= _forms:
        return
    _forms.update(forms)
    _known = re.compile("|".join(map(re.escape, sorted(_forms, key=len, reverse=True))))


def redacted(text: str) -> str:
    """Return a text without secrets."""
    text = _known.sub(HIDDEN, text)
    text = _USER.sub("", text)
    text = _SIGNED.sub(HIDDEN, text)
    text = _SETTING.sub(rf"\1{HIDDEN}", text)
    return _HEADER.sub(rf"\1 {HIDDEN}", text)


def redacted_all(value: Any) -> Any:
    """Return a value, or what lists and dicts are made of, without secrets in its texts."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {name: redacted_all(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_all(one) for one in value]
    return value


def without_user(address: str) -> str:
    """Return an address without its user and password, which are kept secret. Where they have
    characters that no address may have, all up to the last @ is taken for them.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "", address
    user, _, place = rest.rpartition("@")
    if user:
        name, _, password = user.partition(":")
        keep_secret(password or name)
        keep_secret(b64encode(unquote(user).encode()).decode())
    return f"{scheme}{separator}{place}"


class RedactedRecord(logging.LogRecord):
    """A record of any library's log, without secrets."""

    def getMessage(self) -> str:  # noqa: N802  its name in the library
        """Return the message. Its trace is made here, before a formatter makes one."""
        if self.exc_info and not self.exc_text:
            self.exc_text = redacted(logging.Formatter().formatException(self.exc_info))
        return redacted(super().getMessage())
