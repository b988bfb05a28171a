"""Messages about records that were gone before they were read."""

from dataclasses import dataclass

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.log import log_event


@dataclass(frozen=True)
class LostRange:
    """A range of offsets [first, end) of a partition of the source that the broker has deleted."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return (
            f"Records {self.first:,} to {self.end - 1:,} of {self.topic!r} partition"
            f" {self.partition}"
        )


def refusal(lost: LostRange, topology: Topology | Referee) -> SlidestatError:
    """Return the error of a worker that does not continue without them, with what to do."""
    gone = f"{lost} are gone: the broker deleted them before they were read."
    keep = "Have the topic keep its records for longer (retention.ms) than workers may be down."
    if isinstance(topology, Referee) or topology.publish:
        publishing = topology.of.name if isinstance(topology, Referee) else topology.name
        return SlidestatError(
            f"{gone} A referee's answers could not say that they lack them.",
            f"Publish anew what is there with `slidestat replay {publishing}`, and give the referee"
            f" another name. {keep}",
        )
    return SlidestatError(
        gone,
        "To go on without them, run with --allow-loss: they are counted as lost, and emissions that"
        f" may lack them say so; or count what is there from its start with `slidestat replay"
        f" {topology.name}`. {keep}",
    )


def tell_lost(lost: LostRange, topology: str) -> None:
    """Log that a worker continues without them."""
    log_event(
        "records lost",
        f"{topology}: {lost} are gone, and counted as lost; emissions that may lack them say so",
        topology=topology,
        topic=lost.topic,
        partition=lost.partition,
        offset=lost.first,
        last_offset=lost.end - 1,
        records=lost.end - lost.first,
    )
