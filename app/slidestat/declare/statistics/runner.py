"""The synopsis of a statistic: all keys of a batch in one call.

A runner takes the stored states and the events of many keys, and gives new states and the answers
to queries. Two statistics whose runners are equal share one state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from slidestat import synopses
from slidestat.declare.columns import Columns
from slidestat.declare.expressions.expression import Expression
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.times.calendar_windows import CalendarWindow, lengths_at
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.errors import SynopsisError

_NO_TIMES = np.empty(0, np.int64)


class ItemColumn(NamedTuple):
    """Items of events: the different `texts`, and int64[n] `codes`, where each event's is there; -1
    for an event that has none.
    """

    texts: Sequence[str]
    codes: Integers

    def ids(self, seed: int = 0) -> Integers:
        """Return each event's item as a number, int64[n]: a hash of its text with a seed."""
        return synopses.item_ids(self.texts, seed)[self.codes]


@dataclass(frozen=True, slots=True)
class Work:
    """Events and queries of G groups (keys), as `synopses.core.batch.Batch` has them.

    `numbers` and `items` have the events' values of each field that is read, NaN or a code of -1
    where an event lacks it; `windows` int64[W] the lengths of the windows that each of the Q
    queries asks for; `conditions` for which events each condition holds.
    """

    starts: Integers
    times: Integers
    numbers: Mapping[FieldPath, Floats]
    items: Mapping[FieldPath, ItemColumn]
    query_starts: Integers
    query_times: Integers
    windows: Integers
    conditions: Mapping[Expression, npt.NDArray[np.bool_]] = field(default_factory=dict)
    _made: dict[str, synopses.Batch] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def question(cls, columns: Columns, times: Sequence[int], windows: Integers) -> Work:
        """Return the queries of one group at `times`, without events."""
        starts = np.array([0, len(times)], np.int64)
        return cls.questions(columns, starts, np.array(times, np.int64), windows)

    @classmethod
    def questions(
        cls, columns: Columns, query_starts: Integers, times: Integers, windows: Integers
    ) -> Work:
        """Return queries of groups, which begin at `query_starts`, at `times`, without events."""
        return cls(
            np.zeros(len(query_starts), np.int64),
            _NO_TIMES,
            {column.path: np.empty(0) for column in columns.numbers},
            {column.path: ItemColumn((), _NO_TIMES) for column in columns.items},
            query_starts,
            times,
            windows,
        )

    @property
    def batch(self) -> synopses.Batch:
        """Return the events and the queries as synopses take them: checked once for all."""
        if "all" not in self._made:
            self._made["all"] = synopses.Batch(self.starts, self.times, None, *self.queries)
        return self._made["all"]

    @property
    def queries(self) -> tuple[Integers, Integers, Integers]:
        """Return the queries as arrays."""
        return self.query_starts, self.query_times, self.windows

    @property
    def asked(self) -> Iterator[tuple[int, int]]:
        """Yield each query's group and time."""
        groups = np.repeat(np.arange(len(self.query_starts) - 1), np.diff(self.query_starts))
        return zip(groups.tolist(), self.query_times.tolist(), strict=True)

    def longer(self, ago: int) -> Work:
        """Return the work for windows that are longer by `ago`, and for what came since, last."""
        return self.asking_for(np.append(self.windows + ago, ago))

    def between(self, after: int, until: int) -> tuple[Integers, Integers, Work]:
        """Return the work of the queries behind `after` up to `until`, and of the events before
        them that are not before `after`; first the groups that have such, and the queries' places.
        """
        rows = np.flatnonzero((self.times >= after) & (self.times < until))
        asked = np.flatnonzero((self.query_times > after) & (self.query_times <= until))
        events = np.diff(np.searchsorted(rows, self.starts))
        queries = np.diff(np.searchsorted(asked, self.query_starts))
        groups = np.flatnonzero(events + queries)
        part = self._of_rows(
            rows,
            starts=np.append(0, np.cumsum(events[groups])),
            query_starts=np.append(0, np.cumsum(queries[groups])),
            query_times=self.query_times[asked],
            conditions={it: holds[rows] for it, holds in self.conditions.items()},
            _made={},
        )
        return groups, asked, part

    def asking_for(self, windows: Integers) -> Work:
        """Return the same work for other windows."""
        return replace(self, windows=windows, _made={})

    def values(self, field: FieldPath) -> tuple[Integers, Integers, Floats]:
        """Return starts, times and values of the events that have the field."""
        values = self.numbers[field]
        starts, times, rows = self._where(~np.isnan(values))
        return starts, times, values if rows is None else values[rows]

    def pairs(
        self, field: FieldPath, other: FieldPath
    ) -> tuple[Integers, Integers, Floats, Floats]:
        """Return starts, times and both values of the events that have both fields."""
        values, others = self.numbers[field], self.numbers[other]
        starts, times, rows = self._where(~(np.isnan(values) | np.isnan(others)))
        if rows is None:
            return starts, times, values, others
        return starts, times, values[rows], others[rows]

    def values_of(self, field: FieldPath) -> synopses.Batch:
        """Return the events that have the field, with its values, as a batch for synopses."""
        values = self.numbers[field]
        there = ~np.isnan(values)
        if there.all():
            return self.batch.holding(values)
        rows = np.flatnonzero(there)
        return self.batch.taking(rows, values[rows])

    def items_of(self, *fields: FieldPath) -> tuple[synopses.Batch, list[ItemColumn]]:
        """Return the events with all of the fields, as a batch for synopses, and their items."""
        columns = [self.items[field] for field in fields]
        there = np.logical_and.reduce([column.codes >= 0 for column in columns])
        if there.all():
            return self.batch, columns
        rows = np.flatnonzero(there)
        chosen = [column._replace(codes=column.codes[rows]) for column in columns]
        return self.batch.taking(rows), chosen

    def weighed(self, field: FieldPath, weight: FieldPath) -> tuple[Work, ItemColumn, Floats]:
        """Return the events that have both fields, as work, with their items and weights."""
        there = (self.items[field].codes >= 0) & ~np.isnan(self.numbers[weight])
        work = self if there.all() else self._among(there)
        return work, work.items[field], work.numbers[weight]

    def chosen(self, condition: Expression) -> Work:
        """Return the same work over the events for which a condition holds."""
        return self._among(self.conditions[condition]) if len(self.times) else self

    def among(self, there: npt.NDArray[np.bool_]) -> Work:
        """Return the same work over the events in the mask `there`, bool[n], with conditions."""
        if not len(self.times) or there.all():
            return self
        conditions = {it: holds[there] for it, holds in self.conditions.items()}
        return replace(self._among(there), conditions=conditions)

    def _among(self, there: npt.NDArray[np.bool_]) -> Work:
        starts, _, rows = self._where(there)
        if rows is None:
            return self
        return self._of_rows(rows, starts=starts, _made={"all": self.batch.taking(rows)})

    def _of_rows(self, rows: Integers, **changed: Any) -> Work:
        """Return the same work over the events in rows, with the fields `changed`."""
        return replace(
            self,
            times=self.times[rows],
            numbers={path: values[rows] for path, values in self.numbers.items()},
            items={
                path: items._replace(codes=items.codes[rows]) for path, items in self.items.items()
            },
            **changed,
        )

    def _where(self, there: npt.NDArray[np.bool_]) -> tuple[Integers, Integers, Integers | None]:
        """Return starts and times of the events in the mask `there`; their rows, None for all."""
        if there.all():
            return self.starts, self.times, None
        rows = np.flatnonzero(there)
        return np.searchsorted(rows, self.starts), self.times[rows], rows


