"""US flights: how many left each airport, and how many miles they flew, in a day and in a week.

Reads     flights: {"key": airport, "time": departure, "value": miles}
Writes    flights-statistics; flights-late and flights-dead-letters for what was not counted
Key       airport of departure
Windows   1 day and 7 days, every 6 hours of event time

Run it, with a file of the columns origin, date and distance:

    slidestat topics create --topology flights --partitions 4
    slidestat run flights
    slidestat produce flights.parquet --topic flights --key origin --time date --value distance

In:

    {"key": "ATL", "time": 978307260000, "value": 2176}

Out, when that is the airport's only flight so far and a later one has come
(two of its four figures):

    {"topology": "flights", "key": "ATL", "window_end_ms": 978328800000,
     "figures": [
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 86400000, "relative_error": 0.01},
        {"statistic": "sum", "estimate": 2176.0, "lower": 2176.0, "upper": 2176.0,
         "window_ms": 86400000, "relative_error": 0.01, "absolute_error": 1.0}],
     "source_topic": "flights", "source_partition": 0, "source_offset": 1}
"""

from app.streaming.statistics import Count, Sum
from app.streaming.topology import Topology

topology = Topology(
    name="flights",
    source="flights",
    span="7d",
    every="6h",
    windows=("1d", "7d"),
    statistics=(Count(epsilon=0.01), Sum(epsilon=0.01, decimals=0)),
)
