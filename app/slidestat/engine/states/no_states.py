"""A store that has nothing: for reading records without keeping states."""

from collections.abc import Iterator


class NoStates:
    """A PartitionStore of a partition never seen."""

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Return None for each key."""
        return [None] * len(keys)

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:  # noqa: ARG002
        """Return no keys."""
        return iter(())

    def checkpoint(self) -> None:
        """Return None: there is no checkpoint."""
        return
