"""US flights: how late they were and where they went, by the airport that they left.

Reads     flights: {"key": airport, "time": departure, "value": delay in minutes,
          "destination": airport}
Writes    flights-statistics; flights-late and flights-dead-letters for what was not counted
Key       airport of departure
Windows   1 day and 7 days, every 6 hours of event time

Run it, with a file of the columns origin, date, delay and destination:

    slidestat topics create --topology flights --partitions 4
    slidestat run flights
    slidestat produce flights.parquet --topic flights --key origin --time date --value delay \\
        --with destination

In:

    {"key": "ATL", "time": 978307260000, "value": 19, "destination": "MCO"}

Out, when that is the airport's only flight so far and a later one has come
(four of its eighteen figures):

    {"topology": "flights", "key": "ATL", "window_end_ms": 978328800000,
     "figures": [
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 86400000, "relative_error": 0.01},
        {"statistic": "maximum", "estimate": 19.0, "lower": 19.0, "upper": 19.0,
         "window_ms": 604800000},
        {"statistic": "quantile", "estimate": 18.932413271696404, "lower": 18.746786733383352,
         "upper": 19.0, "window_ms": 86400000, "quantile": 0.9,
         "relative_error": 0.009901778953003879, "absolute_error": 9.313225746154785e-10,
         "share_error": 0.01},
        {"statistic": "top_destination", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 86400000, "item": "MCO", "share_error": 0.00497787610619469}],
     "source_topic": "flights", "source_partition": 0, "source_offset": 2}
"""

from slidestat import Count, Deviation, Distinct, Maximum, Mean, Quantiles, TopItems, Topology

topology = Topology(
    name="flights",
    source="flights",
    span="7d",
    every="6h",
    windows=("1d", "7d"),
    statistics=(
        Count(),
        # A flight that is early has a delay below 0: it has a mean, but no sum with bounds.
        Mean(),
        Deviation(),
        Maximum(epsilon=0),  # exact
        Quantiles(quantiles=(0.5, 0.9, 0.99)),
        Distinct(field="destination"),
        TopItems(field="destination", limit=5),
    ),
)
