"""All checks, in the order in which a person would look."""

from collections.abc import Iterator

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.doctor import machine
from slidestat.doctor.broker import brokers
from slidestat.doctor.finding import Finding, Verdict


def examine(bootstrap: str, topology: Topology | Referee | None = None) -> Iterator[Finding]:
    """Each check's findings, as they come; the broker's last, as it may take its time."""
    if (system := machine.supported()) is not None:
        yield system
    yield machine.python()
    yield machine.codecs()
    yield machine.kernels()
    yield from machine.disk()
    yield from machine.java()
    yield from brokers(bootstrap, topology)


def line_of(finding: Finding) -> str:
    """A finding for a person; the advice stands below."""
    mark = {Verdict.GOOD: "good", Verdict.MISSING: "----", Verdict.BAD: "BAD "}[finding.verdict]
    line = f"{mark}  {finding.check}: {finding.found}"
    return f"{line}\n      what to do: {finding.advice}" if finding.advice else line
