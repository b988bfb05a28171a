"""Spark's errors as one line for a person; the whole of it is in Spark's log."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from slidestat.errors import SlidestatError

# The end of a Python worker's traceback where the error is one of ours.
_OURS = re.compile(r"^slidestat\.(?:synopses\.core\.)?errors\.\w+: (?P<text>.+)$", re.MULTILINE)
# The end for any other error: its first line that is not indented.
_OTHER = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*(?P<text>\S.*)$", re.MULTILINE
)
# The text of a JVM's exception within one of Python, in a function that Spark calls back.
_OF_SPARK = re.compile(r"^: [\w.$]+: (?P<text>\S.*)$", re.MULTILINE)


@contextmanager
def in_words(what: str, advice: str) -> Iterator[None]:
    """Raise SlidestatError if `what` fails: with our own words where the error is one of ours, else
    with the last line of a Python worker's traceback, of an exception of Spark's within Python its
    message, or the first line of Spark's message.
    """
    try:
        yield
    except PySparkException as error:
        message = str(error).strip()
        ours = _OURS.search(message)
        if ours is not None:
            raise SlidestatError(f"{what} failed: {ours['text']}") from error
        other = _OTHER.search(message) or _OF_SPARK.search(message)
        text = message.splitlines()[0] if other is None else other["text"]
        raise SlidestatError(f"{what} failed: {text}", advice) from error
    except Py4JJavaError as error:  # PySpark has no error of its own for it.
        raise SlidestatError(f"{what} failed: {first_cause(error)}", advice) from error


def first_cause(error: Py4JJavaError) -> str:
    """Return what an exception of the JVM comes from at last, in one line."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    kind, message = cause.getClass().getSimpleName(), cause.getMessage()
    lines = "" if message is None else str(message).strip().splitlines()
    return lines[0] if lines and " " in lines[0] else ": ".join((kind, *lines[:1]))
