"""A file in a worker's data folder with the URL at which the worker answers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from slidestat.web.address import WebAddress

_FILE = "web.json"


class Announced(msgspec.Struct, frozen=True):
    """The URL of a worker, and its name."""

    url: str
    worker: str


@contextmanager
def announced(folder: Path, address: WebAddress) -> Iterator[None]:
    """Keep a file in the worker's data folder with its URL while the context lasts."""
    path = folder / _FILE
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(Announced(address.url, address.worker)))
    new.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def announcements(folders: Iterable[Path]) -> Iterator[Announced]:
    """Yield the announcements of workers with these data folders; a killed worker's file stays
    behind.
    """
    for folder in folders:
        try:
            yield msgspec.json.decode((folder / _FILE).read_bytes(), type=Announced)
        except (OSError, msgspec.DecodeError):
            continue  # It ended just now, or was killed while it wrote.
