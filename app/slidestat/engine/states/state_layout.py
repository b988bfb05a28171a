"""The places of a topology's synopses in the stored states of keys."""

from collections.abc import Sequence

from slidestat.declare.statistics.runner import Runner
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.slots import Slots
from slidestat.engine.states.key_state import KeyState, decode_key_state, encode_key_state


class StateLayout:
    """A codec of stored states, which has their synopses in the topology's order.

    A synopsis that a state does not have is b"".
    """

    def __init__(self, topology: Topology | None = None, slots: Slots = ()) -> None:
        """Create the layout; `slots` are the places of synopses, if they are not those of the
        topology's own.
        """
        runners = [] if topology is None else list(dict.fromkeys(topology.runners))
        places = {slot.meaning: place for place, slot in enumerate(slots)}
        self._places = [places[runner.meaning] for runner in runners] if slots else []
        self._count = len(slots)
        # From when on synopses that were added take events in.
        self.starts: dict[Runner, int] = {
            runner: start
            for runner in (runners if slots else ())
            if (start := slots[places[runner.meaning]].start) is not None
        }

    def decode(self, stored: bytes) -> KeyState:
        """Decode a state; raises SlidestatError for bytes that are not one."""
        state = decode_key_state(stored)
        if not self._places:
            return state
        kept = state.synopses
        return state._replace(
            synopses=tuple(kept[it] if it < len(kept) else b"" for it in self._places)
        )

    def encode(self, state: KeyState) -> bytes:
        """Return the bytes of a state as they are stored."""
        if not self._places:
            return encode_key_state(*state)
        return encode_key_state(*state._replace(synopses=self._in_places(state.synopses)))

    def _in_places(self, synopses: Sequence[bytes]) -> tuple[bytes, ...]:
        placed = [b""] * self._count
        for place, synopsis in zip(self._places, synopses, strict=True):
            placed[place] = synopsis
        return tuple(placed)


AS_DECLARED = StateLayout()
"""Of states of which no statistic was ever changed."""


def starts_by_label(topology: Topology, layout: StateLayout) -> dict[str, int]:
    """Return the times from which added figures are counted, by their names."""
    pairs = zip(topology.labels, topology.runners, strict=True)
    return {label: layout.starts[it] for label, it in pairs if it in layout.starts}
