"""Format the output of `slidestat topology show`."""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Column, Table

import slidestat
from slidestat.cli.display.lines import print_whole
from slidestat.declare.alerts import Alert, AlertFigures
from slidestat.declare.derived import EMIT_ALWAYS, EMIT_CHANGE, EMIT_EVENTS, EMIT_WINDOWS
from slidestat.declare.fields import field_text
from slidestat.declare.forms.resolved import resolved_window
from slidestat.declare.statistics import Statistic
from slidestat.declare.statistics.base import Promise, Series, WeighedStatistic
from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.declare.topology import Topology
from slidestat.engine.footprint import Footprint, measure, measured_of
from slidestat.schemas.emission import Figure
from slidestat.text import bytes_text, human_duration, qualified
from slidestat.user_files import cache_folder, write_whole

# Below these, an error is that of floating-point numbers, not of a synopsis; in addition to a share
# of the value, the smallest value that a synopsis distinguishes from zero.
_LEAST_SHARE = 1e-12
_LEAST_NUMBER = 1e-300
_LEAST_BESIDE_SHARE = 1e-6
# Columns in which the table of statistics has words, not letters, one below the other.
_READABLE = 76
# Measurements of this many topologies are kept, about a kilobyte each.
_MOST_KEPT = 200
_EMITS = {
    EMIT_EVENTS: "keys with events, and those whose span has emptied",
    EMIT_WINDOWS: "keys with events, and those of which a window has emptied",
    EMIT_ALWAYS: "each key at every tick, as long as the span has an event of it",
    EMIT_CHANGE: "keys whose newest record is no longer true",
}


def show_topology(topology: Topology) -> None:
    """Print a topology's topics, fields and windows, and a table of its statistics with their
    errors and the memory that each takes for a key.
    """
    console = Console(highlight=False, markup=False)
    facts = Table("", Column(overflow="fold"), box=None, show_header=False, pad_edge=False)
    for name, text in _facts(topology).items():
        facts.add_row(name, text)
    print_whole(console, facts)
    console.print()
    # The declaration is shown at once; this status is seen on terminals only.
    with Console(stderr=True).status("Measuring; the first time, kernels are compiled ..."):
        memory = memory_of(topology)
    print_whole(console, _statistics(topology, memory), _READABLE)


class Memory(msgspec.Struct, frozen=True):
    """The memory of a key with so many `events`, and each statistic's synopsis and promise."""

    events: list[int]
    state_bytes: list[int]
    synopses: list[str]
    synopsis_bytes: list[list[int]]
    places: list[int]
    promises: list[Promise]


def memory_of(topology: Topology) -> Memory:
    """Return what this user's cache has of the same code and of what is measured; otherwise it is
    measured now, for which kernels take half a second to load.
    """
    path = _place(topology)
    if path is not None:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(path.read_bytes(), type=Memory)
    measured = measure(topology)
    runners = list(dict.fromkeys(topology.runners))
    span = topology.span_length.length
    found = Memory(
        [it.events for it in measured],
        [it.state_bytes for it in measured],
        [runner.meaning for runner in runners],
        [[it.synopsis_bytes[runner] for it in measured] for runner in runners],
        [runners.index(runner) for runner in topology.runners],
        [statistic.promise(span) for statistic in topology.statistics],
    )
    if path is not None:
        with suppress(OSError):
            write_whole(path, msgspec.json.encode(found))
            for old in sorted(path.parent.iterdir(), key=_age)[_MOST_KEPT:]:
                old.unlink()
    return found


def _age(path: Path) -> float:
    return -path.stat().st_mtime


def _place(topology: Topology) -> Path | None:
    """Return the file of a topology's memory; None for statistics of the user's own code."""
    if not all(type(it).__module__.startswith("slidestat.") for it in topology.statistics):
        return None
    what = hashlib.sha256(repr((measured_of(topology), topology.every)).encode())
    for room in ("declare", "engine", "kernels", "synopses"):
        for path in sorted((Path(slidestat.__path__[0]) / room).rglob("*.py")):
            what.update(path.read_bytes())
    return cache_folder() / "footprints" / f"{what.hexdigest()[:32]}.json"


