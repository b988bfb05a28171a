"""Golden files: bytes that a version of a format wrote once, which are read forever.

They lie in `frozen/FORMAT-VERSION/CASE.bin`: "wave-1" is version 1 of waves. `manifest.json` has a
digest of each file, and the facts that were read of it when it was written. While a version is the
one that is written, the same events give the same bytes; a new version has a new folder, and the
old one stays. `partition-*.bin` and `referee-*.bin` are the rows of a table, named by the versions
of states and of the checkpoint in them. `make golden` writes the files of new cases.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FROZEN = Path(__file__).parent / "frozen"
MANIFEST = Path(__file__).parent / "manifest.json"
HOUR = 3_600_000
NOON = 1_700_000_000_000


@dataclass(frozen=True)
class Golden:
    """A golden file: what is read of its bytes, and how they are made; without `make`, in a version
    that is not written any more. The version stands at `version_at` in the bytes, if it does.
    """

    name: str
    facts: Callable[[bytes], object]
    make: Callable[[], bytes] | None
    version_at: int | None = 2

    @property
    def path(self) -> Path:
        """The file."""
        return FROZEN / f"{self.name}.bin"

    @property
    def version(self) -> int:
        """The version of the format, of the folder's name."""
        return int(self.path.parent.name.rpartition("-")[2])


def of_synopses(
    made: Mapping[str, Callable[[], Any]], facts: Callable[[Any], object], folder: str = ""
) -> list[Golden]:
    """The golden files of synopses, by their names within a folder, if one is given. They are read
    by the class of what is made.
    """
    before = f"{folder}/" if folder else ""
    return [_of_synopsis(before + name, make, facts) for name, make in made.items()]


def _of_synopsis(name: str, make: Callable[[], Any], facts: Callable[[Any], object]) -> Golden:
    def read(data: bytes) -> object:
        synopsis = type(make()).from_bytes(data)
        synopsis.check()
        return facts(synopsis)

    return Golden(name, read, lambda: make().to_bytes())


def steps(count: int) -> tuple[np.ndarray, np.ndarray]:
    """int64[count]: 0, 1, 2 and so on, and event times that rise unevenly, some of them the same.

    Arithmetic alone: another NumPy may draw other random numbers.
    """
    numbers = np.arange(count, dtype=np.int64)
    return numbers, NOON + np.cumsum(numbers * numbers % 1_999)
