"""Errors that are the user's to correct: what is wrong, and what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches
from unicodedata import category, normalize

from slidestat.redaction import redacted

# Shorter names lie in too many others.
_SHORTEST = 3
# difflib's ratio for one wrong letter in more than three, or another sign in seven.
_NEARLY = 0.85
_SHOWN = 400


class SlidestatError(Exception):
    """An error that a user can correct.

    `message` says in one sentence what is wrong, `advice` in one sentence what to do next.
    The command line prints both and no stack trace. No secret is in either.
    """

    exit_code = 2

    def __init__(self, message: str, advice: str = "") -> None:
        self.message = redacted(message)
        self.advice = redacted(advice)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()


class EndedError(SlidestatError):
    """An error that ends a worker which will work once it, or its parent, starts it again."""

    exit_code = 1


def shown(value: object) -> str:
    """Return a value, or the beginning of a long one, as a message shows it."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write whole numbers of thousands of digits.
        number = "a whole number of thousands of digits"
        return number if isinstance(value, int) else f"a {type(value).__name__} with {number}"
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most likely meant; None where none is like it.

    First one that ends in the name behind an underscore or a dot, as a statistic's own name comes
    before what its figures are (requests_p99); then one spelled nearly so, in whatever case; then
    one in which the name ends, or with which it begins, in the same way (user.at, at_ms); then one
    spelled somewhat so, and one that has the name in it, or lies in it.
    """
    names = list(known)
    asked = folded(name)
    if not asked:
        return None
    plain = {folded(other): other for other in reversed(names)}
    ends = [other for other in plain if other.endswith((f"_{asked}", f".{asked}"))]
    spelled = get_close_matches(asked, plain, n=1, cutoff=_NEARLY)
    its_end = [other for other in plain if asked.endswith((f"_{other}", f".{other}"))]
    its_begin = [other for other in plain if asked.startswith((f"{other}_", f"{other}."))]
    somewhat = get_close_matches(asked, plain, n=1)
    within = [other for other in plain if min(len(asked), len(other)) >= _SHORTEST]
    within = [other for other in within if asked in other or other in asked]
    found = (
        *sorted(ends, key=len),
        *spelled,
        *sorted(its_end, key=len, reverse=True),
        *sorted(its_begin, key=len, reverse=True),
        *somewhat,
        *sorted(within, key=len),
    )
    return next((plain[other] for other in found), None)


def folded(name: str) -> str:
    """Return what names have in common that are the same but for case, spaces, signs that nobody
    sees, and the way in which their letters are written.
    """
    text = normalize("NFKC", name).casefold()
    return "".join(sign for sign in text if category(sign) != "Cf").strip()


def told_apart(name: str, others: Iterable[str]) -> str:
    """Return a name as a message shows it, with escapes where one of the others looks the same."""
    looks = normalize("NFC", name)
    is_like = any(other != name and normalize("NFC", other) == looks for other in others)
    return ascii(name) if is_like else repr(name)


def unknown(error: str, name: str, known: Iterable[str]) -> SlidestatError:
    """Return the error for a name that is none of `known`, with the nearest of them as advice."""
    known = list(known)
    near = near_name(name, known)
    guess = f"Did you mean {near}? " if near is not None else ""
    return SlidestatError(error, f"{guess}There are {', '.join(known)}.")
