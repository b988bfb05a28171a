"""Variables of the environment that nothing reads, and that are spelled nearly as one that is read.

Programs of others have variables that begin with KAFKA_, too: one of those is reported only where
it is a letter or two away.
"""

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from slidestat.doctor.finding import Finding, Verdict
from slidestat.kafka import settings
from slidestat.local.folders import CACHE_ENV
from slidestat.options import (
    BOOTSTRAP_VARIABLE,
    REGISTRY_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
)

_READ = (
    BOOTSTRAP_VARIABLE,
    REGISTRY_VARIABLE,
    TOKEN_VARIABLE,
    TOKEN_FILE_VARIABLE,
    CACHE_ENV,
    settings.PROTOCOL,
    settings.MECHANISM,
    settings.USERNAME,
    settings.PASSWORD,
    f"{settings.PASSWORD}_FILE",
    settings.CA_FILE,
    settings.CERTIFICATE_FILE,
    settings.KEY_FILE,
    settings.KEY_PASSWORD,
    f"{settings.KEY_PASSWORD}_FILE",
)
# Of the letters of two names, those that are in both, in their order: all but one of 18, or so.
_ALIKE = 0.92


def unread_variables(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yield a finding for each variable that seems to be one with a slip, without its value."""
    for name in environment:
        near = get_close_matches(name.upper(), _READ, n=1, cutoff=_ALIKE)
        if near and name not in _READ:
            found, advice = f"{name} is set, and nothing reads it", f"Did you mean {near[0]}?"
            yield Finding("environment", Verdict.MISSING, found, advice)
