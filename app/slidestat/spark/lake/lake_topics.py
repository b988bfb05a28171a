"""Which topics a lake has of what is declared, in the order in which they are to be read."""

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.spark.lake.lake import Dataset


def lake_topics(declared: Topology | Referee) -> dict[Dataset, str]:
    """Return the topic of each dataset; of a referee, that of its answers, and those of its
    parties' synopses and letters.

    What others rest on comes after them, and so is there: under statistics the synopses, with the
    clocks of the parties, under both the letters.
    """
    if isinstance(declared, Referee):
        return {
            Dataset.STATISTICS: declared.output_topic,
            Dataset.SYNOPSES: declared.source,
            Dataset.LATE: declared.of.late_topic,
            Dataset.DEAD_LETTERS: declared.of.dead_letter_topic,
        }
    return {
        Dataset.STATISTICS: declared.output_topic,
        Dataset.LATE: declared.late_topic,
        Dataset.DEAD_LETTERS: declared.dead_letter_topic,
        Dataset.SYNOPSES: declared.synopsis_topic,
    }