def require_question(work: Work) -> None:
    """Raise SynopsisError for work with events, which a question cannot take in."""
    if len(work.times):
        raise SynopsisError("a question takes no events in")


class Listed(NamedTuple):
    """An item that a synopsis lists: (estimate, lower, upper) of how often it came."""

    item: str
    numbers: tuple[float, float, float]


class Answered(NamedTuple):
    """New states, one a group; and for each answer's name float64[3, Q, W] (or [3, Q, W, S]):
    estimates, lowers, uppers. Lists, for each query and window, the most frequent item first.
    """

    states: list[bytes]
    answers: dict[str, Floats]
    lists: Sequence[Sequence[Sequence[Listed]]] = ()


class Runner(Protocol):
    """A kind of synopsis, one of each key; hashable, and equal to a runner that keeps the same."""

    @property
    def meaning(self) -> str:
        """Return the meaning of its states; states of another meaning cannot be used."""

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        """Take events in and answer; raises SynopsisError for states that are not its own."""


NOBODY = "nobody"
"""A bundle has at least one part: of parties that know nothing, the synopsis of this one."""


class Unions(NamedTuple):
    """The unions that are asked for, over `windows`, of the parts of each bundle, stream by stream.
    `times` are those of bundles, or of all of their parts (`synopses.merge.asked.part_times`).
    """

    bundles: Sequence[synopses.Bundle]
    times: Sequence[int]
    windows: Integers


