"""Errors of kernels: a number, and the sentence that a user reads.

Compiled code cannot compose messages: it returns an error code, its place, and the two numbers that
the message names.
"""

from collections.abc import Sequence

from slidestat.synopses.core import wire
from slidestat.synopses.core.errors import NewerVersionError, SynopsisError, WindowTooLargeError

OK = 0
NOT_A_SYNOPSIS = 1
NEWER_VERSION = 2
OTHER_KIND = 3
CORRUPTED = 4
OTHER_PARAMETERS = 5
TIME_WENT_BACK = 6
TIME_OUT_OF_RANGE = 7
BAD_VALUE = 8
QUERY_WENT_BACK = 9
TOTAL_TOO_LARGE = 10
NOT_FINITE = 30
OTHER_SETTINGS = 31
TOO_MANY_UNITS = 32
MOMENTS_TOO_LARGE = 33
VALUE_TOO_LARGE = 34
TOO_MANY_EVENTS = 35
NUMBER_NOT_LARGER = 36

_SENTENCES = {
    NOT_A_SYNOPSIS: "these bytes are no synopsis: they do not start as one",
    NEWER_VERSION: "these bytes were made by a newer version: their format is {a}, known is "
    f"{wire.VERSION}",
    OTHER_KIND: "these bytes hold a synopsis of kind {a}, not of kind {b}",
    CORRUPTED: "these bytes are damaged: their checksum or their content does not agree",
    OTHER_PARAMETERS: "these bytes were made with another epsilon, span or number of decimals",
    TIME_WENT_BACK: "time went back: {a} is earlier than {b}, up to which events were taken",
    TIME_OUT_OF_RANGE: "time {a} is out of range: times are from -2^61 to 2^61 - 1",
    BAD_VALUE: "value {value!r} cannot be summed: it must be finite, not negative, and at most "
    "2^53 units of 10^-decimals",
    QUERY_WENT_BACK: "a query at {a} is earlier than {b}, the time of the synopsis or of the query "
    "before",
    TOTAL_TOO_LARGE: "the window holds more than 2^62 units, which is more than can be kept",
    NOT_FINITE: "value {value!r} cannot be taken: it must be finite",
    OTHER_SETTINGS: "these bytes were made with other parameters",
    TOO_MANY_UNITS: "value {value!r} cannot be taken: it must be finite, and at most 2^40 units of "
    "10^-decimals",
    MOMENTS_TOO_LARGE: "the magnitudes in the window come to more than 2^60 units, or its events "
    "to more than 2^50, which is more than can be kept",
    VALUE_TOO_LARGE: "value {value!r} cannot be taken: its magnitude must be below 2^50, which is "
    "about 10^15",
    NUMBER_NOT_LARGER: "event {a} comes after event {b}: in a window of a fixed number of events "
    "each has a number of its own, larger than that of the one before",
    TOO_MANY_EVENTS: "the window holds more than 2^40 events, which is more than can be kept",
}
_KINDS = {
    NEWER_VERSION: NewerVersionError,
    TOTAL_TOO_LARGE: WindowTooLargeError,
    MOMENTS_TOO_LARGE: WindowTooLargeError,
    TOO_MANY_EVENTS: WindowTooLargeError,
}


def synopsis_error(
    error_code: int, a: int, b: int, group: int, kinds: Sequence[int] = (), value: float = 0.0
) -> SynopsisError:
    """Return the error for `error_code`; `group` is its place in the batch, or -1 for no batch.

    kinds: those of which bytes should have been.
    """
    wanted = " or ".join(map(str, kinds)) if error_code == OTHER_KIND else b
    sentence = _SENTENCES[error_code].format(a=a, b=wanted, value=value)
    kind = _KINDS.get(error_code, SynopsisError)
    return kind(sentence, None if group < 0 else group)
