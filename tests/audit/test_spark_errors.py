"""What a person is told of an error in Spark."""

import pytest
from pyspark.errors import PySparkException

from slidestat.errors import SlidestatError
from slidestat.spark.errors import in_words

TRACEBACK = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 7, in run
    return sorted(rows)
           ^^^^^^^^^^^^
{error}

JVM stacktrace:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
"""

OF_SPARK_IN_PYTHON = """[STREAM_FAILED] Return Message: Traceback (most recent call last):
  File "job.py", line 7, in write
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o7.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE] of another type
    at org.apache.spark.sql.errors.QueryExecutionErrors$.error(QueryExecutionErrors.scala:8)
"""


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (TRACEBACK.format(error="TypeError: one is None"), "TypeError: one is None"),
        (TRACEBACK.format(error="slidestat.errors.SlidestatError: it is late"), "it is late"),
        (OF_SPARK_IN_PYTHON, "[FAILED_READ_FILE] of another type"),
        ("[PATH_NOT_FOUND] no such path\nand more", "[PATH_NOT_FOUND] no such path"),
    ],
)
def test_one_line_says_what_went_wrong(told: str, says: str) -> None:
    """The end of a worker's traceback, our own words without their class, or what Spark says."""
    with pytest.raises(SlidestatError) as broken, in_words("The audit", "Look at the log."):
        raise PySparkException(told)
    assert broken.value.message == f"The audit failed: {says}"
