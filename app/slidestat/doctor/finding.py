"""The result of a check."""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """Whether something will do: `missing` is needed only for what the finding names."""

    GOOD = "good"
    MISSING = "missing"
    BAD = "bad"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of `slidestat doctor`; `advice` says what to do where it is not good."""

    check: str
    verdict: Verdict
    found: str
    advice: str = ""
