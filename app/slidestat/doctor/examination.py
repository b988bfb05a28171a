"""All checks, in the order in which a person would look."""

from collections.abc import Iterator

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.doctor import machine
from slidestat.doctor.broker import brokers
from slidestat.doctor.environment import unread_variables
from slidestat.doctor.finding import Finding, Verdict
from slidestat.doctor.lengths import unlikely_lengths


def examine(
    bootstrap: str, topology: Topology | Referee | None = None, registry: str = ""
) -> Iterator[Finding]:
    """Yield each check's findings, one after the other; the broker's last, as it may take its time.

    `registry` is the address of the schema registry of what is in Avro.
    """
    if (system := machine.supported()) is not None:
        yield system
    yield machine.python()
    yield machine.codecs()
    yield machine.kernels()
    yield from machine.disk()
    yield from machine.java()
    yield from unread_variables()
    if isinstance(topology, Topology):
        yield from unlikely_lengths(topology)
    yield from brokers(bootstrap, topology, registry)


def line_of(finding: Finding) -> str:
    """Return a finding for a person, with the advice below it."""
    mark = {Verdict.GOOD: "good", Verdict.MISSING: "----", Verdict.BAD: "BAD "}[finding.verdict]
    line = f"{mark}  {finding.check}: {finding.found}"
    return f"{line}\n      what to do: {finding.advice}" if finding.advice else line
