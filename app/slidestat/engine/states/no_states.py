"""A store that has nothing: for reading records without keeping states."""

from collections.abc import Iterator


class NoStates:
    """A PartitionStore of a partition never seen."""

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """None of each key."""
        return [None] * len(keys)

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:  # noqa: ARG002
        """No keys."""
        return iter(())

    def checkpoint(self) -> None:
        """There is none."""
        return
