"""Comparisons of what a partition puts out with the model: exact, nothing on top of the promise."""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, inf, nextafter, ulp

import msgspec

from slidestat.declare.statistics import AgeOfLast, Sample, Statistic, TopItems
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Emission, Figure, emission_key
from slidestat.schemas.query import KeyAnswer
from slidestat.synopses.core.rounding import down
from tests.engine.exact import (
    EXACT,
    Values,
    between,
    exact,
    in_order,
    root,
    taken,
    total,
    variance,
)
from tests.engine.meant import meant
from tests.engine.memory import PARTITION, SOURCE, Output
from tests.engine.model import AGES, ALL, Model

_decode = msgspec.json.Decoder(Emission).decode


def emissions_of(outputs: Sequence[Output]) -> list[Emission]:
    """The emissions among the outputs, each under its Kafka key and timestamp."""
    found = []
    for kind, kafka_key, rest in outputs:
        if kind == "emission":
            value, timestamp = rest
            assert isinstance(value, bytes)
            emission = _decode(value)
            assert kafka_key == emission_key(
                emission.topology, emission.key, emission.window_end_ms
            )
            assert timestamp == emission.window_end_ms
            found.append(emission)
    return found


def sent(answer: KeyAnswer | None) -> KeyAnswer:
    """The answer as it arrives: a figure that does not exist is null in JSON."""
    assert answer is not None
    return msgspec.json.decode(msgspec.json.encode(answer), type=KeyAnswer)


def offsets_of(kind: str, outputs: Sequence[Output]) -> list[int]:
    """Offsets of the letters of a kind."""
    return [offset for k, offset, _ in outputs if k == kind and isinstance(offset, int)]


def check_emissions(topology: Topology, model: Model, found: Sequence[Emission]) -> None:
    """The emissions are those of the model: each figure within its bounds and the promised error,
    under the same source position, in order of (tick, key), and no others.
    """
    places = [(e.window_end_ms, e.key, e.source_offset) for e in found]
    assert places == [emission[:3] for emission in model.emissions]
    for emission, expected in zip(found, model.emissions, strict=True):
        source = (emission.topology, emission.source_topic, emission.source_partition)
        assert source == (topology.name, SOURCE, PARTITION)
        check_figures(topology, emission.figures, expected.values)


def check_figures(
    topology: Topology, found: Sequence[Figure], values: Mapping[int, Sequence[Fraction | None]]
) -> None:
    """The figures are those of windows with these values, by length, in the topology's order; None
    is an event without one.
    """
    figures = deque(found)
    rights: dict[str, Fraction | None] = {}
    named = iter(topology.named_figures)
    lengths = {topology.window(it, "windows").length: it for it in topology.windows}
    of_events = topology.windows_of_events
    for statistic, label in zip(topology.statistics, topology.labels, strict=True):
        for n in topology.window_lengths if statistic.has_windows else [ALL]:
            place = (label, *((None, n or None) if of_events else (n or None, None)))
            inside = _taken(statistic, values[n])
            if isinstance(statistic, AgeOfLast):
                figure = figures.popleft()
                assert _place(figure) == place
                told = zip(values[ALL], values[AGES], strict=True)
                ages = [age for value, age in told if _taken(statistic, [value])]
                _check_age(statistic, figure, ages, topology.span_length.length)
                continue
            if isinstance(statistic, TopItems | Sample):
                listed = []
                while figures and _place(figures[0]) == place:
                    listed.append(figures.popleft())
                if isinstance(statistic, Sample):
                    _check_sample(statistic, listed, inside)
                else:
                    _check_top(statistic, listed, inside)
                continue
            for right in exact(statistic, inside, n):
                figure = figures.popleft()
                assert _place(figure) == place
                check_figure(statistic, figure, right, inside)
                text = lengths.get(n, "").replace(" ", "_")
                rights[f"{next(named).name}_{text}"] = right
    for text in topology.derived:
        figure, name = figures.popleft(), text.rpartition(" as ")[2]
        assert (_place(figure), figure.derived) == ((name, None, None), True)
        rights[name] = _DERIVED[text](rights)
        check_derived(figure, rights[name])
    assert not figures