class UnitedRunner(Runner, ABC):
    """A runner whose synopses of many parties answer over the union of their streams."""

    @abstractmethod
    def union(self, asked: Unions) -> Answered:
        """Answer for each union, without states. Raises SynopsisError for parts not its own."""

    def bundles(self, published: Mapping[str, bytes], empty: bytes) -> list[synopses.Bundle]:
        """Return the bundles of what each party published: one, or one for each part of it; `empty`
        is the synopsis of no events.

        Raises SynopsisError for bytes that are no synopses, and for such as differ in what they
        were made with.
        """
        return [synopses.Bundle.of(published or {NOBODY: empty})]


def united(runner: Runner) -> UnitedRunner:
    """Return the runner as one that answers over a union; TypeError if it cannot."""
    if not isinstance(runner, UnitedRunner):
        raise TypeError(f"{runner.meaning} has no union")
    return runner


class PastRunner(Runner, ABC):
    """A runner whose states also answer for windows that ended before the time of a query."""

    @abstractmethod
    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        """Answer over the windows that ended `ago` before each query. Statistics that add up take
        events in as well, and they alone have states in the result.

        Raises SynopsisError for states that are not its own, and for windows that reach beyond the
        span.
        """

    @property
    def adds_up(self) -> bool:
        """Return whether answers of separate windows add up, as counts and sums of what is >= 0."""
        return False


class AdditiveRunner(PastRunner):
    """A runner whose answers add up."""

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        return added_past(self, states, work, ago)

    @property
    def adds_up(self) -> bool:
        return True


