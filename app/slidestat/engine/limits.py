"""How much of a partition is in memory at the most."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SliceSizes:
    """The maximum number of a tick's events, and of its keys without events, in one slice."""

    events: int = 100_000
    keys: int = 5_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a partition holds in memory."""

    # States in front of the store; least recently touched go first.
    cached_keys: int = 200_000
    # So many of the events that could be absorbed wait, and so many bytes, and a batch's.
    waiting_events: int = 300_000
    waiting_bytes: int = 16 * 2**20
    # So many emissions, of keys with events, that ticks are kept back for.
    kept_emissions: int = 50_000
    slices: SliceSizes = field(default_factory=SliceSizes)
    # Of keys to delete, so many at a time.
    deleted_keys: int = 100_000
