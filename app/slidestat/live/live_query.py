"""Questions to the live state of a partition: any windows up to the span, any statistics, now.

An answer is what an emission would be if it came now. Now is the partition's watermark + 1: the
windows end there, and every event up to the watermark lies before and is in, whether its key's
state has absorbed it yet or not. Events that wait for the watermark are not in yet. A question
takes no events in and leaves no trace.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slidestat.declare.alerts import Alert
from slidestat.declare.derived import KeptFigures
from slidestat.declare.figure_names import asked_quantile
from slidestat.declare.statistics import Statistic
from slidestat.declare.statistics.quantiles import QuantileStatistic
from slidestat.declare.statistics.runner import Answered, Runner, Work, past_of
from slidestat.declare.times.calendar_windows import lengths_at
from slidestat.declare.topology import WITHOUT_READERS, Topology
from slidestat.declare.values import require_list
from slidestat.engine.alerts.alerting import alert_id, decode_standings
from slidestat.engine.checkpoints.checkpoint import Loss, decode_checkpoint, stored_slots
from slidestat.engine.clock import closing_tick
from slidestat.engine.emissions.added_figures import AddedFigures
from slidestat.engine.emissions.emission import FigureTable, at_end, window_fields
from slidestat.engine.keys.key_state import StateLayout, starts_by_label
from slidestat.engine.keys.stored_keys import PartitionStore, StoredKeys
from slidestat.engine.ticks.kernel_calls import unusable_state
from slidestat.engine.view import KeyView, PartitionView
from slidestat.errors import SlidestatError, near_name
from slidestat.live import questions
from slidestat.schemas.alert import Certainty
from slidestat.schemas.emission import LostRecords
from slidestat.schemas.query import Bounds, KeyAlert, KeyAnswer, ValueRank
from slidestat.schemas.sequence import kinds
from slidestat.synopses.core.errors import SynopsisError

# The alerts of a key, for answers to queries.


def key_alerts(
    alerts: Iterable[Alert], standings: bytes, key_alert: type[KeyAlert]
) -> list[KeyAlert]:
    """Return those of the declared alerts that fire or are pending, in their order; `key_alert` is
    the struct of the version that is answered in.

    `standings` are of the key's state; raises SlidestatError for bytes that are none.
    """
    stored = decode_standings(standings)
    return [
        key_alert(
            alert.name,
            "firing" if standing.is_firing else "pending",
            Certainty.CERTAIN if standing.is_certain else Certainty.LIKELY,
            standing.since,
            **alert.texts,
        )
        for alert in alerts
        if (standing := stored.get(alert_id(alert.name))) is not None
    ]


# Ranks of values as rows of answers.


class RankTable:
    """A formatter of the answers of `Ranks`, a topology's only statistics, over its windows."""

    def __init__(self, topology: Topology) -> None:
        self._windows = [
            window_fields(window, of_events=topology.windows_of_events)
            for window in topology.window_lengths
        ]
        self._asked: list[tuple[str, questions.Ranks, Runner, tuple[float, float]]] = []
        for label, statistic, runner in zip(
            topology.labels, topology.statistics, topology.runners, strict=True
        ):
            if isinstance(statistic, questions.Ranks):
                parameters = statistic.parameters(topology.span_length.length)
                errors = parameters.epsilon, parameters.rank_value_error
                self._asked.append((label, statistic, runner, errors))

    def rows(self, answered: Mapping[Runner, Answered]) -> list[ValueRank]:
        """Return the ranks of one query, by statistic, windows in their order, values in theirs."""
        rows = []
        for label, statistic, runner, (relative_error, value_error) in self._asked:
            # float64[windows, values, 4, 3]
            numbers = answered[runner].answers["rank"][:, :, 0].transpose(2, 3, 0, 1)
            for window, row in zip(self._windows, numbers.tolist(), strict=True):
                for value, sides in zip(statistic.values, row, strict=True):
                    at_most, more_than, share_at_most, share_more_than = map(_bounds, sides)
                    rows.append(
                        ValueRank(
                            statistic=label,
                            value=value,
                            at_most=at_most,
                            more_than=more_than,
                            share_at_most=share_at_most,
                            share_more_than=share_more_than,
                            relative_error=relative_error,
                            value_error=value_error,
                            **window,
                        )
                    )
        return rows