def added_past(runner: Runner, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
    """Return what `PastRunner.past` does, of a runner whose answers add up."""
    from slidestat.synopses.past.past import past_totals

    found = runner.run(states, work.longer(ago))
    return Answered(
        found.states, {name: past_totals(answer) for name, answer in found.answers.items()}
    )


class BorrowingRunner(Runner, ABC):
    """A runner that answers from the states of another one, and has none."""

    runner: Runner


@dataclass(frozen=True)
class PastWindow(BorrowingRunner):
    """Another runner's answers over one window that ended `ago` before."""

    runner: Runner
    window: int
    ago: int

    @property
    def meaning(self) -> str:
        return f"{self.runner.meaning}, {self.ago} before"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        if isinstance(self.window, CalendarWindow):
            return run_by_calendar(self.runner, states, work, (self.window,), self.ago)
        own = work.asking_for(np.array([self.window], np.int64))
        return past_between(past_of(self.runner), states, own, self.ago)


@dataclass(frozen=True)
class OtherWindows(BorrowingRunner):
    """Another runner's answers over windows of its own."""

    runner: Runner
    windows: tuple[int, ...]

    @property
    def meaning(self) -> str:
        return f"{self.runner.meaning}, of {self.windows}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        own = work.asking_for(np.array(self.windows, np.int64))
        return self.runner.run(states, own)._replace(states=[])


def past_of(runner: Runner) -> PastRunner:
    """Return the runner as one that answers for the past; TypeError if it cannot."""
    if not isinstance(runner, PastRunner):
        raise TypeError(f"{runner.meaning} has no past")
    return runner


# Windows of the calendar have a length of their own at each tick. A synopsis is asked for the
# lengths of several ticks in one call, and of its answers each query takes its own. Where there are
# more ticks, events are absorbed in several calls, as if they had come in several batches: that
# never shows in a state.

_TICKS_AT_ONCE = 8
# The dimensions of figures of queries, with series or without. Other answers say what these are of,
# or, as ranks, are of questions to live states alone.
_OF_QUERIES = 3, 4


def run_by_calendar(
    runner: Runner,
    states: Sequence[bytes | None],
    work: Work,
    windows: tuple[int, ...],
    ago: int = 0,
) -> Answered:
    """Do the work with the lengths that `windows` have at each query, or had `ago` before it."""
    from slidestat.synopses.core.batch import TIME_MAX

    ticks = np.unique(work.query_times)
    if len(ticks) <= _TICKS_AT_ONCE:
        return _run_with_lengths(runner, states, work, windows, ago)
    ends = [*ticks[_TICKS_AT_ONCE - 1 : -1 : _TICKS_AT_ONCE].tolist(), TIME_MAX]
    return in_parts(
        states, work, ends, lambda own, part: _run_with_lengths(runner, own, part, windows, ago)
    )


def in_parts(
    states: Sequence[bytes | None],
    work: Work,
    ends: Sequence[int],
    run: Callable[[Sequence[bytes | None], Work], Answered],
) -> Answered:
    """Do the work up to each of the rising `ends`, as if each part were a batch of its own."""
    from slidestat.synopses.core.batch import TIME_MIN

    known, places, parts = list(states), [], []
    after = TIME_MIN
    for until in ends:
        groups, asked, part = work.between(after, until)
        own = [known[group] for group in groups.tolist()]
        parts.append(run(own, part))
        for group, state in zip(groups.tolist(), parts[-1].states, strict=True):
            known[group] = state
        places.append(asked)
        after = until
    order = np.argsort(np.concatenate(places))
    answers = {
        name: np.concatenate([part.answers[name] for part in parts], axis=1)[:, order]
        if first.ndim in _OF_QUERIES
        else first
        for name, first in parts[0].answers.items()
    }
    lists = [row for part in parts for row in part.lists]
    return Answered(
        [state or b"" for state in known],
        answers,
        [lists[place] for place in order.tolist()] if lists else (),
    )


def past_between(
    runner: PastRunner, states: Sequence[bytes | None], work: Work, ago: int
) -> Answered:
    """Return what `PastRunner.past` does, of work with events, with states up to the last query.

    A statistic that does not add up is asked by the states that it has at each tick, one key at a
    time.
    """
    if runner.adds_up:
        return runner.past(states, work, ago)
    from slidestat.synopses.core.batch import TIME_MAX

    def asked_at_tick(own: Sequence[bytes | None], part: Work) -> Answered:
        found = runner.run(own, part).states
        question = part.among(np.zeros(len(part.times), bool))
        return runner.past(found, question, ago)._replace(states=found)

    ticks = np.unique(work.query_times).tolist()
    return in_parts(states, work, ticks or [TIME_MAX], asked_at_tick)


def _run_with_lengths(
    runner: Runner, states: Sequence[bytes | None], work: Work, windows: tuple[int, ...], ago: int
) -> Answered:
    lengths = lengths_at(windows, work.query_times - ago)
    asked, places = np.unique(lengths, return_inverse=True)
    if not len(asked):
        return runner.run(states, work)
    places = places.reshape(lengths.shape)
    own_work = work.asking_for(asked)
    answered = (
        past_between(past_of(runner), states, own_work, ago)
        if ago
        else runner.run(states, own_work)
    )
    rows = np.arange(len(places))[:, np.newaxis]
    own = [row.tolist() for row in places]
    return Answered(
        answered.states,
        {
            name: answer[:, rows, places] if answer.ndim in _OF_QUERIES else answer
            for name, answer in answered.answers.items()
        },
        [[row[place] for place in wanted] for row, wanted in zip(answered.lists, own, strict=True)]
        if answered.lists
        else (),
    )


class CombinableRunner(Runner, ABC):
    """A runner with questions of its own: two of one meaning share a state that is asked both."""

    @abstractmethod
    def combined(self, other: Self) -> Self:
        """Return a runner that answers the questions of both."""


def combined(known: Runner, runner: Runner) -> Runner:
    """Return a runner that answers for two of one meaning."""
    if isinstance(known, CombinableRunner) and isinstance(runner, type(known)):
        return known.combined(runner)
    return known


def shared(runners: Sequence[Runner]) -> tuple[Runner, ...]:
    """Return the runners, those of one meaning combined into one that answers for all of them."""
    found: dict[str, Runner] = {}
    for runner in runners:
        found[runner.meaning] = combined(found.get(runner.meaning, runner), runner)
    return tuple(found[runner.meaning] for runner in runners)


class Bounded(Protocol):
    """Arrays of one shape: the answers of a kernel, each with its bounds."""

    @property
    def estimates(self) -> Floats: ...

    @property
    def lowers(self) -> Floats: ...

    @property
    def uppers(self) -> Floats: ...


def figures_of(result: Bounded) -> Floats:
    """Return the estimates, lowers and uppers of a result as float64[3, ...]."""
    return np.stack((result.estimates, result.lowers, result.uppers))


def of_field(field: FieldPath, what: str) -> str:
    """Return the meaning of states that keep something of a field."""
    return f"{what}, of {field_text(field)}"


@dataclass(frozen=True)
class ChosenRunner(CombinableRunner, UnitedRunner, PastRunner):
    """Another runner, given only the events for which a condition holds."""

    runner: Runner
    condition: Expression

    @property
    def meaning(self) -> str:
        return f"{self.runner.meaning}, where {self.condition.text}"

    def combined(self, other: Self) -> Self:
        return replace(self, runner=combined(self.runner, other.runner))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        return self.runner.run(states, work.chosen(self.condition))

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        return past_of(self.runner).past(states, work.chosen(self.condition), ago)

    @property
    def adds_up(self) -> bool:
        return isinstance(self.runner, PastRunner) and self.runner.adds_up

    def union(self, asked: Unions) -> Answered:
        return united(self.runner).union(asked)

    def bundles(self, published: Mapping[str, bytes], empty: bytes) -> list[synopses.Bundle]:
        return united(self.runner).bundles(published, empty)
