"""The figures of chosen keys as gauges for Prometheus: what a scrape asks for, and no more.

The scrape names the keys, as its configuration has them, so their number is up to its owner; a
worker answers for those that it has.
"""

from collections.abc import Container, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slidestat.schemas.emission import Figure
from slidestat.schemas.query import KeyAnswer
from slidestat.schemas.sequence import SequenceKeyAnswer
from slidestat.text.figure_text import short, window_text

_LABELS = ("topology", "key", "statistic", "window", "quantile", "at_least", "below", "item")


def registry_of(answers: Sequence[KeyAnswer], lists: Container[str]) -> CollectorRegistry:
    """Return the gauges of answers; none of the statistics in `lists`, which list other items from
    time to time.
    """
    registry = CollectorRegistry()
    registry.register(_FigureGauges(answers, lists))
    return registry


class _FigureGauges(Collector):
    def __init__(self, answers: Sequence[KeyAnswer], lists: Container[str]) -> None:
        self._answers = answers
        self._lists = lists

    def collect(self) -> Iterator[Metric]:
        """Yield gauges of the estimates and their bounds, and of the window ends."""
        for name, text, field in (
            ("slidestat_figure", "The estimate.", "estimate"),
            ("slidestat_figure_lower", "The exact figure is not below this.", "lower"),
            ("slidestat_figure_upper", "The exact figure is not above this.", "upper"),
        ):
            family = GaugeMetricFamily(name, text, labels=_LABELS)
            for answer, figure in self._gauged():
                value = getattr(figure, field)
                if value is not None:
                    family.add_metric(_labels(answer, figure), value)
            yield family
        end = GaugeMetricFamily(
            "slidestat_figure_window_end_timestamp_seconds",
            "Event time at which the windows end.",
            labels=("topology", "key"),
        )
        end_number = GaugeMetricFamily(
            "slidestat_figure_window_end_seq",
            "First number of the sequence after the windows.",
            labels=("topology", "key"),
        )
        for answer in self._answers:
            of_key = answer.topology, answer.key
            if isinstance(answer, SequenceKeyAnswer):
                end_number.add_metric(of_key, answer.window_end_ms)
            else:
                end.add_metric(of_key, answer.window_end_ms / 1000)
        yield end
        if end_number.samples:
            yield end_number

    def _gauged(self) -> Iterator[tuple[KeyAnswer, Figure]]:
        for answer in self._answers:
            for figure in answer.figures:
                # Bounds are of all of a window: of what was added later there is no gauge yet.
                if figure.statistic not in self._lists and figure.counted_from_ms is None:
                    yield answer, figure


def _labels(answer: KeyAnswer, figure: Figure) -> tuple[str, ...]:
    limits = (figure.quantile, figure.at_least, figure.below)
    numbers = ("" if number is None else short(number) for number in limits)
    own = answer.topology, answer.key, figure.statistic, window_text(figure)
    return *own, *numbers, figure.item or ""
