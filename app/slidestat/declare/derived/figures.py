"""The figures of a topology, the synopses that they come from, and the meaning of states."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from slidestat.declare.alerts import ALERTS_LABEL, label_of, window_of
from slidestat.declare.derived.reading import ReadFields
from slidestat.declare.derived.topics import WrittenTopics
from slidestat.declare.figure_names import NamedFigure, named_figures
from slidestat.declare.rows import RowColumn, row_columns
from slidestat.declare.statistics import Statistic
from slidestat.declare.statistics.base import Promise
from slidestat.declare.statistics.runner import ChosenRunner, Runner, Work, shared
from slidestat.errors import SlidestatError
from slidestat.synopses.core.errors import SynopsisError


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
    def runners(self) -> tuple[Runner, ...]:
        """The synopsis of each statistic; those of two that can share one are equal."""
        return shared([self._runner(statistic) for statistic in self.statistics])

    def _runner(self, statistic: Statistic) -> Runner:
        path = statistic.path(self.value_path)
        try:
            runner = self._one_window_runner(statistic)
            if runner is None:
                runner = statistic.runner(self.span_length.length, path)
        except SynopsisError as error:
            raise SlidestatError(
                f"the statistic {statistic.label(self.value_path)} cannot be kept: {error}.",
                "Give it other parameters.",
            ) from error
        condition = statistic.condition
        return runner if condition is None else ChosenRunner(runner, condition)

    def empty_synopsis(self, runner: Runner) -> bytes:
        """Return the synopsis of a stream that has had no event."""
        windows = np.array(self.window_lengths, np.int64)
        return runner.run([None], Work.question(self.columns, (), windows)).states[0]

    @property
    def states_of(self) -> "KeptFigures":
        """The topology whose states are kept: this one."""
        return self

    def _one_window_runner(self, statistic: Statistic) -> Runner | None:
        """Return the synopsis for one window of a fixed number of events, None if more is asked
        for.

        The statistic takes each of the events that make a key's last n: one that lacks its field is
        a dead letter where all statistics read that field. A window of time has now more of them,
        now less.
        """
        declared = self.states_of
        span = declared.span_length
        if not span.of_events or declared.window_lengths != (span.length,):
            return None
        read = {column.path for column in statistic.columns(self.value_path)}
        if statistic.condition is not None or not all(
            read <= {column.path for column in other.columns(self.value_path)}
            for other in declared.statistics
        ):
            return None
        return statistic.one_window_runner(span.length, statistic.path(self.value_path))

    @property
    def _kept_for_one_window(self) -> list[str]:
        """The meanings of states that are of use for the one window alone."""
        runners = map(self._one_window_runner, self.statistics)
        return list(dict.fromkeys(runner.meaning for runner in runners if runner is not None))

    def promise_of(self, statistic: Statistic, window: int | None) -> Promise:
        """Return the error of figures over a window of that length; None is for figures without
        one.

        A state for one window answers for shorter ones with the same error, in events.
        """
        span = self.span_length.length
        promise = statistic.promise(span)
        if window is None or self._one_window_runner(statistic) is None:
            return promise
        return replace(promise, share_error=min(1.0, promise.share_error * span / window))

    @property
    def sees_span_alone(self) -> bool:
        """Return whether no figure depends on events of a key that have left the span."""
        landmarks = any(statistic.is_landmark for statistic in self.statistics)
        return not self.span_length.of_events and not landmarks

    @cached_property
    def forget_ms(self) -> int | None:
        """The event time after its last event at which a key is forgotten; None if it never is."""
        if self.forget_after:
            return self.duration(self.forget_after, "forget_after")
        return self.span_length.length if self.sees_span_alone else None

    @cached_property
    def silences(self) -> tuple[int, ...]:
        """The event times after its last event at which a key is emitted once more: when the span
        has none of its events any more, and when it is forgotten.
        """
        span = () if self.span_length.of_events else (self.span_length.length,)
        forgotten = () if self.forget_ms is None else (self.forget_ms,)
        return tuple(sorted({*span, *forgotten}))

    @cached_property
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
            **({"one window": "; ".join(fixed)} if (fixed := self._kept_for_one_window) else {}),
            **({} if self.condition is None else {"where": self.condition.text}),
            **({"computed": "; ".join(self.computed_texts)} if self.computed else {}),
        }

    @cached_property
    def state_label(self) -> dict[str, str]:
        """Return what is stored with states: their meaning, where their output goes, and the alerts
        that apply to them.
        """
        alerts = {ALERTS_LABEL: label_of(self.alerts, self.alert_windows)} if self.alerts else {}
        return {**self.state_meaning, "output": self.output_topic, **alerts}
