"""Errors that are the user's to correct: what is wrong, and what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches

from slidestat.redaction import redacted


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
    """An error that ends a worker which goes on well when it is started again, by a parent too."""

    exit_code = 1


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The name that is most like another; also one with something before or behind it, or in
    other letters of upper and lower case.
    """
    plain = {other.casefold(): other for other in known}
    asked = name.casefold()
    near = get_close_matches(asked, plain, n=1)
    longer = sorted((other for other in plain if asked in other or other in asked), key=len)
    return next((plain[other] for other in (*near, *longer)), None)


def unknown(error: str, name: str, known: Iterable[str]) -> SlidestatError:
    """The error for a name that is none of `known`, with the nearest of them as advice."""
    known = list(known)
    # A statistic's own name comes before what its figures are: requests_p99.
    ends = [one for one in known if name and one.endswith(f"_{name}")]
    near = ends[:1] or get_close_matches(name, known, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    return SlidestatError(error, f"{guess}There are {', '.join(known)}.")
