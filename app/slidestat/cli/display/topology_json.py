"""Build the output of `slidestat topology show --json`: plain data, for scripts."""

from dataclasses import asdict
from typing import Any

from slidestat.declare.topology import Topology
from slidestat.engine.footprint import measure


def topology_object(topology: Topology) -> dict[str, Any]:
    """Return a topology's topics, fields and windows, and for each statistic the promise and the
    bytes of a key.

    Windows are in milliseconds, or in events where the span is; `bytes` go by the key's events in
    the span. Costs a second, as footprint.measure does.
    """
    footprints = measure(topology)
    span = topology.span_length
    clock_unit = "events" if topology.is_sequence else "ms"
    labelled = zip(topology.labels, topology.statistics, topology.runners, strict=True)
    return {
        "topology": topology.name,
        "source": topology.source,
        "source_format": topology.source_format,
        "repartition_topic": topology.events_topic if topology.repartition else None,
        "key_field": topology.key_name,
        "time_field": topology.time_name,
        "time_format": topology.time_format,
        "where": None if topology.condition is None else topology.condition.text,
        "computed": topology.computed_texts,
        "output_topic": topology.output_topic,
        "output_format": topology.output_format,
        "output_columns": [column.name for column in topology.row_columns]
        if topology.writes_rows
        else None,
        "exactly_once": topology.exactly_once,
        "tombstones": topology.tombstones,
        "dead_letter_topic": topology.dead_letter_topic,
        "late_topic": topology.late_topic,
        "alert_topic": topology.alert_topic,
        "alerts": [
            {
                "name": alert.name,
                "when": alert.condition.text,
                "window": window,
                "for": alert.for_,
                "resolve": None if alert.resolution is None else alert.resolution.text,
                "certain": alert.certain,
            }
            for alert, window in zip(topology.alerts, topology.alert_windows, strict=True)
        ],
        "changelog_topic": topology.changelog_topic,
        "group": topology.application_id,
        "windows_of": "events" if topology.windows_of_events else "ms",
        "span": span.length,
        "windows": topology.window_lengths,
        f"every_{clock_unit}": topology.every_ms,
        f"lateness_{clock_unit}": topology.lateness_ms,
        "statistics": [
            {
                "name": label,
                "kept_as": runner.meaning,
                "promise": asdict(statistic.promise(span.length)),
                "bytes": {f"{f.events}": f.synopsis_bytes[runner] for f in footprints},
            }
            for label, statistic, runner in labelled
        ],
        "bytes": {f"{f.events}": f.state_bytes for f in footprints},
    }