def footprint_line(topology: Topology, measured: Iterable[Footprint]) -> str:
    """Return one line on the memory of a key, for the one who starts a worker."""
    sizes = ", ".join(
        f"{bytes_text(footprint.state_bytes)} with {footprint.events:,}" for footprint in measured
    )
    kept = "" if topology.sees_span_alone else f"; keys are kept {keeping_text(topology)}"
    return f"{topology.name}: memory of a key by its events in the span, measured: {sizes}{kept}"


def keeping_text(topology: Topology) -> str:
    """Return how long the state of a key is kept, and why, if that is for ever."""
    if topology.forget_ms is not None:
        return f"until the last event is {topology.forget_after or topology.span} old"
    if topology.span_length.of_events:
        return f"for ever: the last {topology.span} of a key never leave its window"
    labelled = zip(topology.labels, topology.statistics, strict=True)
    landmarks = ", ".join(label for label, statistic in labelled if statistic.is_landmark)
    return f"for ever: {landmarks} tells of all events since the first"


def promise_text(
    promise: Promise, series: Sequence[Series] = (), shared: str = "the events"
) -> str:
    """Return the largest error as a text such as 10 % + 0.0005. Quantiles have each another share
    of the events; `series` are the statistic's, and shares are of what is `shared`.
    """
    shares = [100 * one.share_error for one in series if one.share_error is not None]
    if shares and promise.relative_error:
        least, most = (f"{share:.3g} %" for share in (min(shares), max(shares)))
        of_a_p = most if least == most else f"{least} to {most}"
        value = promise_text(replace(promise, share_error=0.0))
        return f"{value}, of a p off by {of_a_p}"
    terms = [
        f"{100 * share:.3g} %{of}"
        for share, of in (
            (promise.relative_error, ""),
            (promise.share_error, f" of {shared}"),
            (promise.deviation_error, " of the deviation"),
            (promise.magnitude_error, " of the magnitudes"),
        )
        if share >= _LEAST_SHARE
    ]
    least_number = _LEAST_BESIDE_SHARE if promise.relative_error else _LEAST_NUMBER
    if promise.absolute_error >= least_number:
        terms.append(f"{promise.absolute_error:.3g}")
    text = " + ".join(terms) or "exact"
    sure = promise.confidence
    return text if sure == 1 else f"{text}, in {100 * sure:.6g} % of cases"


def _format_text(topology: Topology) -> str:
    """Return the format of a source that is not plain JSON, "" for one that is."""
    wrapped = f", in the envelope of {topology.envelope.title()}" if topology.envelope else ""
    if topology.source_format == "json":
        return wrapped
    if not topology.reads_binary:
        return f", with a JSON Schema{wrapped}"
    by = "" if topology.takes_registry else " by the schema that is declared"
    return f", in {topology.source_format.title()}{by}{wrapped}"