def _bounds(side: Sequence[float]) -> Bounds:
    # NaN, which is not equal to itself, is null in JSON.
    estimate, lower, upper = (None if number != number else number for number in side)
    return Bounds(estimate, lower, upper)


def stored_view(topology: Topology, partition: int, store: PartitionStore) -> PartitionView:
    """Return a view of a partition as it is stored, with nothing read since the worker started.

    Raises SlidestatError for a store of another topology.
    """
    stored = store.checkpoint()
    checkpoint = decode_checkpoint(stored, topology.state_meaning)
    layout = StateLayout(topology, stored_slots(stored))
    watermark = checkpoint.max_time - topology.lateness_ms
    offset, keys = checkpoint.next_offset, StoredKeys(store, layout)
    starts = starts_by_label(topology, layout)
    return PartitionView(partition, watermark, offset, keys, checkpoint.loss, starts=starts)


class Asked(NamedTuple):
    """A topology with the windows and statistics that are asked for; the place of each statistic's
    synopsis among those of the topology; and how long ago the windows ended.
    """

    topology: Topology
    places: list[int]
    ago: int


def asked_of(
    topology: Topology,
    windows: Sequence[str] = (),
    statistics: Sequence[str] = (),
    quantiles: Sequence[float] = (),
    where: str | None = None,
    ranks: Sequence[float] = (),
    items: Sequence[str] = (),
    ago: str | None = None,
) -> Asked:
    """Check a question to a topology, in the terms of `LiveQuery`, and refuse it as there."""
    of_others = bool(windows or statistics or quantiles or ranks or items or where or ago)
    kept = list(dict.fromkeys(topology.runners))
    asked: list[Statistic] = []
    places: list[int] = []
    named = _known(statistics, topology)
    declared = dict(zip(topology.labels, topology.statistics, strict=True))
    _require_one(where=where is not None, rank=bool(ranks), item=bool(items))
    _require_one(quantile=bool(quantiles), rank=bool(ranks), item=bool(items))
    _require_one(where=where is not None, rank=bool(ranks), ago=ago is not None)
    if where is not None:
        declared = {**questions.asked_where(where, declared)}
        named = _that_can_be_asked(named, statistics, declared, "where", f"where {where!r}")
    if ranks:
        declared = questions.asked_ranks(ranks, declared)
        named = _that_can_be_asked(named, statistics, declared, "rank", "for ranks of values")
    if items:
        declared = questions.asked_items(items, declared)
        named = _that_can_be_asked(named, statistics, declared, "item", "for counts of items")
    if ago is not None:
        declared = questions.past_statistics(ago, declared)
        named = _that_can_be_asked(named, statistics, declared, "ago", "of the past")
    for label in named:
        place = topology.labels.index(label)
        statistic = declared[label]
        if quantiles and isinstance(statistic, QuantileStatistic):
            statistic = replace(statistic, quantiles=tuple(quantiles))
        asked.append(statistic)
        places.append(kept.index(topology.runners[place]))
    if quantiles and not any(isinstance(statistic, QuantileStatistic) for statistic in asked):
        raise SlidestatError(
            "quantile is given, but no statistic that is asked for has quantiles.",
            "Leave quantile out, or ask for a statistic of the kind quantile.",
        )
    _check_windows(windows, topology)
    before = 0
    if ago is not None:
        before, windows = questions.past_windows(ago, windows, topology)
    return Asked(
        questions.asked_topology(
            topology,
            windows=windows or topology.windows,
            statistics=asked,
            computed=_computed_for(topology, asked),
            # An answer is neither a row nor an alert, and is given on no condition.
            **{
                **WITHOUT_READERS,
                "forget_after": topology.forget_after,
                "derived": () if of_others else topology.derived,
            },
        ),
        places,
        before,
    )


def _computed_for(topology: Topology, asked: Sequence[Statistic]) -> tuple[str, ...]:
    """Return the computed fields that the key and these statistics are of."""
    read = {column.path for known in asked for column in known.columns(topology.value_path)}
    fields = zip(topology.computed, topology.computed_fields, strict=True)
    return tuple(text for text, path in fields if path in read or path == topology.key_path)


