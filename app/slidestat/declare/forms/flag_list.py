"""The flags of a topology: one for each of its fields, and what `slidestat run --help` says of it.

Nothing else is imported: the help must be there at once.
"""

from typing import NamedTuple


class Flag(NamedTuple):
    """A flag, its value in the help, whether it can be repeated, and whether it has no value."""

    name: str
    metavar: str
    help: str
    repeats: bool = False
    is_switch: bool = False


# The flags by fields of `Topology`; a test compares the two.
TOPOLOGY_FLAGS: dict[str, Flag] = {
    "source": Flag("--source", "TOPIC", "The topic of the events."),
    "sources": Flag(
        "--sources", "TOPIC,TOPIC", "Several topics, or patterns (orders-*), counted together."
    ),
    "name": Flag("--name", "NAME", "Begins the names of the topics that are written."),
    "span": Flag("--span", "1h", 'The longest window kept; or "1000 events".'),
    "every": Flag("--every", "1m", "How often statistics are written, in event time."),
    "windows": Flag(
        "--window", "5m", "A window written; repeat it; default: the span.", repeats=True
    ),
    "time_zone": Flag(
        "--time-zone", "Europe/Berlin", 'Whose days and hours "today" and "this_hour" are.'
    ),
    "statistics": Flag(
        "--statistic",
        "KIND[:FIELD][:NAME=VALUE]...",
        "Such as count, or quantile:ms:epsilon=0.02; repeat it; "
        "default: count, mean, deviation, minimum, maximum, quantiles.",
        repeats=True,
    ),
    "lateness": Flag("--lateness", "5s", "How far a record may lie behind the newest."),
    "ahead": Flag("--ahead", "5m", "How far an event may lie after its record's timestamp."),
    "idle": Flag(
        "--idle", "30s", "Emit provisionally when a partition brings nothing for this long."
    ),
    "forget_after": Flag(
        "--forget-after", "7d", "Forget keys of last events, or of totals, after so long."
    ),
    "emit": Flag(
        "--emit",
        "events|windows|always|change",
        "When keys without new events are emitted; default: windows.",
    ),
    "tolerance": Flag("--tolerance", "5%", "With --emit change: how far bounds may move."),
    "having": Flag("--having", "CONDITION", 'Emit these keys alone: "count_5m >= 100".'),
    "key_field": Flag(
        "--key",
        "FIELD",
        "Field of the key; user.id is a field in an object, kafka:key the record's own key.",
    ),
    "time_field": Flag(
        "--time", "FIELD", "Field of the event time; kafka:timestamp is the record's own time."
    ),
    "time_format": Flag(
        "--time-format",
        "ms|s|us|ns|iso8601|iso8601-utc|sequence",
        "How times are written; default: ms.",
    ),
    "value_field": Flag("--value", "FIELD", "Field of statistics that name none."),
    "where": Flag("--where", "CONDITION", 'Count these events alone, as SQL: "status >= 500".'),
    "derived": Flag(
        "--derived",
        "EXPRESSION as NAME",
        'A figure computed from others: "errors_5m / count_5m as error_rate"; repeat for more.',
        repeats=True,
    ),
    "computed": Flag(
        "--computed",
        "EXPRESSION as NAME",
        "A field computed from others; repeat for more.",
        repeats=True,
    ),
    "tombstones": Flag(
        "--tombstones", "pass-over|dead-letter", "Records without a value; default: pass-over."
    ),
    "source_format": Flag(
        "--source-format", "json|avro|protobuf|json-schema", "Of the events; default: json."
    ),
    "source_schema": Flag(
        "--source-schema", "FILE", "Of events in Avro or Protobuf that take no schema registry."
    ),
    "source_message": Flag(
        "--source-message", "NAME", "Of the schema's messages, which the events are: shop.Order."
    ),
    "envelope": Flag("--envelope", "debezium", "What the events are wrapped in."),
    "publish": Flag("--publish", "partition|KEY,KEY", "Have a referee answer over all partitions."),
    "synopses": Flag(
        "--synopses", "1h", "Write each key's synopses at this interval, for rollups of a lake."
    ),
    "alerts": Flag(
        "--alert",
        "NAME:WHEN[:NAME=VALUE]...",
        'Such as "slow:p99 > 500 and count >= 100:window=5m:for=3"; repeat it.',
        repeats=True,
    ),
    "alert_headers": Flag(
        "--alert-headers", "cloudevents", "Give the records of alerts these headers."
    ),
    "rankings": Flag(
        "--ranking",
        "NAME:BY:largest=N",
        "Of keys, for a referee to write: slow:p99_5m:largest=20.",
        repeats=True,
    ),
    "slos": Flag(
        "--slo",
        "NAME:GOOD:objective=SHARE",
        'A service-level objective: "availability:status < 500:objective=0.999"; repeat it.',
        repeats=True,
    ),
    "expected": Flag(
        "--expected", "KEY,KEY", "Have alerts on missing events fire for these keys, too."
    ),
    "expected_topic": Flag(
        "--expected-topic", "TOPIC", "Have them fire for the record keys of this topic, too."
    ),
    "repartition": Flag(
        "--repartition",
        "",
        "Move the records to GROUP-repartition by their key first.",
        is_switch=True,
    ),
    "exactly_once": Flag(
        "--exactly-once",
        "",
        "Commit what is written in Kafka transactions, for readers with read_committed.",
        is_switch=True,
    ),
    "output_format": Flag(
        "--output-format", "json|avro|connect-json|protobuf", "Of the statistics; default: json."
    ),
    "output_shape": Flag(
        "--output-shape", "emissions|rows", "rows: a record a window, plain columns."
    ),
    "output": Flag("--output", "NAME", "Begins the names of the topics written; default: --name."),
    "group": Flag("--group", "NAME", "The consumer group's name; default: the topology's."),
}


def flag_of(field: str) -> str:
    """Return the flag of a topology's field."""
    return TOPOLOGY_FLAGS[field].name
