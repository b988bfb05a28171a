"""Secrets, and texts without them: the one place that cuts them out of messages and logs.

A secret is kept where it is read, and taken out of all texts from there on, in each form in which a
library may write it. Texts that look like the user of an address, a setting of a login, or a header
that carries one are cut out of any text, whether they were kept or not.
"""

import json
import logging
import re
from base64 import b64encode
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"

# Shorter ones are parts of too many words; no text has them but as what is cut below.
_SHORTEST = 4
# A header's value at the least; a shorter one may as well be a name.
_SHORTEST_VALUE = 8
_OF_A_SECRET = re.compile("auth|key|token|secret|pass", re.IGNORECASE)

# Patterns for texts of any length: repetitions are bounded, so that the time is linear in the
# length.

# A user and a password, also with what an address has behind its host, unless the password looks
# like a port; after one slash, as a path has them.
_USER = re.compile(
    r"(?:(?<=://)|(?<=:/)(?!/))(?:[^\s/?#'\"<>]{1,2000}@"
    r"|[^\s/?#@:'\"<>]{0,200}:(?!\d{1,5}[/?#])[^\s'\"<>]{1,500}@"
    r"|[^\s'\"<>]{1,500}@(?=[\w.-]{1,200}:\d{1,5}(?!\d)))"
)
# Where the scheme is missing, or has a slip: before a host with its port.
_LOOSE_USER = re.compile(
    r"(?<![\w.%-])[^\s/:@'\"<>=,]{0,100}:(?!//)[^\s'\"<>]{1,500}@(?=[\w.-]{1,200}:\d{1,5}(?!\d))"
)
_NAME = (
    r"(?:pass(?:word|wd|phrase)|\bpwd|secret|token|signature|credential|\bsig|user\.info"
    r"|(?:api|access|account|secret)[-_.]?key|AccountKey|account\.key\.[\w.-]{1,200}"
    r"|x-amz-[\w-]{1,40})"
)
_SETTING = re.compile(
    rf"({_NAME}(?:=|%3D|['\"]\s*[:=]\s*(?=['\"])))"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;,&\"']+)",
    re.IGNORECASE,
)
# A secret in an address may contain what ends a setting.
_PARAMETER = re.compile(rf"(?<=[?&#;])([\w.~-]{{0,40}}?{_NAME}=)([^&#\s'\"<>]+)", re.IGNORECASE)
# No user and password is one plain word in base64, as in "Basic Constraints of CA cert" of OpenSSL.
_WORD_END = r"(?![\w~+/=-]|\.\w)"
_HEADER = re.compile(
    rf"(\b(?:Basic(?! [A-Z]?[a-z]+{_WORD_END})"
    rf"|Bearer(?! (?i:authentication|credentials){_WORD_END}))"
    r"|(?i:\bauthorization['\"]?[:=] ?['\"]?\w{1,30}))"
    r" [A-Za-z0-9._~+/-]{8,}=*"
)
# A token for Amazon MSK, a signed address in base64.
_SIGNED = re.compile(r"\baHR0cHM6Ly9rYWZrYS[A-Za-z0-9_-]{40,}")
_KEY = re.compile(r"(?s)-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)")
# Parts of an address: a parameter, its value if it may be a secret, all of them, and a port that is
# not one.
_BETWEEN = re.compile(r"[\s,]+(?=[A-Za-z][\w+.-]*://)")
_SCHEME = re.compile(r"\s*[A-Za-z][\w+.-]*")
_ASKED = re.compile(r"[?&#][\w.~-]+=")
_VALUE = re.compile(r"[?&#][\w.~-]+=([^&#]{8,})")
_BEHIND = re.compile(r"(?s)([?#]).+")
_NO_PORT = re.compile(r"(?s)\A([^:/?#\[\]]*:|\[[^\]]*\]:)(?!\d*(?:[/?#,]|\Z)).*")

_ESCAPE = re.compile("%[0-9A-F]{2}")

_forms: set[str] = set()
_known = re.compile(r"(?!)")


def keep_secret(secret: str | None) -> None:
    """Take a secret out of all texts from now on."""
    global _known
    if secret is None or len(secret) < _SHORTEST:
        return
    # Without blanks around it, as those that cut them off have it.
    plain = {secret, unquote(secret), secret.strip(), unquote(secret).strip()}
    encoded = {one: one.encode(errors="surrogateescape") for one in plain}
    forms = plain | {
        form for it in encoded.values() for form in (quote(it, safe=""), quote(it), quote_plus(it))
    }
    forms |= {_ESCAPE.sub(lambda found: found[0].lower(), form) for form in forms}
    forms |= {repr(one)[1:-1] for one in plain} | {json.dumps(one)[1:-1] for one in plain}
    forms |= {ascii(one)[1:-1] for one in plain} | {repr(it)[2:-1] for it in encoded.values()}
    forms |= {json.dumps(one, ensure_ascii=False)[1:-1] for one in plain}
    # Escaped as in Java's configuration of a login, and as on a page.
    forms |= {one.replace("\\", "\\\\").replace('"', '\\"') for one in plain}
    forms |= {escape(one) for one in plain} | {escape(one, quote=False) for one in plain}
    forms = {form for form in forms if len(form) >= _SHORTEST}
    if forms <= _forms:
        return
    _forms.update(forms)
    _known = re.compile("|".join(map(re.escape, sorted(_forms, key=len, reverse=True))))


def keep_header(name: str, value: str) -> None:
    """Cut a header's value out of all texts, unless it is short and its name does not suggest a
    secret: a tenant's name would be cut out of names of topics.
    """
    if len(value) >= _SHORTEST_VALUE or _OF_A_SECRET.search(name):
        keep_secret(value)


def redacted(text: str) -> str:
    """Return a text without secrets."""
    text = _known.sub(HIDDEN, text)
    text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    if "@" in text:
        text = _LOOSE_USER.sub("", _USER.sub("", text))
    text = _KEY.sub(HIDDEN, _SIGNED.sub(HIDDEN, text))
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
    """Return an address to be shown: without its user, password and parameters, which are kept
    secret. Where they have characters that no address may have, all up to the last @ is taken for
    them. Letters in the place of a port may be a password without a host.
    """
    if len(several := _BETWEEN.split(address)) > 1:
        for one in several:
            without_user(one)
    scheme, separator, rest = address.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        scheme, separator, rest = "", "", address
    user, _, place = rest.rpartition("@")
    if user:
        name, _, password = user.partition(":")
        keep_secret(password or name)
        keep_secret(user.rpartition(":")[2])  # A scheme with a slip has a colon, too.
        keep_secret(b64encode(unquote(user).encode(errors="surrogateescape")).decode())
    if _ASKED.search(user):
        place = HIDDEN  # The @ was in a parameter, and what is behind it as well.
    for value in _VALUE.findall(rest):
        keep_secret(value)
    place = _NO_PORT.sub(rf"\1{HIDDEN}", place, count=1)
    place = _BEHIND.sub(rf"\1{HIDDEN}", place)
    return f"{scheme}{separator}{place}"


class RedactedRecord(logging.LogRecord):
    """A record of any library's log, without secrets."""

    def getMessage(self) -> str:  # noqa: N802  its name in the library
        """Return the message. Its trace is made here, before a formatter makes one."""
        if self.exc_info and not self.exc_text:
            self.exc_text = redacted(logging.Formatter().formatException(self.exc_info))
        return redacted(super().getMessage())
