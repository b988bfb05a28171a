"""Faults of Spark, and of what runs inside its workers, as one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from app.errors import SlidestatError

# How a worker's traceback ends: with the error that it raised.
_OURS = re.compile(r"^app\.(?:errors\.SlidestatError|synopses\.errors\.\w+): (?P<text>.+)$", re.M)


@contextmanager
def in_one_line(what: str, advice: str) -> Iterator[None]:
    """Raise a SlidestatError for what PySpark raises: with the words of our own error, if one lies
    under it.
    """
    try:
        yield
    except PySparkException as error:
        text = str(error).strip()
        ours = _OURS.search(text)
        if ours is not None:
            raise SlidestatError(f"{what}: {ours['text']}") from error
        raise SlidestatError(f"{what}: {text.splitlines()[0]}", advice) from error
