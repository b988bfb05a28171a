"""Random declarations over random streams: what a driver writes and answers, beside exact figures
of all events. Each declaration draws its statistics, windows, derived figures, conditions, alerts
and objectives, and where it is stopped and goes on; a fault names its seed: run(seed) shows it
again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise
from operator import ge, gt, le, lt
from random import Random

import msgspec
import pytest

from slidestat import TopologyDriver
from slidestat.declare.alerts import Alert
from slidestat.declare.expressions.nodes import Call, FieldValue, Literal, Node
from slidestat.declare.figure_names import FigureSource
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import (
    Above,
    Count,
    Deviation,
    Distinct,
    Histogram,
    ItemCounts,
    Items,
    LeanDistinct,
    Maximum,
    Mean,
    MeanHistogram,
    Minimum,
    Norm,
    Quantiles,
    RankQuantiles,
    Rate,
    RootMeanSquare,
    Statistic,
    Sum,
    SumHistogram,
    TopItems,
    Variance,
)
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import KeyAnswer, RankingAnswer
from tests.engine.checks import check_figure
from tests.engine.exact import exact

# 100 declarations take half a minute.
BATCHES, EACH = 4, 25
START_MS = 1_764_000_000_000
WINDOWS = {"2s": 2_000, "5s": 5_000, "10s": 10_000, "20s": 20_000}
ASKED = {"1s": 1_000, "5s": 5_000, "7s": 7_000, "20s": 20_000}
COMPARED: dict[str, Callable[[Fraction, Fraction], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
WHERE: dict[str, Callable[["Event"], bool]] = {
    "": lambda _: True,
    "status >= 500": lambda event: event.status >= 500,
    "value > 10": lambda event: event.value > 10,
    "status >= 500 and value > 10": lambda event: event.status >= 500 and event.value > 10,
    # As an objective has them: events that are good or not, and those that are not.
    "(status < 500) is not null and not (status < 500)": lambda event: event.status >= 500,
    "(status < 500) is not null": lambda _: True,
}
# Square roots are exact to 80 digits, and the bounds of a norm are rounded outwards from doubles.
SLACK = Fraction(1, 10**9)


@dataclass(frozen=True)
class Event:
    """An event: `code` is an item."""

    key: str
    time: int
    value: Fraction
    status: int
    code: Fraction


@dataclass(frozen=True)
class Case:
    """A declaration, its events in the order in which they come, and alerts as (name, operator,
    number), all of which are to hold.
    """

    topology: Topology
    events: Sequence[Event]
    meant: Mapping[str, Sequence[tuple[str, str, float]]]


def _epsilon(random: Random) -> float:
    return random.choice((0.02, 0.1, 0.3))


MADE: tuple[Callable[[float], Statistic], ...] = (
    lambda epsilon: Rate(epsilon=epsilon),
    lambda epsilon: Sum(field="value", epsilon=epsilon),
    lambda epsilon: Mean(field="value", epsilon=epsilon),
    lambda epsilon: Variance(field="value", epsilon=epsilon),
    lambda epsilon: Deviation(field="value", epsilon=epsilon),
    lambda epsilon: RootMeanSquare(field="value", epsilon=epsilon),
    lambda epsilon: Minimum(field="value", epsilon=epsilon),
    lambda _: Maximum(field="value", epsilon=0),
    lambda epsilon: Quantiles(field="value", quantiles=(0.5, 0.99), epsilon=max(0.1, epsilon)),
    lambda epsilon: RankQuantiles(field="value", quantiles=(0.5,), epsilon=max(0.1, epsilon)),
    lambda epsilon: Histogram(field="value", edges=(1, 10, 50), epsilon=epsilon),
    lambda epsilon: Above(field="value", thresholds=(5, 40), epsilon=epsilon),
    lambda epsilon: SumHistogram(field="value", edges=(1, 10), epsilon=epsilon),
    lambda epsilon: MeanHistogram(field="value", edges=(10,), epsilon=epsilon),
    lambda epsilon: SumHistogram(field="value", by="code", edges=(2, 9), epsilon=epsilon),
    lambda epsilon: MeanHistogram(field="value", by="code", edges=(2,), epsilon=epsilon),
    lambda epsilon: Items(field="code", items=("1", "2"), epsilon=epsilon),
    lambda epsilon: TopItems(field="code", epsilon=max(0.1, epsilon), limit=3),
)
# Their bounds hold by chance, with a seed of each declaration.
BY_CHANCE: tuple[Callable[[int], Statistic], ...] = (
    lambda seed: Distinct(field="code", epsilon=0.3, delta=0.05, seed=seed),
    lambda seed: LeanDistinct(field="code", epsilon=0.3, delta=0.05, seed=seed),
    lambda seed: ItemCounts(field="code", items=("1", "3"), epsilon=0.1, delta=0.05, seed=seed),
    lambda seed: Norm(field="code", epsilon=0.5, delta=0.05, seed=seed),
)


def events_of(random: Random) -> list[Event]:
    """Some hundreds of events of a few keys, some of them late, with times in which keys are
    silent.
    """
    keys, codes = "abcdefg"[: random.randint(1, 7)], random.choice((2, 9, 400))
    steps = random.choice(((0, 5, 20), (0, 50, 200), (0, 0, 0, 900), (10, 10, 10, 10, 6_000)))
    scale, bad = random.choice((0.5, 8, 90)), random.choice((0.0, 0.02, 0.5, 1.0))
    time, found = START_MS, []
    for _ in range(random.choice((60, 250, 600))):
        time += random.choice(steps)
        found.append(
            Event(
                random.choice(keys),
                time - random.choice((0, 0, 0, 300)),
                Fraction(str(round(random.expovariate(1 / scale), random.choice((0, 2))))),
                500 if random.random() < bad else 200,
                Fraction(min(codes, int(random.paretovariate(0.7)))),
            )
        )
    return found


def case_of(seed: int) -> Case:
    """The declaration of a seed, with its events."""
    random = Random(seed)
    made = [make(_epsilon(random)) for make in random.sample(MADE, random.randint(1, 5))]
    if random.random() < 0.3:
        made.append(random.choice(BY_CHANCE)(random.randrange(2**32)))
    wheres = {f"s{number}": random.choice(list(WHERE)[:4]) for number in range(len(made))}
    statistics = [
        replace(statistic, where=where, name=name) if where else statistic
        for statistic, (name, where) in zip(made, wheres.items(), strict=True)
    ]
    topology = Topology(
        name="random",
        source="random",
        span="20s",
        every=random.choice(("1s", "2s", "5s")),
        lateness=random.choice(("0s", "400ms")),
        windows=tuple(random.sample(list(WINDOWS), random.randint(1, 3))),
        statistics=(Count(epsilon=_epsilon(random)), *statistics),
        emit=random.choice(("windows", "always", "events")),
    )
    if random.random() < 0.3:
        slo = Slo(
            name="slo", good="status < 500", objective=0.9, alerts=("2 over 10s and 5s as page",)
        )
        topology = replace(topology, slos=(slo,))
    for number in range(random.randint(0, 4)):
        text = f"{_expression(random, topology, 2)} as d{number}"
        topology = _with(topology, derived=(*topology.derived, text))
    meant = {}
    for number in range(random.randint(0, 2)):
        terms = [_comparison(random, topology) for _ in range(random.randint(1, 2))]
        alert = Alert(
            name=f"a{number}",
            when=" and ".join(f"{name} {operator} {limit!r}" for name, operator, limit in terms),
            certain=random.random() < 0.5,
        )
        grown = _with(topology, alerts=(*topology.alerts, alert))
        if grown is not topology:
            topology, meant[alert.name] = grown, terms
    if random.random() < 0.3:
        name, operator, limit = _comparison(random, topology)
        topology = _with(topology, having=f"{name} {operator} {limit!r}")
    return Case(topology, events_of(random), meant)


def _with(topology: Topology, **fields: object) -> Topology:
    """The topology with other fields; as it is if such a declaration is refused."""
    try:
        grown = replace(topology, **fields)  # type: ignore[arg-type]
        _ = TopologyDriver(grown)
    except SlidestatError:
        return topology
    return grown


def _names(topology: Topology) -> list[str]:
    windows = {length: text for text, length in (WINDOWS | ASKED).items()}
    return [
        it.name if it.window is None else f"{it.name}_{windows[it.window]}"
        for it in topology.named_figures
    ]


def _expression(random: Random, topology: Topology, depth: int) -> str:
    if not depth or random.random() < 0.2:
        name = random.choice(_names(topology))
        if random.random() < 0.15:
            return f"ago({name}, '{random.choice((2, 5, 10))}s')"
        return name if random.random() < 0.85 else str(random.choice((0.5, 1, 3)))
    if random.random() < 0.1:
        return f"coalesce({_expression(random, topology, depth - 1)}, -1)"
    one, other = (_expression(random, topology, random.randrange(depth)) for _ in range(2))
    return f"({one} {random.choice('+-*//')} {other})"


def _comparison(random: Random, topology: Topology) -> tuple[str, str, float]:
    name = random.choice(_names(topology))
    return name, random.choice(list(COMPARED)), random.choice((0.1, 0.5, 1.0, 3.0, 12.0, 40.0))


class Oracle:
    """Exact figures of a case, from the events that were counted."""

    def __init__(self, topology: Topology, counted: Sequence[Event]) -> None:
        self._topology = topology
        self._sources = topology.figure_sources
        self._by_key = defaultdict(list)
        for event in sorted(counted, key=lambda event: event.time):
            self._by_key[event.key].append(event)
        self._right = cache(self._compute)
        self.places = {name: place for place, name in enumerate(_names(topology))}

    def keys(self, end: int) -> Sequence[str]:
        """The keys that have an event in the span before a moment."""
        span = self._topology.span_length.length
        return [
            key
            for key, events in self._by_key.items()
            if any(end - span <= event.time < end for event in events)
        ]

    def values(self, source: FigureSource, key: str, end: int) -> list[Fraction]:
        """What a statistic takes in, of the events of a window."""
        assert source.window is not None
        inside = [it for it in self._by_key[key] if end - source.window <= it.time < end]
        chosen = [it for it in inside if WHERE[source.statistic.where or ""](it)]
        if getattr(source.statistic, "by", ""):
            least, below = source.series.at_least, source.series.below
            chosen = [
                it
                for it in chosen
                if (least is None or it.code >= least) and (below is None or it.code < below)
            ]
        return [it.code if source.path == ("code",) else it.value for it in chosen]

    def right(self, place: int, key: str, end: int) -> Fraction | None:
        """The exact figure at a place among all that have a name; None where there is none."""
        return self._right(place, key, end)

    def _compute(self, place: int, key: str, end: int) -> Fraction | None:
        derived = place - len(self._sources)
        if derived < 0:
            source = self._sources[place]
            values = self.values(source, key, end)
            if getattr(source.statistic, "by", ""):
                is_sum = isinstance(source.statistic, SumHistogram)
                return sum(values) / (1 if is_sum else len(values)) if values or is_sum else None
            rights = exact(source.statistic, values, source.window or 0)
            return rights[list(source.statistic.series()).index(source.series)]
        figure = self._topology.derived_figures[derived]
        known = {}
        for path, part in figure.read:
            ago = 0 if part.past is None else self._topology.derived_past[part.past].runner.ago
            known[path] = self.right(part.place, key, end - ago)
        return _value(figure.node, known)


def _value(node: Node, known: Mapping[tuple[str, ...], Fraction | None]) -> Fraction | None:
    match node:
        case Literal(value):
            return None if value is None else Fraction(value)
        case FieldValue(path):
            return known[path]
        case Call("coalesce", operands):
            return next((it for one in operands if (it := _value(one, known)) is not None), None)
        case Call("negate", (one,)):
            found = _value(one, known)
            return None if found is None else -found
        case Call(operator, (one, other)):
            left, right = _value(one, known), _value(other, known)
            if left is None or right is None or (operator == "/" and not right):
                return None
            match operator:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/":
                    return left / right
    raise AssertionError(node)


Misses = dict[str, list[bool]]


def run(seed: int) -> Misses:
    """Check the declaration of a seed; return which of the bounds that hold by chance did not, by
    statistic.
    """
    case = case_of(seed)
    driver = TopologyDriver(case.topology)
    random = Random(seed)
    places = sorted(random.randrange(len(case.events)) for _ in range(2))
    for start, end in pairwise((0, *places, len(case.events))):
        driver.send(*map(_record, case.events[start:end]))
        random.choice((driver.commit, driver.restart))()
    rankings = _rankings(case, driver)
    answers = _answers(case, driver)
    driver.close_windows()
    # Which events are late or dead is the subject of other laws.
    refused = {letter.offset for letter in (*driver.late, *driver.dead_letters)}
    counted = [it for offset, it in enumerate(case.events) if offset not in refused]
    assert 2 * len(counted) > len(case.events)
    oracle = Oracle(case.topology, counted)
    misses: Misses = defaultdict(list)
    for emission in driver.emissions:
        for place, figure in _placed(case.topology, emission.figures):
            check(
                oracle, case.topology, place, figure, emission.key, emission.window_end_ms, misses
            )
    check_alerts(case, oracle, driver)
    for ranking in rankings:
        check_ranking(oracle, ranking)
    for topology, answer in answers:
        asked = Oracle(topology, counted)
        for place, figure in _placed(topology, answer.figures):
            check(asked, topology, place, figure, answer.key, answer.window_end_ms, misses)
    return misses


def _record(event: Event) -> dict[str, object]:
    return {
        "key": event.key,
        "time": event.time,
        "value": float(event.value),
        "status": event.status,
        "code": int(event.code),
    }


def _rankings(case: Case, driver: TopologyDriver) -> list[RankingAnswer]:
    """Rankings as of the last event, by two figures."""
    random, names = Random(len(case.events)), _names(case.topology)
    found = []
    for name in random.sample(names, min(2, len(names))):
        order = random.choice(("largest", "smallest"))
        found.append(driver.ranking(name, **{order: random.choice((1, 3, 10))}))
    return found


def _answers(case: Case, driver: TopologyDriver) -> list[tuple[Topology, KeyAnswer]]:
    """Answers as of the last event, over windows that the topology has not; beside topologies whose
    figures are these.
    """
    windows = tuple(ASKED)
    asked = replace(case.topology, windows=windows, derived=(), alerts=(), slos=(), having="")
    found = []
    for key in sorted({event.key for event in case.events})[:3]:
        answer = driver.query(key, windows)
        if answer is not None:
            names = set(asked.labels)
            figures = [figure for figure in answer.figures if figure.statistic in names]
            found.append((asked, msgspec.structs.replace(answer, figures=figures)))
    return found


def _placed(topology: Topology, figures: Sequence[Figure]) -> Iterator[tuple[int, Figure]]:
    lists = {
        label
        for label, statistic in zip(topology.labels, topology.statistics, strict=True)
        if isinstance(statistic, TopItems)
    }
    named = [figure for figure in figures if figure.statistic not in lists]
    assert len(named) == len(topology.named_figures)
    yield from enumerate(named)


def check(
    oracle: Oracle,
    topology: Topology,
    place: int,
    figure: Figure,
    key: str,
    end: int,
    misses: Misses,
) -> None:
    """A figure is within its bounds, and its error within the promise; of one that is so by chance
    it is noted.
    """
    right = oracle.right(place, key, end)
    said = (figure, right and float(right), key, end)
    is_derived = place >= len(topology.figure_sources)
    assert figure.derived == is_derived
    if figure.confidence < 1:
        if figure.estimate is not None and right is not None:
            misses[figure.statistic].append(not is_within(figure, right))
    elif is_derived:
        # NULL of the estimates: nothing is said of the exact one.
        if figure.estimate is not None and right is not None:
            assert is_within(figure, right), said
    else:
        source = topology.figure_sources[place]
        values = oracle.values(source, key, end)
        if getattr(source.statistic, "by", ""):  # All of them are in the figure's range.
            figure = msgspec.structs.replace(figure, at_least=None, below=None)
        check_figure(source.statistic, figure, right, values)


def is_within(figure: Figure, right: Fraction) -> bool:
    """Whether an exact figure is within the bounds."""
    slack = abs(right) * SLACK
    is_low = figure.lower is None or Fraction(figure.lower) <= right + slack
    return is_low and (figure.upper is None or right - slack <= Fraction(figure.upper))


def check_alerts(case: Case, oracle: Oracle, driver: TopologyDriver) -> None:
    """What is told to be certain is so by the exact figures."""
    is_certain = {alert.name: alert.certain for alert in case.topology.alerts}
    for change in driver.alerts:
        assert (
            change.certainty == "certain"
            or not is_certain[change.alert]
            or (change.state == "resolved")
        )
        terms = case.meant.get(change.alert)
        if terms is None or change.certainty != "certain" or change.confidence < 1:
            continue
        if change.forgotten:
            continue
        end = change.window_end_ms
        rights = [oracle.right(oracle.places[name], change.key, end) for name, *_ in terms]
        is_true = all(
            right is not None and COMPARED[operator](right, Fraction(limit))
            for right, (_, operator, limit) in zip(rights, terms, strict=True)
        )
        assert is_true == (change.state == "firing"), (change, rights)


def check_ranking(oracle: Oracle, answer: RankingAnswer) -> None:
    """Each key's exact place is among those that are said; equal figures may be in any order. A key
    without an event in the span has none.
    """
    if not answer.places or any(it.figure.confidence < 1 for it in answer.places):
        return
    end = answer.places[0].window_end_ms
    place = oracle.places[answer.by]
    rights = {
        key: right
        for key in oracle.keys(end)
        if (right := oracle.right(place, key, end)) is not None
    }
    for ranked in answer.places:
        own = rights.get(ranked.key)
        if own is None:
            continue
        is_ahead = gt if answer.order == "largest" else lt
        others = [right for key, right in rights.items() if key != ranked.key]
        first = 1 + sum(is_ahead(right, own) for right in others)
        last = first + sum(right == own for right in others)
        assert ranked.first_place <= last, (ranked, rights)
        assert ranked.last_place is None or first <= ranked.last_place, (ranked, rights)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_figures_of_any_declaration_are_those_of_its_events(batch: int) -> None:
    """Whatever its statistics, windows, derived figures, conditions, alerts and objectives."""
    for seed in range(batch * EACH, (batch + 1) * EACH):
        try:
            _ = run(seed)
        except AssertionError as error:
            error.add_note(f"the declaration of seed {seed}: {case_of(seed).topology}")
            raise


def test_misses_by_chance_come_together() -> None:
    """Over seeds a figure misses as often as its delta allows; with one seed none does, or many do:
    all keys and windows draw by it.
    """
    random = Random(5)
    times = accumulate(random.choice((0, 5, 20, 60)) for _ in range(600))
    events = [
        Event("ab"[place % 2], START_MS + time, Fraction(0), 200, code)
        for place, time in enumerate(times)
        if (code := Fraction(int(random.paretovariate(0.7))))
    ]
    declared = Topology(
        name="chance", source="chance", span="5s", every="1s", windows=("2s", "5s"), emit="events"
    )
    shares = []
    for seed in range(60):
        norm = Norm(field="code", epsilon=0.5, delta=0.05, seed=seed)
        topology = replace(declared, statistics=(norm,))
        driver = TopologyDriver(topology)
        driver.send(*map(_record, events))
        driver.close_windows()
        oracle, misses = Oracle(topology, events), defaultdict(list)
        for emission in driver.emissions:
            for place, figure in enumerate(emission.figures):
                end = emission.window_end_ms
                check(oracle, topology, place, figure, emission.key, end, misses)
        shares.append(Fraction(sum(misses["norm_code"]), len(misses["norm_code"])))
    assert 0 < sum(shares) / len(shares) < Fraction("0.05")
    assert shares.count(Fraction()) > 30
    assert max(shares) > Fraction("0.2")
