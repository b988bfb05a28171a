"""Published synopses, records moved by key, alerts and rows."""

from collections.abc import Sequence

from slidestat.declare.alerts import check_alerts
from slidestat.declare.derived.figures import KeptFigures
from slidestat.declare.derived.topics import PARTITION
from slidestat.declare.rows import check_rows
from slidestat.errors import SlidestatError


def check_publish(topology: KeptFigures) -> None:
    """Check what is published, and whether it can be united."""
    publish = topology.publish
    if not publish:
        return
    of_keys = isinstance(publish, Sequence) and not isinstance(publish, str)
    if not topology.publishes_partitions and not (
        of_keys and all(isinstance(key, str) and key for key in publish)
    ):
        raise SlidestatError(
            f"publish is {publish!r}.", f'Give "{PARTITION}", or a list of keys: ["ATL"].'
        )
    if topology.span_length.of_events:
        raise SlidestatError(
            f"publish is {publish!r}, but windows are of {topology.span!r}: each partition"
            " numbers its own events.",
            "Give the span as a duration, or number the events of all partitions in one"
            ' sequence: time_format="sequence".',
        )
    for statistic in topology.statistics:
        if not statistic.can_be_united:
            raise SlidestatError(
                f"publish is {publish!r}, but {statistic.kind} cannot be answered over many"
                " partitions.",
                "Take it out, or keep it in a topology that does not publish.",
            )


def check_repartition(topology: KeptFigures) -> None:
    """Check whether records can be moved by their key before they are counted."""
    if not isinstance(topology.repartition, bool):
        raise SlidestatError(f"repartition is {topology.repartition!r}.", "Give true or false.")
    if not topology.repartition:
        return
    if topology.publish:
        raise SlidestatError(
            f"repartition is true, and publish is {topology.publish!r}: both bring together"
            " keys that lie in several partitions, and one of them is enough.",
            "Leave repartition out where a referee answers, else publish.",
        )
    if topology.reads_binary:
        raise SlidestatError(
            f"repartition is true, and source_format is {topology.source_format!r}: records are"
            " moved by a key that is read from their JSON.",
            "Have the producers set the record's key, or copy the events to a topic in JSON.",
        )
    if not topology.lateness_ms:
        raise SlidestatError(
            f"repartition is true, and lateness is {topology.lateness!r}: a record of one"
            " partition would be late as soon as another partition is ahead of it.",
            'Give the most that one partition may be behind another, such as lateness = "10s".',
        )


def check_exactly_once(topology: KeptFigures) -> None:
    """Check whether each record that is written can be there once."""
    if not isinstance(topology.exactly_once, bool):
        raise SlidestatError(f"exactly_once is {topology.exactly_once!r}.", "Give true or false.")
    if not topology.exactly_once:
        return
    if topology.publish:
        raise SlidestatError(
            f"exactly_once is true, and publish is {topology.publish!r}: synopses go to partitions"
            " of their own, and a referee recognises one that is repeated.",
            "Leave exactly_once out: the referee counts nothing twice.",
        )
    if topology.idle_ms:
        raise SlidestatError(
            f"exactly_once is true, and idle is {topology.idle!r}: a provisional emission is"
            " written once more when it is final.",
            "Leave idle out, or exactly_once, and take the newest record of each key.",
        )


def check_alerts_of(topology: KeptFigures) -> None:
    """Check the alerts, and the windows that they are of."""
    check_alerts(topology.alerts, topology.named_figures)
    if topology.alerts and topology.publish:
        raise SlidestatError(
            f"alerts are given, and publish is {topology.publish!r}: each partition has only a part"
            " of the events of such a key.",
            "Declare them in a topology of the same events that does not publish.",
        )
    _ = topology.alert_windows


def check_rows_of(topology: KeptFigures) -> None:
    """Check that rows, if it writes such, can hold its figures."""
    if topology.writes_rows and topology.publishes_partitions:
        raise SlidestatError(
            'output_shape is "rows", and publish is "partition": nothing is emitted by key.',
            "Leave output_shape out: a referee writes emissions.",
        )
    if topology.writes_rows:
        check_rows(topology.statistics, topology.named_figures, topology.row_columns)