def _facts(topology: Topology) -> dict[str, str]:
    columns = topology.columns
    read = dict.fromkeys(column.path for column in (*columns.numbers, *columns.items))
    of_events = topology.windows_of_events
    windows = ", ".join(_window(n, of_events=of_events) for n in topology.window_lengths)
    if topology.calendar_windows:
        windows += f", by the clocks of {topology.time_zone}"
    whole = topology.publishes_partitions
    written = {}
    if topology.writes_rows:
        written["columns"] = ", ".join(column.name for column in topology.row_columns)
    if topology.exactly_once:
        written["commits"] = "outputs, states and progress in one transaction, for read_committed"
    published = {}
    if topology.publish:
        what = "whole partitions" if whole else f"the keys {', '.join(topology.publish)}"
        published["publishes"] = f"{what}, on {topology.synopsis_topic}"
    if topology.synopses:
        published["publishes"] = (
            f"each key's synopses every {topology.synopses}, on {topology.synopsis_topic}: a record"
            " for each statistic, of as many bytes as its memory below"
        )
    if topology.rankings:
        names = ", ".join(it.name for it in topology.rankings)
        published["ranks"] = f"{names}, for a referee, on {topology.synopsis_topic}"
    return {
        "topology": topology.name,
        "reads": topology.sources_text + _format_text(topology),
        **({"moves to": f"{topology.events_topic}, by the key"} if topology.repartition else {}),
        "key": "none: whole partitions" if whole else topology.key_name,
        "time": f"{topology.time_name}, {topology.times.text}",
        "values": ", ".join(map(field_text, read)) or "none",
        **({} if topology.condition is None else {"where": topology.condition.text}),
        **({"computes": "; ".join(topology.computed_texts)} if topology.computed else {}),
        "writes": topology.output_topic + _output_text(topology),
        **({"derives": "; ".join(topology.derived)} if topology.derived else {}),
        **written,
        **published,
        **_alerts(topology),
        "sets aside": f"{topology.dead_letter_topic}, {topology.late_topic}"
        + ("" if topology.passes_tombstones_over else ", tombstones as dead letters"),
        "changelog": topology.changelog_topic,
        "group": topology.application_id,
        "windows": f"{windows}; the span is {topology.span}",
        "every": _every(topology),
        **({"emits": _emits(topology)} if topology.emit != EMIT_WINDOWS or topology.having else {}),
        "lateness": topology.lateness,
        "keeps keys": keeping_text(topology),
    }


def _every_length(topology: Topology, clock_unit: str) -> dict[str, int]:
    if topology.every_events:
        return {"every_events": topology.every_events}
    return {f"every_{clock_unit}": topology.every_ms}


def _every(topology: Topology) -> str:
    if topology.is_sequence:
        return topology.every
    return f"{topology.every} of {'a key' if topology.every_events else 'event time'}"


def _emits(topology: Topology) -> str:
    """Return which keys are emitted."""
    tolerated = f", within {topology.tolerance}" if topology.tolerated else ""
    having = f", if {topology.having}" if topology.having else ""
    return _EMITS[topology.emit] + tolerated + having


def _output_text(topology: Topology) -> str:
    """Return the format of an output that is not plain JSON, "" for one that is."""
    written = {
        "avro": ", in Avro",
        "protobuf": ", in Protobuf",
        "connect-json": ", in JSON with Kafka Connect's schema",
    }
    return written.get(topology.output_format, "")


def _window(window: int, *, of_events: bool) -> str:
    if isinstance(window, CalendarWindow):
        return window.name
    return f"{window:,} events" if of_events else human_duration(window)


def _alerts(topology: Topology) -> dict[str, str]:
    """Return the topic of the alerts, each with its condition, then the keys that are expected."""
    if topology.alert_topic is None:
        return {}
    of_events = topology.windows_of_events
    lines = {"alerts": topology.alert_topic}
    for alert, read, ticks in zip(
        topology.alerts, topology.alert_figures, topology.alert_ticks, strict=True
    ):
        windows = [_window(n, of_events=of_events) for n in read.windows]
        parts = [
            *([] if alert.changing is None else [f"a change of {alert.changing.text}"]),
            *([] if alert.condition is None else [alert.condition.text]),
            *([f"over {' and '.join(windows)}"] if windows else []),
            *([f"{ticks:,} ticks in a row"] if ticks > 1 else []),
            *([] if alert.resolution is None else [f"resolved when {alert.resolution.text}"]),
            *(["only what is certain"] if alert.certain else []),
            *([f"severity {alert.severity}"] if alert.severity else []),
            *(f"{name}={text}" for name, text in alert.texts["labels"].items()),
            *([alert.runbook] if alert.runbook else []),
        ]
        lines[f"  {alert.name}"] = "; ".join(parts)
    if topology.expects_keys:
        of_topic = [f"the keys of {topology.expected_topic}"] * bool(topology.expected_topic)
        lines["expects"] = ", ".join([*topology.expected, *of_topic])
    return lines


