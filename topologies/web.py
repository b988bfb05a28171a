"""A web server's log: by the status of the answer, how many requests there were, how many bytes
they took, from how many hosts they came, and which paths were asked for most.

Reads     web: {"key": status, "time": time of the request, "value": bytes of the answer,
          "host": who asked, "url": for what}
Writes    web-statistics; web-late and web-dead-letters for what was not counted
Key       status, so that the paths that are not found are told from those that are
Windows   5 minutes and 1 hour, every 5 minutes of event time

Run it, with a file of the columns response, time (seconds), bytes, host and url:

    slidestat topics create --topology web --partitions 4
    slidestat run web
    slidestat produce log.tsv.gz --topic web --key response --time time --time-unit s \\
        --value bytes --with host --with url

In:

    {"key": "404", "time": 807256800000, "value": 0, "host": "pppa006.compuserve.com",
     "url": "/pub/winvn/readme.txt"}

Out, when that is the only request of its status so far and a later one has come
(four of its fourteen figures):

    {"topology": "web", "key": "404", "window_end_ms": 807257100000,
     "figures": [
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 300000, "relative_error": 0.01},
        {"statistic": "quantile", "estimate": 0.0, "lower": 0.0, "upper": 0.0,
         "window_ms": 3600000, "quantile": 0.9, "relative_error": 0.009901778953003879,
         "absolute_error": 9.313225746154785e-10, "share_error": 0.01},
        {"statistic": "distinct_host", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 300000, "relative_error": 0.1, "confidence": 0.99},
        {"statistic": "top_url", "estimate": 1.0, "lower": 1.0, "upper": 1.0,
         "window_ms": 300000, "item": "/pub/winvn/readme.txt",
         "share_error": 0.00497787610619469}],
     "source_topic": "web", "source_partition": 0, "source_offset": 2}
"""

from slidestat import Count, Distinct, Quantiles, Sum, TopItems, Topology

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
        Distinct(field="host"),
        TopItems(field="url", limit=5),
    ),
)
