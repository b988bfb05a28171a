"""The fingerprint of a declaration: a short text that says by which one an emission was computed.

It is in a header of each emission's record, so that key and value are what they would be without.
Two declarations have the same one if all that figures mean is the same in both: how events are
read, windows, statistics with their parameters. The name of the group, the format and the topics
of the output are free to differ.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from slidestat.declare.forms.resolved import resolved
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology

_DIGITS = 16
"""Of hexadecimal: 64 bits, so that two among a thousand are the same in one case of 10^13."""


def fingerprint_of(declared: Topology | Referee) -> str:
    """Return the fingerprint of a topology or a referee: 16 hexadecimal digits."""
    return fingerprint(resolved(declared))


def fingerprint(table: Mapping[str, object]) -> str:
    """Return the fingerprint of a declaration in plain tables; it survives a round trip through
    JSON.
    """
    text = msgspec.json.encode(table, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
