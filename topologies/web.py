"""A web server's log: how many requests each host made, how many bytes it was sent, and how long
the answers were.

Reads     web: {"key": host, "time": time of the request, "value": bytes of the answer}
Writes    web-statistics; web-late and web-dead-letters for what was not counted
Key       host; for the paths asked for, produce with --key url
Windows   5 minutes and 1 hour, every 5 minutes of event time

Run it, with a file of the columns host, time (seconds) and bytes:

    slidestat topics create --topology web --partitions 4
    slidestat run web
    slidestat produce log.tsv.gz --topic web --key host --time time --time-unit s --value bytes

In:

    {"key": "pppa006.compuserve.com", "time": 807256800000, "value": 1713}

Out, when that is the host's only request so far and a later one has come
(three of its ten figures):

    {"topology": "web", "key": "pppa006.compuserve.com", "window_end_ms": 807257100000,
     "figures": [
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 300000, "relative_error": 0.01},
        {"statistic": "sum", "estimate": 1697.5, "lower": 1682.0, "upper": 1713.0,
         "window_ms": 300000, "relative_error": 0.01, "absolute_error": 1.0},
        {"statistic": "quantile", "estimate": 1713.0, "lower": 1713.0, "upper": 1713.0,
         "window_ms": 3600000, "quantile": 0.9, "share_error": 0.009891517474926614}],
     "source_topic": "web", "source_partition": 0, "source_offset": 1}
"""

from app.streaming.statistics import Count, Quantiles, Sum
from app.streaming.topology import Topology

topology = Topology(
    name="web",
    source="web",
    span="1h",
    every="5m",
    windows=("5m", "1h"),
    statistics=(
        Count(),
        Sum(decimals=0),
        Quantiles(quantiles=(0.5, 0.9, 0.99)),
    ),
)
