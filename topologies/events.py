"""Events under the default names: how many and how much, a key, in three windows.

Reads     events: {"key", "time", "value"}
Writes    events-statistics; events-late and events-dead-letters for what was not counted
Key       key
Windows   1 minute, 5 minutes and 1 hour, every 10 seconds of event time

Run it:

    slidestat topics create --topology events --partitions 4
    slidestat run events
    slidestat produce FILE --topic events

In:

    {"key": "sensor-7", "time": 1767225600000, "value": 2.5}

Out, when that is the key's only event of the minute and a later one has come
(two of its six figures):

    {"topology": "events", "key": "sensor-7", "window_end_ms": 1767225610000,
     "figures": [
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 60000, "relative_error": 0.01},
        {"statistic": "sum", "estimate": 2.4845, "lower": 2.469, "upper": 2.5,
         "window_ms": 60000, "relative_error": 0.01, "absolute_error": 0.001}],
     "source_topic": "events", "source_partition": 0, "source_offset": 2}
"""

from slidestat import Count, Sum, Topology

topology = Topology(
    name="events",
    source="events",
    span="1h",
    every="10s",
    windows=("1m", "5m", "1h"),
    statistics=(Count(), Sum()),
)