def _over(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    """The quotient in SQL."""
    return None if one is None or not other else one / other


Rights = Mapping[str, Fraction | None]


def _some(right: Fraction | None) -> Fraction:
    assert right is not None
    return right


_DERIVED: dict[str, Callable[[Rights], Fraction | None]] = {
    "few_100ms / count_100ms as part": lambda it: _over(it["few_100ms"], it["count_100ms"]),
    "(count_1s - few_1s) / count_1s as rest": lambda it: _over(
        _some(it["count_1s"]) - _some(it["few_1s"]), it["count_1s"]
    ),
    "few_1s / (few_1s + count_1s) as among": lambda it: _over(
        it["few_1s"], _some(it["few_1s"]) + _some(it["count_1s"])
    ),
    "p90_1s / p50_1s as tail": lambda it: _over(it["p90_1s"], it["p50_1s"]),
    "sum_1s / count_1s as average": lambda it: _over(it["sum_1s"], it["count_1s"]),
    "(count_1s - count_100ms) * 0.5 as before": lambda it: (
        (_some(it["count_1s"]) - _some(it["count_100ms"])) / 2
    ),
    "part / (few_1s / count_1s) as trend": lambda it: _over(
        it["part"], _over(it["few_1s"], it["count_1s"])
    ),
    "coalesce(part, -1) - 3 as known": lambda it: (
        Fraction(-4) if it["part"] is None else it["part"] - 3
    ),
    "(p90_100ms - p90_1s) / p90_1s as change": lambda it: (
        None
        if it["p90_100ms"] is None or it["p90_1s"] is None
        else _over(it["p90_100ms"] - it["p90_1s"], it["p90_1s"])
    ),
    "sum_100ms - sum_100ms as nothing": lambda it: it["sum_100ms"] and Fraction(),
    "1 / (count_1s - few_1s) as inverse": lambda it: _over(
        Fraction(1), _some(it["count_1s"]) - _some(it["few_1s"])
    ),
    "few_3_events / count_12_events as part": lambda it: _over(
        it["few_3_events"], it["count_12_events"]
    ),
    "1 - part as rest": lambda it: None if it["part"] is None else 1 - it["part"],
}


def check_derived(figure: Figure, right: Fraction | None) -> None:
    """A derived figure is within its bounds; of one that is null nothing is said."""
    if figure.estimate is None:
        assert (figure.lower, figure.upper) == (None, None)
        return
    assert figure.lower is None or figure.lower <= figure.estimate, figure
    assert figure.upper is None or figure.estimate <= figure.upper, figure
    if right is not None:
        assert figure.lower is None or figure.lower <= right, (figure, right)
        assert figure.upper is None or right <= figure.upper, (figure, right)


def _taken(statistic: Statistic, values: Sequence[Fraction | None]) -> Values:
    """The values that a statistic takes in: what is of times alone takes all events."""
    if statistic.where:
        values = [v for v in values if meant(statistic.where, None if v is None else taken(v))]
    if not statistic.columns(("value",)):
        return [value or Fraction() for value in values]
    return [value for value in values if value is not None]


def _place(figure: Figure) -> tuple[str, int | None, int | None]:
    return figure.statistic, figure.window_ms, figure.window_events


def _check_age(statistic: AgeOfLast, figure: Figure, ages: Sequence[Fraction], span: int) -> None:
    """An event of the span is told; of what is told the bounds hold, and the promise."""
    right = ages[-statistic.number] if statistic.number <= len(ages) else None
    if figure.estimate is None:
        assert figure.lower is figure.upper is None
        assert right is None or right > span, figure
        return
    assert right is not None, figure
    check_figure(statistic, figure, right, ages)


def _check_top(statistic: TopItems, listed: Sequence[Figure], values: Values) -> None:
    """Each item is within its bounds and the promise, the most frequent first; none is missing that
    has a share of epsilon, but for want of room.
    """
    counts = Counter(values)
    assert len(listed) <= statistic.limit
    estimates = [figure.estimate for figure in listed]
    assert estimates == sorted(estimates, reverse=True)
    items = [Fraction(figure.item or "") for figure in listed]
    assert len(set(items)) == len(items)
    for item, figure in zip(items, listed, strict=True):
        assert figure.lower <= counts[item] <= figure.upper, figure
        off = abs(Fraction(figure.estimate) - counts[item])
        assert off <= Fraction(figure.share_error) * len(values), figure
    if len(listed) < statistic.limit:
        share = Fraction(statistic.epsilon) * len(values)
        assert {item for item, count in counts.items() if count >= share} <= set(items)


def _check_sample(statistic: Sample, listed: Sequence[Figure], values: Values) -> None:
    """Values of the window, none more often than it came, and as many as there may be."""
    assert len(listed) == min(statistic.size, len(values))
    numbers = [int(figure.item or "") for figure in listed]
    assert numbers == sorted(set(numbers))
    for figure in listed:
        is_exact = figure.lower == figure.estimate == figure.upper
        assert is_exact or figure.lower < figure.estimate < figure.upper, figure
        assert is_exact == (abs(figure.estimate) < EXACT), figure
    drawn = Counter(figure.estimate for figure in listed)
    # Where edges from 2^53 on are asked for, whole numbers are rounded down.
    for rounded in (float, down):
        if not drawn - Counter(
            rounded(value) if EXACT <= abs(value) < 2**100 else float(value) for value in values
        ):
            return
    raise AssertionError(listed)


def _check_by_value(figure: Figure, ordered: Sequence[float]) -> None:
    """The estimate is within its relative error of a quantile as near as promised."""
    estimate = Fraction(figure.estimate)
    p, share = Fraction(repr(figure.quantile)), Fraction(repr(figure.share_error))
    first = max(1, ceil((p - share) * len(ordered)))
    last = min(len(ordered), floor((p + share) * len(ordered)) + 1)
    nearest = min(max(estimate, Fraction(ordered[first - 1])), Fraction(ordered[last - 1]))
    allowed = Fraction(figure.relative_error) * abs(nearest) + Fraction(figure.absolute_error)
    assert abs(estimate - nearest) <= allowed, figure


def _order(number: float, right: Fraction) -> int:
    """Return 1, 0 or -1, as the number is above, at or below. Exact: only the double nearest to a
    fraction may lie on its other side, and most fractions need not be made.
    """
    near = float(right)
    if number != near:
        return -1 if number < near else 1
    exactly = Fraction(number)
    return (exactly > right) - (exactly < right)


def check_figure(
    statistic: Statistic, figure: Figure, right: Fraction | None, values: Values
) -> None:
    """A figure of a window with these values is within its bounds and the promised error."""
    if figure.estimate is None or figure.lower is None or figure.upper is None:
        assert right is None, figure
        return
    assert right is not None, figure
    # The square root is rounded to 80 digits.
    slack = right / 10**70 if statistic.kind == "deviation" else Fraction()
    least, most = (right - slack, right + slack) if slack else (right, right)
    assert _order(figure.lower, most) <= 0, (figure, right)
    assert _order(figure.upper, least) >= 0, (figure, right)
    assert figure.lower <= figure.estimate <= figure.upper, figure
    errors = (
        figure.relative_error,
        figure.absolute_error,
        figure.deviation_error,
        figure.magnitude_error,
        figure.share_error,
    )
    assert min(errors) >= 0, figure
    if _order(figure.estimate, right) == 0:  # which keeps any promise, and is what most figures are
        return
    estimate = Fraction(figure.estimate)
    if figure.quantile is not None:
        ordered = in_order(values)
        if statistic.kind == "quantile":
            _check_by_value(figure, ordered)
            return
        rank = max(1, ceil(Fraction(repr(figure.quantile)) * len(ordered)))
        # From 2^53 on the double next to it may be told.
        near = (-inf, inf) if abs(estimate) >= EXACT else (figure.estimate,) * 2
        first, last = (nextafter(figure.estimate, towards) for towards in near)
        below, above = bisect_left(ordered, first), bisect_right(ordered, last)
        off = max(0, below + 1 - rank, rank - above)
        assert off <= Fraction(figure.share_error) * len(ordered), figure
        return
    if statistic.kind in ("minimum", "maximum") and abs(right) >= EXACT:
        slack = Fraction(ulp(right))
    allowed = (
        Fraction(figure.relative_error) * abs(right)
        + Fraction(figure.absolute_error)
        + Fraction(figure.share_error) * len(values)
    )
    if figure.deviation_error:
        allowed += Fraction(figure.deviation_error) * root(variance(between(figure, values)))
    if figure.magnitude_error:
        allowed += Fraction(figure.magnitude_error) * total(map(abs, between(figure, values)))
    assert abs(estimate - right) <= allowed + slack, (figure, right)
