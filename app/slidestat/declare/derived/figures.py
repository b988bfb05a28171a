"""The figures of a topology, the synopses that they come from, and the meaning of states."""

from functools import cached_property
from typing import TYPE_CHECKING

from slidestat.declare.alerts import window_of
from slidestat.declare.derived.reading import ReadFields
from slidestat.declare.derived.topics import WrittenTopics
from slidestat.declare.figure_names import NamedFigure, named_figures
from slidestat.declare.rows import RowColumn, row_columns
from slidestat.declare.statistics import Statistic
from slidestat.errors import SlidestatError
from slidestat.synopses.core.errors import SynopsisError

if TYPE_CHECKING:
    from slidestat.declare.runners import Runner


class KeptFigures(WrittenTopics, ReadFields):
    """The figures of a topology by name, and the synopses that keep them."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each statistic's figures."""
        return tuple(statistic.label(self.value_path) for statistic in self.statistics)

    @cached_property
    def named_figures(self) -> list[NamedFigure]:
        """The figures of an emission but those of lists of items, by their plain names."""
        return named_figures(self.statistics, self.labels, self.window_lengths)

    @cached_property
    def row_columns(self) -> list[RowColumn]:
        """The columns of its rows, if it writes such."""
        window = "window_events" if self.windows_of_events else "window_ms"
        return row_columns(self.named_figures, window, is_sequence=self.is_sequence)

    @cached_property
    def alert_windows(self) -> tuple[int, ...]:
        """The length of each alert's window, in what the span is measured in."""
        return tuple(
            window_of(
                alert,
                self.window_lengths,
                self.window(alert.window, f"the window of the alert {alert.name}").length
                if alert.window
                else None,
            )
            for alert in self.alerts
        )

    @cached_property
    def runners(self) -> tuple["Runner", ...]:
        """The synopsis of each statistic; those of two that can share one are equal."""
        from slidestat.declare.runners.runner import shared

        try:
            return shared([self._runner(statistic) for statistic in self.statistics])
        except SynopsisError as error:
            raise SlidestatError(
                f"statistics has one that cannot be kept: {error}.", "Give it other parameters."
            ) from error

    def _runner(self, statistic: Statistic) -> "Runner":
        from slidestat.declare.runners.chosen import ChosenRunner

        path = statistic.path(self.value_path)
        runner = statistic.runner(self.span_length.length, path)
        condition = statistic.condition
        return runner if condition is None else ChosenRunner(runner, condition)

    @property
    def forgets_keys(self) -> bool:
        """Whether a key's state is worth nothing once its last event has left the span."""
        landmarks = any(statistic.is_landmark for statistic in self.statistics)
        return not self.span_length.of_events and not landmarks

    @property
    def state_meaning(self) -> dict[str, str]:
        """Return the fields that stored states depend on: with another meaning, states are of no
        use. Windows and `every` are free to change.
        """
        written = self.time_format
        return {
            "group": self.group_name,
            "name": self.name,
            "source": self.events_topic,
            "key_field": "none, whole partitions" if self.publishes_partitions else self.key_name,
            "time_field": self.time_name + ("" if written == "ms" else f" in {written}"),
            "span": f"{self.span_length.length} {'events' if self.windows_of_events else 'ms'}",
            "lateness": f"{self.lateness_ms} {self.times.unit}",
            "statistics": "; ".join(dict.fromkeys(runner.meaning for runner in self.runners)),
            **({} if self.condition is None else {"where": self.condition.text}),
            **({"computed": "; ".join(self.computed_texts)} if self.computed else {}),
        }

    @property
    def state_label(self) -> dict[str, str]:
        """Return what is stored beside states: their meaning, and where their output goes."""
        return {**self.state_meaning, "output": self.output_topic}
