"""Published synopses, alerts and rows."""

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
            f"publish is {publish!r}, but windows are of {topology.span!r}: partitions number"
            " their events each on its own.",
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


def check_alerts_of(topology: KeptFigures) -> None:
    """Check the alerts, and the windows that they are of."""
    check_alerts(topology.alerts, topology.named_figures)
    if topology.alerts and topology.publish:
        raise SlidestatError(
            f"alerts are given, and publish is {topology.publish!r}: what a partition knows of such"
            " keys is not all there is.",
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
