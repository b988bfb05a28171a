"""A service-level objective: a share of events that is to be good.

It is nothing of its own but two counts, figures derived from them, windows and alerts, with which
the topology is declared.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from slidestat.declare.alerts import Alert
from slidestat.declare.derived import KeptFigures
from slidestat.declare.expressions.expression import condition_of
from slidestat.declare.figure_names import text_name
from slidestat.declare.kinds import DEFAULT
from slidestat.declare.naming import check_texts
from slidestat.declare.statistics import Count
from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.declare.values import check_values, is_list, is_number, require_list
from slidestat.errors import SlidestatError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
_BURN = re.compile(
    r"(?P<factor>\d+(?:\.\d+)?) over (?P<long>.+) and (?P<short>.+) as (?P<severity>[\w-]+)",
    re.ASCII,
)
_FORM = 'Write "14.4 over 1h and 5m as page": a burn rate above 0, two windows and a severity.'
# From Google's SRE workbook: at these rates a month's budget is gone in 2, 5 and 30 days.
USUAL_ALERTS = (
    "14.4 over 1h and 5m as page",
    "6 over 6h and 30m as page",
    "1 over 3d and 6h as ticket",
)


class BurnAlert(NamedTuple):
    """An alert on a burn rate that is above `factor` over both of two windows."""

    text: str
    factor: str
    long: str
    short: str
    severity: str


@dataclass(frozen=True, kw_only=True)
class Slo:
    """A service-level objective: so large a share of a key's events is to be good.

    It is two counts, NAME_events and NAME_bad; burn rates, NAME_burn_5m of each window;
    NAME_budget_left of the longest one; and alerts, NAME_page_1h. They are figures and alerts like
    any other.

    name: begins the names of its figures and alerts: 1 to 50 letters, digits and '_', the first no
    digit.
    good: the condition on an event to be good, as SQL: "status < 500", "took_ms <= 300". Events for
    which it is NULL, as they lack the field, are neither good nor bad.
    objective: the share of events that is to be good, more than 0 and less than 1: 0.999.
    alerts: when to be told, each "14.4 over 1h and 5m as page": the burn rate is above that over
    both windows. The windows are added to those of the topology.
    least_events: an alert fires only if its longer window has at least so many events: with few, a
    single bad one is a high burn rate.
    labels: further labels of its alerts: { team = "shop" }.
    annotations: further texts for people of its alerts.
    runbook: the address of the page that says what to do.

    Raises SlidestatError, naming the field, for an objective that cannot be.
    """

    name: str
    good: str
    objective: float
    alerts: Sequence[str] = USUAL_ALERTS
    least_events: int = 0
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    runbook: str = ""

    def __post_init__(self) -> None:
        check_values(self)
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise SlidestatError(
                f"name is {self.name!r}, which cannot begin the names of figures.",
                "Use 1 to 50 letters, digits and '_', the first no digit.",
            )
        if not isinstance(self.good, str) or not self.good.strip():
            raise SlidestatError(
                f"good is {self.good!r}, which is no condition.", 'Write one: "status < 500".'
            )
        _ = self._good
        given = is_number(self.objective)
        if not given or not 0 < self.objective < 1:
            advice = "Give the share of good events, more than 0 and less than 1: 0.999."
            if given and 1 < self.objective < 100:
                advice = f"Give it as a share: {_text(Decimal(repr(self.objective)) / 100)}."
            elif given and self.objective == 1:
                advice = "An objective of 1 leaves no budget to burn: give less, such as 0.999."
            raise SlidestatError(f"objective is {self.objective!r}.", advice)
        if type(self.least_events) is not int or self.least_events < 0:
            raise SlidestatError(
                f"least_events is {self.least_events!r}.", "Give a whole number, 0 or more."
            )
        require_list(
            "alerts",
            self.alerts,
            'Write a list, also of a single one: ["14.4 over 1h and 5m as page"].',
        )
        check_texts(self.labels, self.annotations, self.runbook)
        names = [self._alert_name(it) for it in self.burn_alerts]
        if twice := [name for name in names if names.count(name) > 1]:
            raise SlidestatError(
                f"alerts has {twice[0]!r} twice.",
                "Give alerts of one severity longer windows that differ.",
            )

    @cached_property
    def _good(self) -> str:
        """The condition, always written the same way."""
        found = condition_of(self.good, "good")
        return "" if found is None else found.text

    @property
    def budget(self) -> Decimal:
        """Return the share of events that may be bad, free of the rounding of 1 - objective."""
        return 1 - Decimal(repr(self.objective))

    @cached_property
    def burn_alerts(self) -> tuple[BurnAlert, ...]:
        """The alerts on burn rates."""
        return tuple(map(self._burn_alert, self.alerts))

    def _burn_alert(self, text: object) -> BurnAlert:
        found = _BURN.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None or not Decimal(found["factor"]):
            raise SlidestatError(f"alerts has {text!r}.", _FORM)
        alert = BurnAlert(str(text), *found.groups())
        if Decimal(alert.factor) * self.budget >= 1:
            most = _text(round(1 / self.budget, 3))
            raise SlidestatError(
                f"alerts has {text!r}, which would never fire: with an objective of"
                f" {self.objective} the burn rate is at most {most}, of nothing but bad events.",
                "Give lower burn rates, or a higher objective.",
            )
        return alert

    def _alert_name(self, alert: BurnAlert) -> str:
        return f"{self.name}_{alert.severity}_{text_name(alert.long)}"

    @property
    def statistics(self) -> tuple[Count, ...]:
        """Return the counts of its events: of those that are good or bad, and of the bad ones."""
        known = f"({self._good}) is not null"
        return (
            Count(name=f"{self.name}_events", where=known),
            # A part of the others by its terms: so the share of bad ones is known to be at most 1.
            Count(name=f"{self.name}_bad", where=f"{known} and not ({self._good})"),
        )

    def derived(self, windows: Sequence[str], longest: str) -> tuple[str, ...]:
        """Return its derived figures over windows; `longest` is the longest window."""
        names = list(map(text_name, windows))
        burns = (
            f"{self.name}_bad_{it} / {self.name}_events_{it} / {_text(self.budget)}"
            f" as {self.name}_burn_{it}"
            for it in names
        )
        left = f"1 - {self.name}_burn_{text_name(longest)} as {self.name}_budget_left"
        return (*burns, left)

    def alerts_with(self, names: Mapping[str, str]) -> tuple[Alert, ...]:
        """Return its alerts; `names` are those that windows have in names, by their texts."""
        return tuple(
            Alert(
                name=self._alert_name(it),
                when=self._when(it, names),
                severity=it.severity,
                labels=self.labels,
                annotations=self.annotations,
                runbook=self.runbook,
            )
            for it in self.burn_alerts
        )

    def _when(self, alert: BurnAlert, names: Mapping[str, str]) -> str:
        long, short = names[alert.long], names[alert.short]
        terms = [f"{self.name}_burn_{it} > {alert.factor}" for it in (long, short)]
        if self.least_events:
            terms.append(f"{self.name}_events_{long} >= {self.least_events}")
        return " and ".join(terms)


def with_slos(topology: KeptFigures, slos: object) -> dict[str, tuple[Any, ...]]:
    """Return the fields of a topology, whose lengths are checked, with what its objectives become:
    windows, statistics, derived figures and alerts. No objective is left: a copy of the topology
    has each once.

    Raises SlidestatError, naming the field, for what are no objectives, and for windows that the
    topology cannot have.
    """
    if not is_list(slos) or not all(isinstance(slo, Slo) for slo in slos):
        raise SlidestatError(
            f"slos is {slos!r}, which is not a list of objectives.",
            'Write them as [Slo(name="availability", good="status < 500", objective=0.999)].',
        )
    if not slos:
        return {}
    names = [slo.name for slo in slos]
    if len(set(names)) != len(names):
        raise SlidestatError(f"slos has {names}.", "Give each objective its own name.")
    if topology.publish:
        raise SlidestatError(
            f"slos are given, and publish is {topology.publish!r}: each partition has only a part"
            " of the events of such a key.",
            "Declare them in a topology of the same events that does not publish.",
        )
    texts = list(topology.windows or (topology.span,))
    for slo in slos:
        for alert in slo.burn_alerts:
            _check_windows(topology, slo, alert)
            texts += (it for it in (alert.long, alert.short) if it not in texts)
    lengths: dict[int, str] = {}
    for text in texts:
        lengths.setdefault(topology.window(text, "windows").length, text)
    # A length that is written in two ways has one name.
    written = {text: text_name(lengths[topology.window(text, "windows").length]) for text in texts}
    windows = [lengths[length] for length in sorted(lengths)]
    # An hour of the calendar is at most as long as one that slides.
    longest = max(lengths, key=lambda it: (int(it), not isinstance(it, CalendarWindow)))
    derived = [it for slo in slos for it in slo.derived(windows, lengths[longest])]
    own = () if topology.statistics is DEFAULT else topology.statistics
    return {
        "slos": (),
        "windows": tuple(texts),
        "statistics": _with(own, (it for slo in slos for it in slo.statistics)),
        "derived": _with(topology.derived, derived),
        "alerts": _with(topology.alerts, (it for slo in slos for it in slo.alerts_with(written))),
    }


def _check_windows(topology: KeptFigures, slo: Slo, alert: BurnAlert) -> None:
    span = topology.span_length
    what = f"alerts of the objective {slo.name} has {alert.text!r}"
    long, short = (
        topology.window(it, f"{what}, of which a window") for it in (alert.long, alert.short)
    )
    if long.of_events != span.of_events or short.of_events != span.of_events:
        raise SlidestatError(
            f"{what}, and the span is {topology.span!r}.",
            "Give the windows and the span all as durations, or all as numbers of events.",
        )
    if long.length < short.length:
        raise SlidestatError(f"{what}, whose first window is the shorter one.", _FORM)
    if long.is_longer_than(span):
        # Left out in silence, an alert would be missed only once it should have come.
        fits = [
            it.text
            for it in slo.burn_alerts
            if not topology.window(it.long, what).is_longer_than(span)
        ]
        listed = ", ".join(f'"{text}"' for text in fits)
        raise SlidestatError(
            f"{what}, longer than the span {topology.span!r}.",
            f"Lengthen the span, or have the alerts that fit: alerts = [{listed}].",
        )


def _with(own: Any, others: Iterable[object]) -> Any:
    """Return a list with others behind it; what is no list is refused by the topology's checks."""
    return (*own, *others) if is_list(own) else own


def _text(number: Decimal) -> str:
    return f"{number.normalize():f}"
