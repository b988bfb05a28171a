"""Spark's faults as one line for a person; the whole of it is in Spark's log."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from app.errors import SlidestatError


@contextmanager
def in_words(what: str, advice: str) -> Iterator[None]:
    """Raise SlidestatError with the first line of what Spark says if `what` breaks off."""
    try:
        yield
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise SlidestatError(f"{what} broke off: {first}", advice) from error
