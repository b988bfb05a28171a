"""Flights from New York as they landed: how late they were, by destination, in a day and in a week.

A case for lateness: a flight is known when it has landed, and its event time is when it took off.
So flights come in another order than their event times. In 2013 nearly nine of ten came behind one
that took off later, half of them by an hour and a half, one in a hundred by more than 5 hours, and
none by as much as 11.

With a lateness of 12 hours all are counted, each in the windows in which it took off. The price is
that a window is written 12 hours of event time after its end. With 6 hours it would come so much
sooner, and only 2 flights in 1,000 would go to landings-late. But not just any: 699 of the 701 to
Honolulu, of which hardly a figure would be left. Look at who is late before you choose.

Reads     landings: {"key": airport, "time": departure, "value": delay in minutes}
Writes    landings-statistics; landings-late and landings-dead-letters for what was not counted
Key       airport of arrival
Windows   1 day and 7 days, every 6 hours of event time

Run it, with a file of the columns dest, departed_at and arr_delay:

    slidestat topics create --topology landings --partitions 4
    slidestat run landings
    slidestat produce landings.parquet --topic landings \\
        --key dest --time departed_at --value arr_delay

In:

    {"key": "BOS", "time": 1357019940000, "value": -4}

Out, when that is the airport's only flight so far and one has landed that took off 12 hours after
the windows' end
(three of its fourteen figures):

    {"topology": "landings", "key": "BOS", "window_end_ms": 1357020000000,
     "figures": [
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 86400000, "relative_error": 0.01},
        {"statistic": "maximum", "estimate": -4.0, "lower": -4.0, "upper": -4.0,
         "window_ms": 86400000},
        {"statistic": "quantile", "estimate": -4.039607115812012, "lower": -4.080006437684797,
         "upper": -4.0, "window_ms": 604800000, "quantile": 0.99,
         "relative_error": 0.009901778953003879, "absolute_error": 9.313225746154785e-10,
         "share_error": 0.001}],
     "source_topic": "landings", "source_partition": 0, "source_offset": 2}
"""

from slidestat import Count, Deviation, Maximum, Mean, Quantiles, Topology

topology = Topology(
    name="landings",
    source="landings",
    span="7d",
    every="6h",
    windows=("1d", "7d"),
    lateness="12h",
    statistics=(
        Count(),
        Mean(),
        Deviation(),
        Maximum(epsilon=0),  # exact
        Quantiles(quantiles=(0.5, 0.9, 0.99)),
    ),
)