class LiveQuery:
    """A question, to be asked of any key of a topology.

    `windows` are lengths such as "5m" or "1000 events", each up to the span; those of the topology
    by default. `statistics` are names of the topology's figures, all by default, with derived ones,
    which are over the topology's own windows whatever is asked for; `quantiles` takes
    the place of those that its quantile statistics declare. `where`, such as "country=NL", asks for
    the distinct items with that text in the field by which they were declared, and for nothing
    else; `ranks`, values such as 250, for how many events are at most as large, of the quantiles by
    value, and for nothing else; `items` for how often each of them came, of `item_counts` and
    `top`, and for nothing else. `ago`, such as "24h", asks for the windows that ended so long
    before, of the statistics and the windows for which the state answers that. Raises
    SlidestatError, naming the parameter, for what the topology does not keep.
    """

    def __init__(
        self,
        topology: Topology,
        windows: Sequence[str] = (),
        statistics: Sequence[str] = (),
        quantiles: Sequence[float] = (),
        where: str | None = None,
        ranks: Sequence[float] = (),
        items: Sequence[str] = (),
        ago: str | None = None,
    ) -> None:
        # A text is a list of its letters.
        lists = {"windows": windows, "statistics": statistics, "quantiles": quantiles}
        for name, given in {**lists, "ranks": ranks, "items": items}.items():
            require_list(name, given, "Write a list, also of a single one.")
        derived = {figure.name for figure in topology.derived_figures}
        of_others = any(windows) or any(statistics) or any(quantiles)
        # Derived figures do not exist for the past, nor where only ranks and items are answered.
        is_asked = where is None and not (ranks or items or ago)
        self._wanted = derived.intersection(statistics) if statistics else derived
        # Derived figures are of the topology's windows and of all of its statistics.
        self._whole = LiveQuery(topology) if is_asked and of_others and self._wanted else None
        of_statistics = [name for name in statistics if name not in derived or not is_asked]
        self._has_others = bool(of_statistics) or not statistics
        asked = asked_of(topology, windows, of_statistics, quantiles, where, ranks, items, ago)
        self._topology, self._places, self._ago = asked
        # Alerts are as they are now.
        self._alerts = () if self._ago else topology.alerts
        self._kinds = kinds(is_sequence=topology.is_sequence)
        self._where = where
        self._ranks = RankTable(self._topology) if ranks else None
        lengths = self._topology.window_lengths
        self._windows = np.array(lengths, np.int64)
        self._figures = FigureTable(self._topology, lengths)
        # Figures of partitions with added statistics, by when these were added.
        self._added: dict[frozenset[tuple[str, int]], FigureTable] = {}

    def answer(self, view: PartitionView | KeyView, key: str) -> KeyAnswer | None:
        """Return the key's figures, None for a key without a state and for a forgotten one. Costs
        one key's synopses.

        Raises SlidestatError for a stored state that cannot be read.
        """
        state = view.state(key)
        if state is None:
            return None
        topology = self._topology
        # After a crash a state may be ahead of its partition, which has yet to read again.
        end = max(view.watermark, state.watermark) + 1
        if is_forgotten(topology, state.last_time, end):
            return None
        # Over windows of events, events are numbered and the numbers stand for times.
        time = state.number + 1 if topology.span_length.of_events else end
        windows = self._windows
        if topology.calendar_windows:
            (windows,) = lengths_at(topology.window_lengths, np.array([end - self._ago]))
        work = Work.question(topology.columns, [time], windows)
        try:
            places = zip(topology.runners, self._places, strict=True)
            stored = {runner: [state.synopses[place] or None] for runner, place in places}
            answered = {
                runner: past_of(runner).past(own, work, self._ago)
                if self._ago
                else runner.run(own, work)
                for runner, own in stored.items()
            }
            # The past windows that derived figures read.
            for past in topology.further_windows:
                answered[past] = past.run(stored[past.runner], work)
        except SynopsisError as error:
            raise unusable_state("topology", error) from error
        end -= self._ago
        is_none = self._ranks is not None or not self._has_others
        figures = [] if is_none else self._table(view.starts).rows(answered)[0]
        figures = at_end(topology.calendar_windows, figures, end)
        ranks = self._ranks.rows(answered) if self._ranks else None
        ranks = ranks and at_end(topology.calendar_windows, ranks, end)
        if view.starts:
            added = AddedFigures(topology, view.starts)
            figures = [] if is_none else added.all_marked(figures, end)
            ranks = ranks and added.marked(ranks, end)
        if self._ago:
            figures = list(map(questions.past_figure, figures))
        lost = self._lost(view, end)
        if self._whole is not None and (whole := self._whole.answer(view, key)) is not None:
            figures += [figure for figure in whole.figures if figure.statistic in self._wanted]
            lost = lost or whole.lost
        return self._kinds.key_answer(
            *(topology.name, key, end, figures),
            *(topology.events_topic, view.partition, view.next_offset),
            where=self._where,
            lost=lost,
            ranks=ranks,
            alerts=key_alerts(self._alerts, state.alerts, self._kinds.key_alert) or None,
        )

    def _table(self, starts: Mapping[str, int]) -> FigureTable:
        if not starts:
            return self._figures
        kind = frozenset(starts.items())
        if kind not in self._added:
            lengths = self._topology.window_lengths
            self._added[kind] = FigureTable(self._topology, lengths, starts)
        return self._added[kind]

    def _lost(self, view: PartitionView | KeyView, end: int) -> LostRecords | None:
        if view.loss is None or not may_lack(view.loss, self._topology.emission_reach, end):
            return None
        return view.loss.as_record(self._kinds.lost_records)


