"""A session for a job on a lake: with Delta Lake where the lake is of Delta tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from slidestat.declare.declared import Declared
from slidestat.options import Tables
from slidestat.spark import session
from slidestat.spark.delta import has_delta
from slidestat.spark.lake.lake import Dataset, Lake


@contextmanager
def session_of_lake(
    job: str, root: str, topology: str, master: str | None = None, tables: Tables | None = None
) -> Iterator[tuple[SparkSession, Lake]]:
    """Yield a session for `job`, and the part of a topology in the lake at `root`; see
    `spark_session`.

    The session has Delta Lake if the job makes such `tables`, or finds them. On another file system
    only a session can look: if it finds Delta tables, Spark is started once more, which costs
    another 3 to 5 s.
    """
    delta = tables is Tables.DELTA or any(Path(root, topology).glob("*/_delta_log"))
    with session.spark_session(job, master, delta=delta) as spark:
        lake = Lake(root, topology)
        if has_delta(spark) or lake.tables(spark) is not Tables.DELTA:
            yield spark, lake
            return
    with session.spark_session(job, master, delta=True) as spark:
        yield spark, lake


# The topics that a lake has of a declaration, in the order in which they are to be read.


def lake_topics(declared: Declared) -> dict[Dataset, str]:
    """Return the topic of each dataset; a referee has topics of its answers or rankings, and of its
    parties' synopses and letters.

    A topic comes after the topics that rest on it, and so has all that they need: under statistics
    the synopses, with the clocks of the parties, under both the letters.
    """
    if declared.counted is None:
        answers = Dataset.RANKINGS if declared.answering.rankings else Dataset.STATISTICS
        topics = {
            answers: declared.output_topic,
            Dataset.SYNOPSES: declared.events_topic,
            Dataset.LATE: declared.answering.late_topic,
            Dataset.DEAD_LETTERS: declared.answering.dead_letter_topic,
        }
    else:
        topics = {
            Dataset.STATISTICS: declared.output_topic,
            Dataset.LATE: declared.late_topic,
            Dataset.DEAD_LETTERS: declared.dead_letter_topic,
            Dataset.SYNOPSES: declared.counted.synopsis_topic,
        }
    if declared.alert_topic is not None:
        topics[Dataset.ALERTS] = declared.alert_topic
    return topics
