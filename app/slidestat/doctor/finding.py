"""The result of a check."""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """The verdict on a check: `missing` is needed only for what the finding names."""

    GOOD = "good"
    MISSING = "missing"
    BAD = "bad"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of `slidestat doctor`; `advice` is what to do where it is not good."""

    check: str
    verdict: Verdict
    found: str
    advice: str = ""
