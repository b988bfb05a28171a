"""Bundle what parties published of a statistic: in one bundle, or in one for each part of it."""

from collections.abc import Mapping
from functools import singledispatch

from slidestat.declare.runners import Runner
from slidestat.declare.runners.chosen import ChosenRunner
from slidestat.declare.runners.parted import PartedRunner
from slidestat.synopses.merge.bundle import Bundle

NOBODY = "nobody"
"""A bundle has at least one part: of parties that know nothing, the synopsis of this one."""


@singledispatch
def bundles_of(_: Runner, synopses: Mapping[str, bytes], empty: bytes) -> list[Bundle]:
    """Return the bundles of what each party published; `empty` is the synopsis of no events.

    Raises SynopsisError for bytes that are no synopses, and for such as differ in what they were
    made with.
    """
    return [Bundle.of(synopses or {NOBODY: empty})]


@bundles_of.register
def _(runner: ChosenRunner, synopses: Mapping[str, bytes], empty: bytes) -> list[Bundle]:
    return bundles_of(runner.runner, synopses, empty)


@bundles_of.register
def _(runner: PartedRunner, synopses: Mapping[str, bytes], empty: bytes) -> list[Bundle]:
    parts = {party: runner.synopses(state) for party, state in synopses.items()}
    parts = parts or {NOBODY: runner.synopses(empty)}
    return [
        Bundle.of({party: of[part] for party, of in parts.items()}) for part in range(runner.count)
    ]