def _statistics(topology: Topology, memory: Memory) -> Table:
    table = Table(
        title="Memory of a key by its events in the span, measured",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for heading in ("statistic", "error at most", "kept as"):
        table.add_column(heading, overflow="fold")
    for events in memory.events:
        table.add_column(f"{events:,}", justify="right", no_wrap=True)
    shown: set[int] = set()
    labelled = zip(
        topology.labels, topology.statistics, memory.places, memory.promises, strict=True
    )
    for label, statistic, place, promise in labelled:
        sizes = [bytes_text(size) for size in memory.synopsis_bytes[place]]
        table.add_row(
            _name(label, statistic),
            promise_text(promise, statistic.series(), _shared(statistic)),
            memory.synopses[place],
            *(['"'] * len(sizes) if place in shown else sizes),
        )
        shown.add(place)
    table.add_row("", "", "in all", *map(bytes_text, memory.state_bytes))
    return table


def _shared(statistic: Statistic) -> str:
    """Return what a statistic's shares are of."""
    weight = statistic.weight_path if isinstance(statistic, WeighedStatistic) else None
    return "the events" if weight is None else f"all {field_text(weight)}"


def _name(label: str, statistic: Statistic) -> str:
    """Return the name of a statistic's figures, and what distinguishes them."""
    figures = [Figure(label, None, None, None, **asdict(series)) for series in statistic.series()]
    if not figures:
        return label
    first, *others = map(qualified, figures)
    return ", ".join([first, *(text.removeprefix(f"{label} ") for text in others)])


# Build the output of `slidestat topology show --json`: plain data, for scripts.


def _alert_object(alert: Alert, read: AlertFigures) -> dict[str, Any]:
    return {
        "name": alert.name,
        "when": None if alert.condition is None else alert.condition.text,
        "window": None if read.window is None else resolved_window(read.window),
        "windows": list(map(resolved_window, read.windows)),
        "for": alert.for_,
        "resolve": None if alert.resolution is None else alert.resolution.text,
        "certain": alert.certain,
        "change": None if alert.changing is None else alert.changing.text,
        "delta": alert.delta if alert.change else None,
        **alert.texts,
    }


def topology_object(topology: Topology) -> dict[str, Any]:
    """Return a topology's topics, fields and windows, and for each statistic the promise and the
    bytes of a key.

    Windows are in milliseconds, or in events where the span is; those of the calendar are names.
    `bytes` go by the key's events in the span. Costs a second where they are measured.
    """
    memory = memory_of(topology)
    span = topology.span_length
    clock_unit = "events" if topology.is_sequence else "ms"
    labelled = zip(topology.labels, memory.places, memory.promises, strict=True)
    return {
        "topology": topology.name,
        "source": topology.source or None,
        **({"sources": list(topology.sources)} if topology.sources else {}),
        "source_format": topology.source_format,
        "envelope": topology.envelope or None,
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
            _alert_object(alert, read)
            for alert, read in zip(topology.alerts, topology.alert_figures, strict=True)
        ],
        "rankings": {ranking.name: ranking.text for ranking in topology.rankings},
        "changelog_topic": topology.changelog_topic,
        "group": topology.application_id,
        "windows_of": "events" if topology.windows_of_events else "ms",
        "span": span.length,
        "windows": list(map(resolved_window, topology.window_lengths)),
        **({"time_zone": topology.time_zone} if topology.time_zone else {}),
        **_every_length(topology, clock_unit),
        f"lateness_{clock_unit}": topology.lateness_ms,
        "statistics": [
            {
                "name": label,
                "kept_as": memory.synopses[place],
                "promise": asdict(promise),
                "bytes": _by_events(memory, memory.synopsis_bytes[place]),
            }
            for label, place, promise in labelled
        ],
        "derived": {figure.name: figure.text for figure in topology.derived_figures},
        "bytes": _by_events(memory, memory.state_bytes),
    }


def _by_events(memory: Memory, sizes: Sequence[int]) -> dict[str, int]:
    return {f"{events}": size for events, size in zip(memory.events, sizes, strict=True)}
