"""US flights by partition: what each partition knows of all flights, published for a referee.

The partitions of the topic are parties, as Gibbons and Tirthapura call them: each sees its own part
of the flights, keeps one synopsis of all of them, whatever their keys, and publishes it at each
tick. `flights_global.py` answers for all partitions together from these synopses alone.

Reads     flights: {"key": airport, "time": departure, "value": delay in minutes,
          "destination": airport}
Writes    flights_parties-synopses, compacted: for each statistic, tick and partition a synopsis;
          flights_parties-statistics, each partition's own figures, under the key TOPIC/PARTITION;
          flights_parties-late and flights_parties-dead-letters for what was not counted
Key       none: whole partitions
Windows   1 day and 7 days, every 6 hours of event time

Run it, with a file of the columns origin, date, delay and destination:

    slidestat topics create --topology flights_parties --partitions 4
    slidestat run flights_parties
    slidestat produce flights.parquet --topic flights --key origin --time date --value delay \\
        --with destination

In:

    {"key": "ATL", "time": 978307260000, "value": 19, "destination": "MCO"}

Out, on flights_parties-synopses, when one of the partition's flights has left after 6 o'clock:

    key        ["flights_parties","distinct_destination","flights","flights/3"]
    timestamp  978328800000
    headers    meaning        distinct, epsilon 0.05, delta 0.01, seed 2001, of destination
               source_offset  4
    value      the synopsis, as slidestat.synopses.distinct.DistinctWave.from_bytes reads it

and after those of all statistics:

    key        ["flights_parties","flights/3"]
    value      {"tick_ms":978328800000,"parties":4,"source_offset":4}
"""

from slidestat import Count, Deviation, Distinct, Maximum, Mean, Quantiles, Topology

topology = Topology(
    name="flights_parties",
    source="flights",
    span="7d",
    every="6h",
    windows=("1d", "7d"),
    publish="partition",
    statistics=(
        Count(),
        Mean(),
        Deviation(),
        Maximum(epsilon=0),
        Quantiles(quantiles=(0.5, 0.9, 0.99)),
        # All parties toss the same coins: those of this seed.
        Distinct(field="destination", epsilon=0.05, seed=2001),
    ),
)
