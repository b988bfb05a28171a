"""Jars that a peer needs beside Apache Kafka's own: locked like those, fetched once, verified."""

import tempfile
from pathlib import Path

from app.errors import SlidestatError
from app.local.folders import cache_folder
from app.local.jars import Jar, download

_ATTEMPTS = 4


def peer_jars(lock_file: Path) -> list[Path]:
    """The jars of a lock of lines `SHA-256  group:artifact:version`; raises SlidestatError if one
    cannot be had.
    """
    folder = cache_folder() / lock_file.stem
    folder.mkdir(exist_ok=True)
    lines = lock_file.read_text("ascii").splitlines()
    jars = [Jar(coordinate, sha256) for sha256, coordinate in map(str.split, lines)]
    for jar in jars:
        if not jar.is_intact(folder / jar.file_name):
            _fetch(jar, folder)
    return [folder / jar.file_name for jar in jars]


def _fetch(jar: Jar, folder: Path) -> None:
    reason = ""
    for _ in range(_ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
            try:
                fetched = download(jar.coordinate, Path(scratch))
            except Exception as error:  # noqa: BLE001 - the resolver names no types of its own
                reason = type(error).__name__
                continue
            if jar.is_intact(fetched):
                fetched.replace(folder / jar.file_name)
                return
            reason = "its content is not the expected one"
    raise SlidestatError(
        f"{jar.coordinate} could not be fetched after {_ATTEMPTS} tries (last: {reason}).",
        "Check that this machine reaches Maven Central, and try again.",
    )