def is_forgotten(topology: KeptFigures, last_time: int, end: int) -> bool:
    """Return whether a key has expired, although its state may still be there (when it goes is not
    deterministic). Where all windows are of time, its figures show that they are empty.
    """
    if topology.forget_ms is None or topology.sees_span_alone:
        return False
    return closing_tick(last_time, topology.forget_ms, topology.every_ms) < end


def may_lack(loss: Loss | None, reach: int | None, end: int) -> bool:
    """Return whether what reaches so far back from there, None for any time, may lack records of a
    loss.
    """
    return loss is not None and bool(loss.concerns(np.array([end]), reach)[0])


def _that_can_be_asked(
    named: Sequence[str],
    statistics: Sequence[str],
    declared: Mapping[str, Statistic],
    what: str,
    how: str,
) -> list[str]:
    """Return labels of `named` in `declared`; raise SlidestatError for `statistics` not in it."""
    for label in statistics:
        if label not in declared:
            raise SlidestatError(
                f"statistic is {label!r}, which cannot be asked {how}.",
                f"Leave it out, or {what}; {', '.join(declared)} can be asked so.",
            )
    return [label for label in named if label in declared]


def _require_one(**given: bool) -> None:
    """Refuse parameters that exclude each other."""
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise SlidestatError(
            f"{' and '.join(names)} are given together.", "Ask one after the other."
        )


def _known(names: Sequence[str], topology: Topology) -> Sequence[str]:
    """Return the labels asked for, each once, all if none is named."""
    labels = topology.labels
    derived = {figure.name for figure in topology.derived_figures}
    for name in names:
        if name in derived:
            raise SlidestatError(
                f"statistic is {name!r}, which is derived, and known of the windows that end now.",
                "Leave ago, where, rank and item out, or this statistic.",
            )
        if name not in labels:
            near, quantile = near_name(name, labels), asked_quantile(name)
            advice = f"Did you mean {near!r}? " if near is not None else ""
            if quantile is not None:
                advice = f"Ask for the quantile {quantile.share:f}. "
            raise SlidestatError(
                f"statistic is {name!r}, which the topology does not have.",
                f"{advice}It has {', '.join(labels)}.",
            )
    return list(dict.fromkeys(names)) or labels


def _check_windows(windows: Sequence[str], topology: Topology) -> None:
    span = topology.span_length
    for text in windows:
        window = topology.window(text, "window")
        if window.of_events != span.of_events:
            raise SlidestatError(
                f"window is {text!r}, but what is kept is the last {topology.span!r}.",
                f"Give a {'number of events' if span.of_events else 'duration'} as well.",
            )
        if window.is_longer_than(span):
            raise SlidestatError(
                f"window is {text!r}, longer than the {topology.span!r} that are kept.",
                f"Ask for at most {topology.span!r}.",
            )
