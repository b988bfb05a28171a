"""US flights, all partitions together: how many, how late, to how many different places.

No partition knows that: a destination that is seen in two of them counts once, and the median of
all delays is not the median of the partitions' medians. The referee has it from the synopses that
the partitions publish, to the error that one of them has.

Reads     flights_parties-synopses, what the partitions of flights_parties publish
Writes    flights_global-statistics; flights_global-dead-letters for what is no synopsis
Key       flights, the name of the topic that they are partitions of
Windows   1 day and 7 days, every 6 hours of event time

Run it, beside the workers of flights_parties:

    slidestat run flights_global
    slidestat watch flights_global --from-beginning

Out, when all four partitions have come to 6 o'clock (three of its sixteen figures):

    {"topology": "flights_global", "key": "flights", "window_end_ms": 978328800000,
     "figures": [
        {"statistic": "count", "estimate": 221.5, "lower": 221.0, "upper": 222.0,
         "window_ms": 86400000, "relative_error": 0.01},
        {"statistic": "quantile", "estimate": 8.920175711860312, "lower": 8.832716109390498,
         "upper": 9.00938464713886, "window_ms": 86400000, "quantile": 0.5,
         "relative_error": 0.009901778953003879, "absolute_error": 9.313225746154785e-10,
         "share_error": 0.05},
        {"statistic": "distinct_destination", "estimate": 74.0, "lower": 74.0, "upper": 74.0,
         "window_ms": 86400000, "relative_error": 0.05, "confidence": 0.99}],
     "source_topic": "flights_parties-synopses", "source_partition": 0, "source_offset": 27,
     "parties": ["flights/0", "flights/1", "flights/2", "flights/3"]}

When a partition is a day of flights behind the furthest one, the answer comes without it, marked
provisional, and says since when it is absent:

    "parties": ["flights/0", "flights/1", "flights/2"],
    "absent": [{"party": "flights/3", "since_ms": 978307200000}], "provisional": true

When it has come, the answer comes again with it, under the same key.
"""

from slidestat import Referee, load_topology

topology = Referee(
    name="flights_global",
    of=load_topology("flights_parties"),
    patience="1d",
    # Half a year of flights is read in seconds: partitions are months apart then.
    correctable="365d",
)
