"""The change that an alert looks for: of a mean, a share or a rate (evidence.py)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidestat.declare.expressions import evidence
from slidestat.declare.expressions.derived_figures import DerivedFigure, is_at_most
from slidestat.declare.expressions.nodes import Call, FieldValue, Node
from slidestat.declare.figure_names import FigureSource
from slidestat.declare.statistics.runner import Answered, OtherWindows, Runner
from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Floats

if TYPE_CHECKING:
    from slidestat.declare.fields import FieldPath


@dataclass(frozen=True)
class ChangingFigure:
    """A mean, a rate, or a share of the first of two counts, over a `window` that is cut at `ages`.

    sources: what it is of; runners: the synopses that answer for it, over these ages, the window,
    and, of a rate, the span. ends: of a mean, the minimum and the maximum of the same values, where
    they are declared, and their runners. places: where all these are among the topology's figures.
    """

    kind: str
    window: int
    ages: tuple[int, ...]
    sources: tuple[FigureSource, ...]
    runners: tuple[OtherWindows, ...]
    ends: tuple[tuple[FigureSource, OtherWindows] | None, ...]
    places: tuple[int, ...]
    beyond: int

    @property
    def of(self) -> list[OtherWindows]:
        """Return the runners whose answers it is computed from."""
        return [*self.runners, *(end[1] for end in self.ends if end is not None)]

    def needed(self, delta: float) -> float:
        """Return the evidence from which on there is a change."""
        return evidence.needed(delta, len(self.ages))

    def found(self, answered: Mapping[Runner, Answered]) -> evidence.Change:
        """Return the change at each query."""
        if self.kind == "mean":
            answers = answered[self.runners[0]].answers
            least, largest = self._ends(answered)
            return evidence.change_of_mean(
                self.ages, answers["mean"], answers["variance"], answers["events"], least, largest
            )
        counts = [
            _numbers(source, runner, answered)
            for source, runner in zip(self.sources, self.runners, strict=True)
        ]
        if self.kind == "rate":
            found = evidence.change_of_rate(self.ages, self.window, counts[0])
            # Rates are of seconds, lengths are milliseconds.
            return found._replace(before=found.before * 1_000, after=found.after * 1_000)
        return evidence.change_of_share(self.ages, *counts)

    def _ends(self, answered: Mapping[Runner, Answered]) -> tuple[Floats, Floats]:
        """Return bounds of the least and the largest value of the window."""
        queries = answered[self.runners[0]].answers["mean"].shape[1]
        found = []
        for end, row, unknown in zip(self.ends, (1, 2), (-np.inf, np.inf), strict=True):
            known = np.full(queries, unknown)
            if end is not None:
                numbers = _numbers(*end, answered)[row, :, 0]
                known = np.where(np.isnan(numbers), unknown, numbers)
            found.append(known)
        return found[0], found[1]


def _numbers(
    source: FigureSource, runner: OtherWindows, answered: Mapping[Runner, Answered]
) -> Floats:
    """Return float64[3, Q, W], the figure's numbers over the windows of a runner."""
    statistic = source.statistic
    answers = answered[runner].answers
    if statistic.kind == "rate":
        return answers["count"]
    numbers = statistic.numbers(answers, np.array(runner.windows, np.float64))
    return numbers[..., statistic.series().index(source.series)]


def changing_figure(
    node: Node,
    what: str,
    places: Mapping["FieldPath", int],
    sources: Sequence[FigureSource],
    derived: Sequence[DerivedFigure],
    runner_of: Callable[[FigureSource], Runner],
    every: int,
    span: int,
    *,
    of_events: bool,
) -> ChangingFigure:
    """Return the figure whose change the expression `node` asks for; `places` are those of what it
    reads, among figures of statistics and, behind these, derived ones.

    Raises SlidestatError, beginning with `what`, for one of which a change cannot be found.
    """
    if isinstance(node, FieldValue) and places[node.path] >= len(sources):
        figure = derived[places[node.path] - len(sources)]
        if figure.calls:
            raise _refused(what)
        node, places = figure.node, {path: part.place for path, part in figure.read}
    read: tuple[int, ...]
    match node:
        case FieldValue(path):
            read = (places[path],)
        case Call("/", (FieldValue(one), FieldValue(other))):
            read = places[one], places[other]
        case _:
            raise _refused(what)
    own = tuple(sources[place] for place in read)
    kind = _kind(own, what)
    window = own[0].window
    if of_events or window is None or isinstance(window, CalendarWindow):
        raise SlidestatError(
            f"{what}, over no window of one length of time: it could not be cut at ages.",
            'Ask for it over a window such as "1h", or of numbers of a sequence.',
        )
    ages = evidence.cut_ages(window, every)
    if not ages:
        raise SlidestatError(
            f"{what}, over a window that is not twice as long as `every`: there is no tick within"
            " it at which it could be cut.",
            "Lengthen the window, or shorten `every`.",
        )
    if kind == "rate" and window >= span:
        raise SlidestatError(
            f"{what}, a rate over the whole span: whether a key had begun before it is not kept.",
            "Give the topology a longer span than this window.",
        )
    lengths = (*ages, window, *((span,) if kind == "rate" else ()))
    runners = tuple(OtherWindows(runner_of(source), lengths) for source in own)
    ends, further = _ends(own[0], sources, runner_of) if kind == "mean" else ((), ())
    return ChangingFigure(kind, window, ages, own, runners, ends, (*read, *further), span - window)


def _kind(own: Sequence[FigureSource], what: str) -> str:
    if len(own) == 1 and own[0].statistic.kind in ("mean", "rate"):
        return own[0].statistic.kind
    if len(own) == 1 and own[0].statistic.kind == "count":
        raise SlidestatError(
            f"{what}, a count, which is larger in a longer window.",
            'Ask for that of a rate, kind = "rate", which shares its state.',
        )
    if len(own) == 2 and own[1].statistic.kind == "count" and own[0].window == own[1].window:
        if is_at_most(own[0], own[1], {}):
            return "share"
        raise SlidestatError(
            f"{what}, and it does not follow that the first counts a part of the events of the"
            " second.",
            "Divide a count with a `where` by one without, or by one with a part of its `where`.",
        )
    raise _refused(what)


def _refused(what: str) -> SlidestatError:
    return SlidestatError(
        f"{what}, of which no change can be found.",
        'Write the name of a mean or a rate, "mean_took_ms", or the share of two counts over one'
        ' window, "errors / count".',
    )


def _ends(
    own: FigureSource, sources: Sequence[FigureSource], runner_of: Callable[[FigureSource], Runner]
) -> tuple[tuple[tuple[FigureSource, OtherWindows] | None, ...], tuple[int, ...]]:
    """Return the extremes of the same values over the same window, None without one, with their
    runners, and their places.
    """
    found: list[tuple[FigureSource, OtherWindows] | None] = []
    places = []
    for kind in ("minimum", "maximum"):
        place = next(
            (
                place
                for place, it in enumerate(sources)
                if it.statistic.kind == kind
                and (it.path, it.window, it.statistic.where)
                == (own.path, own.window, own.statistic.where)
            ),
            None,
        )
        if place is None or own.window is None:
            found.append(None)
            continue
        found.append((sources[place], OtherWindows(runner_of(sources[place]), (own.window,))))
        places.append(place)
    return tuple(found), tuple(places)
