"""The keys of a partition, for whoever asks about them."""

from collections.abc import Iterator
from dataclasses import dataclass

from slidestat.engine.keys.key_cache import KeyCache
from slidestat.engine.keys.key_state import KeyState, decode_key_state
from slidestat.engine.loss import Loss


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition's keys as they are now; for use at once, before the next batch."""

    partition: int
    watermark: int
    next_offset: int
    cache: KeyCache
    loss: Loss | None = None

    @property
    def keys_held(self) -> int | None:
        """How many keys have a state, None until that is known."""
        return self.cache.keys_held

    def has(self, key: str) -> bool:
        """Whether the key has a state. Costs one look-up."""
        return self.state(key) is not None

    def state(self, key: str) -> KeyState | None:
        """The key's state, None for a key that has none. Costs one look-up."""
        state = self.cache.peek(key)
        return None if state is None else decode_key_state(state)

    def keys(self, prefix: str, after: str, limit: int) -> Iterator[str]:
        """The first `limit` keys after `after` that begin with `prefix`, in order of their
        characters. Costs them and the keys that are new since the last flush, however many keys
        there are.
        """
        return self.cache.keys(prefix, after, limit)
