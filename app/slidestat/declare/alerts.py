"""An alert: a condition on the figures of an emission, and for how long it must hold."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slidestat.declare.expressions.expression import Expression, condition
from slidestat.declare.expressions.nodes import COMPARISONS, Call, Literal, Node, Sort, text_of
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.figure_names import (
    NamedFigure,
    ambiguous_names,
    asked_quantile,
    plain_name,
)
from slidestat.declare.naming import NAME, NAME_RULE, check_digits
from slidestat.errors import SlidestatError, unknown

ALERTS_LABEL = "alerts"
"""The name under which a digest of the declared alerts is stored with states."""

# What is known of a figure's bounds carries over to these.
_TRUTHS = frozenset(("and", "or", "not", "in", "is null", "is true", "is false")) | COMPARISONS
_NUMBERS = frozenset(("negate", "+", "-", "*", "/"))
_MOST_TICKS = 1_000_000
_MOST_ALERTS = 100


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A condition on the figures of a key, asked at each of its emissions.

    It fires when `when` has been true `for` emissions in a row, and is resolved when `resolve` is
    true, or once the key's last event has left the span and the key is forgotten.

    name: what it is called, 1 to 100 letters, digits, '.', '_' and '-'.
    when: the condition, as SQL over the figures' names: "p99 > 500 and count >= 100".
    window: which of the topology's windows the figures are of; without one, the only one.
    for_: so many emissions of the key in a row; in TOML `for`.
    resolve: the condition for it to be resolved; without one, that `when` is not true.
    certain: whether it fires and is resolved only where the bounds say so, not on an estimate.

    Raises SlidestatError, naming the field, for an alert that cannot be.
    """

    name: str
    when: str
    window: str = ""
    for_: int = 1
    resolve: str = ""
    certain: bool = False

    def __post_init__(self) -> None:
        check_digits(self)
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise SlidestatError(f"name is {self.name!r}, which cannot name an alert.", NAME_RULE)
        if type(self.for_) is not int or not 1 <= self.for_ <= _MOST_TICKS:
            raise SlidestatError(
                f"for is {self.for_!r}.",
                f"Give how many emissions in a row, from 1 to {_MOST_TICKS:_}.",
            )
        if not isinstance(self.window, str):
            raise SlidestatError(
                f"window is {self.window!r}, which is no text.", 'Write one of the windows: "5m".'
            )
        if type(self.certain) is not bool:
            raise SlidestatError(f"certain is {self.certain!r}.", "Give true or false.")
        for name in ("when", "resolve"):
            text = getattr(self, name)
            if not isinstance(text, str) or (name == "when" and not text):
                raise SlidestatError(
                    f"{name} is {text!r}, which is no condition.", 'Write one, such as "p99 > 500".'
                )
        _ = (self.condition, self.resolution)

    @property
    def condition(self) -> Expression:
        """Return the condition for it to fire."""
        return _condition(self.when, "when")

    @property
    def resolution(self) -> Expression | None:
        """Return the condition to resolve it; None if it is resolved once `when` is not true."""
        return _condition(self.resolve, "resolve") if self.resolve else None


def figure_name(path: FieldPath) -> str:
    """Return the name of the figure that a condition reads by this path."""
    return plain_name(field_text(path))


def read_figures(alert: Alert) -> list[str]:
    """Return the names of the figures that an alert reads, each once, in the order of the
    conditions.
    """
    expressions = (alert.condition, alert.resolution)
    paths = (path for known in expressions if known is not None for path in known.paths)
    return list(dict.fromkeys(map(figure_name, paths)))


def check_alerts(alerts: object, figures: Iterable[NamedFigure]) -> None:
    """Raise SlidestatError unless these are alerts on figures of this topology, with different
    names.
    """
    if not isinstance(alerts, Sequence) or not all(isinstance(a, Alert) for a in alerts):
        raise SlidestatError(
            f"alerts is {alerts!r}, which is not a list of alerts.",
            'Write them as [Alert(name="slow", when="p99 > 500")], also a single one as a list.',
        )
    names = [alert.name for alert in alerts]
    if len(set(names)) != len(names) or len(names) > _MOST_ALERTS:
        raise SlidestatError(
            f"alerts has {names}.", f"Give each alert its own name, and {_MOST_ALERTS} at the most."
        )
    figures = list(figures)
    known = dict.fromkeys(figure.name for figure in figures)
    ambiguous = ambiguous_names(figures)
    for alert in alerts:
        for name in read_figures(alert):
            what = f"the alert {alert.name} reads {name!r}"
            if name not in known:
                raise _unknown_figure(
                    f"{what}, which is no figure that it could read.", name, known
                )
            if name in ambiguous:
                raise SlidestatError(
                    f"{what}, and several statistics have a figure of that name.",
                    "Give one of these statistics another name.",
                )


def _unknown_figure(error: str, name: str, known: Iterable[str]) -> SlidestatError:
    name = "p50" if name == "median" else name
    known = list(known)
    if not known:
        return SlidestatError(error, "Lists of items have no figure that an alert could read.")
    asked = asked_quantile(name)
    if asked is None or any(figure.endswith(asked.name) for figure in known):
        return unknown(error, name, known)
    return SlidestatError(
        error,
        f"Any quantile can be had: for {asked.name} put {asked.share:f} into the list `quantiles`"
        f" of a statistic of the kind quantile. There are {', '.join(known)}.",
    )


def label_of(alerts: Sequence[Alert], windows: Sequence[int]) -> str:
    """Return a short text that is different for different alerts: 16 hexadecimal digits. `windows`
    are the lengths of the alerts' windows.
    """
    declared = sorted(
        (a.name, a.when, window, a.for_, a.resolve, a.certain)
        for a, window in zip(alerts, windows, strict=True)
    )
    return hashlib.blake2b(repr(declared).encode(), digest_size=8).hexdigest()


def window_of(alert: Alert, windows: Sequence[int], length: int | None) -> int:
    """Return the window of an alert, `length` being that of its `window`, None without one.

    Raises SlidestatError for one that is not among the topology's windows.
    """
    if length is None and len(windows) == 1:
        return windows[0]
    if length is None:
        raise SlidestatError(
            f"the window of the alert {alert.name} is missing, and there are {len(windows)}.",
            "Say which of the topology's windows the figures are of.",
        )
    if length not in windows:
        raise SlidestatError(
            f"the window of the alert {alert.name} is {alert.window!r}, which is none of the"
            " topology's windows.",
            "Give one of them, or add this one to them.",
        )
    return length


def _condition(text: str, what: str) -> Expression:
    found = condition(text, what, Sort.NUMBER)
    _check_computable(found.node, text, what)
    return found


def _is_truth(node: Node) -> bool:
    if isinstance(node, Literal):
        return isinstance(node.value, bool)
    return isinstance(node, Call) and node.operator in _TRUTHS


def _check_computable(node: Node, text: str, what: str) -> None:
    if not isinstance(node, Call):
        return
    of_numbers = node.operator in _NUMBERS or node.operator in COMPARISONS | {"in", "is null"}
    if not (of_numbers or node.operator in _TRUTHS) or (
        of_numbers and any(map(_is_truth, node.operands))
    ):
        raise SlidestatError(
            f"{what} is {text!r}: {text_of(node)} cannot be evaluated over bounds.",
            "Use comparisons, and, or, not, in, between, is null, and + - * / over figures.",
        )
    for operand in node.operands:
        _check_computable(operand, text, what)
