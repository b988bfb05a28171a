"""Query strings: every parameter known, each value checked, errors that name the parameter."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote_to_bytes

from slidestat.declare.declared import Declared
from slidestat.declare.rankings import MOST_PLACES
from slidestat.declare.referee import Referee
from slidestat.errors import SlidestatError, near_name, shown, unknown
from slidestat.live.live_query import LiveQuery
from slidestat.live.live_ranking import LiveRanking, LiveTable
from slidestat.live.live_topology import Question
from slidestat.options import KEYS_OF_A_PAGE
from slidestat.referee.live_referee import RefereeQuery
from slidestat.schemas.event import MAX_KEY_LENGTH

MOST_KEYS = 1_000
# The most values of a parameter in a question; and of windows times quantiles or ranks, which are
# figures.
MOST_VALUES = 50
MOST_PAIRS = 500
# Places of a ranking that are scraped: each is a few series.
MOST_SERIES = 100

_MOST_PARAMETERS = 500
# The error of a text that is no number has so many of its characters.
_SHOWN = 40
_LIMIT = re.compile(r"[0-9]{1,9}", re.ASCII)
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def key_of(segment: str) -> str:
    """Return the key of a percent-encoded path segment."""
    if _BROKEN_ESCAPE.search(segment):
        raise SlidestatError(f"The key {segment!r} has a broken escape.", "Write % as %25.")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise SlidestatError(
            f"The key {segment!r} is not UTF-8.", "Percent-encode the bytes of its UTF-8."
        ) from error


def key_in_query(query: str) -> tuple[str, str]:
    """Return the key of ?key=, and the query without it: for keys that no path can have, as HTTP
    clients take "." and ".." for folders, however they are encoded.
    """
    given, others = _keys_and_others(query)
    if len(given) != 1 or not given[0]:
        raise SlidestatError(
            f"key is given {len(given)} times." if len(given) != 1 else "The key is empty.",
            "Give it once: ?key=JFK.",
        )
    return key_of(given[0]), "&".join(others)


def keys_in_query(query: str) -> tuple[list[str], str]:
    """Return the keys of ?key=&key=, each once, and the query without them.

    Raises SlidestatError for none, for too many, and for more figures than a scrape may ask for.
    """
    given, others = _keys_and_others(query)
    keys = list(dict.fromkeys(map(key_of, given)))
    if "" in keys or not 1 <= len(keys) <= MOST_VALUES:
        raise SlidestatError(
            f"key is given {len(keys)} times." if "" not in keys else "A key is empty.",
            f"Name 1 to {MOST_VALUES} keys: ?key=JFK&key=ATL.",
        )
    asked = 1
    for name in ("window", "quantile", "rank"):
        asked *= max(1, sum(pair.partition("=")[0] == name for pair in others))
    if len(keys) * asked > MOST_PAIRS:
        raise SlidestatError(
            f"{len(keys)} keys with {asked} windows and quantiles or ranks are asked for.",
            f"Ask for at most {MOST_PAIRS} in one scrape.",
        )
    return keys, "&".join(others)


def _keys_and_others(query: str) -> tuple[list[str], list[str]]:
    """Return a query's values of `key`, as path segments have them, and its other parameters."""
    pairs = [(pair, *pair.partition("=")[::2]) for pair in query.split("&")]
    keys = [value.replace("+", "%20") for _, name, value in pairs if name == "key"]
    return keys, [pair for pair, name, _ in pairs if name != "key"]


def key_query(topology: Declared, query: str, *, can_be_past: bool = True) -> Question:
    """Return the question of ?window=&statistic=&quantile=&rank=&item=, each any number of times,
    and one &where= and, if it can be of the past, &ago=.
    """
    names = ("window", "statistic", "quantile", "rank", "item", "where")
    parameters = _parameters(query, (*names, "ago") if can_be_past else names)
    where = _single(parameters, "where")
    ago = _single(parameters, "ago") if can_be_past else None
    for name, values in parameters.items():
        if len(values) > MOST_VALUES:
            raise SlidestatError(
                f"{name} is given {len(values)} times.", f"Give it at most {MOST_VALUES} times."
            )
    windows = len(parameters["window"])
    for name in ("quantile", "rank", "item"):
        times = len(parameters[name])
        if windows * times > MOST_PAIRS:
            raise SlidestatError(
                f"window is given {windows} times and {name} {times} times: {windows * times:,}"
                f" {name}s.",
                f"Ask for at most {MOST_PAIRS} in one question.",
            )
    quantiles = [
        _number("quantile", text, "Give one from 0 to 1, such as 0.99.")
        for text in parameters["quantile"]
    ]
    ranks = [_number("rank", text, "Give a value, such as 250.") for text in parameters["rank"]]
    figures = parameters["window"], parameters["statistic"], quantiles
    asked = *figures, where, ranks, parameters["item"], ago
    if isinstance(topology, Referee):
        return RefereeQuery(topology, *asked)
    return LiveQuery(topology.answering, *asked)


def page_query(topology: Declared, query: str) -> tuple[str, str, int, list[str]]:
    """Return prefix, after, limit and alerts of ?prefix=&after=&limit=&firing=, firing repeated."""
    parameters = _parameters(query, ("prefix", "after", "limit", "firing"))
    alerts = [alert.name for alert in topology.answering.alerts]
    for name in parameters["firing"]:
        if not alerts:
            raise SlidestatError(
                f"firing is {shown(name)}, and {topology.name} has no alerts.", "Leave firing out."
            )
        if name not in alerts:
            raise unknown(f"firing is {shown(name)}, which is no alert.", name, alerts)
    prefix, after = _single(parameters, "prefix") or "", _single(parameters, "after") or ""
    limit = _single(parameters, "limit")
    limit = str(KEYS_OF_A_PAGE) if limit is None else limit
    for name, text in (("prefix", prefix), ("after", after)):
        if len(text) > MAX_KEY_LENGTH:
            raise SlidestatError(
                f"{name} has {len(text)} characters.", f"Keys have at most {MAX_KEY_LENGTH}."
            )
    if not _LIMIT.fullmatch(limit) or not 1 <= int(limit) <= MOST_KEYS:
        raise SlidestatError(
            f"limit is {limit!r}.", f"Give a whole number from 1 to {MOST_KEYS:,}."
        )
    return prefix, after, int(limit), parameters["firing"]


def table_query(topology: Declared, query: str, keys: int) -> LiveTable:
    """Return the question of ?figure=&figure= for this number of keys."""
    figures = list(dict.fromkeys(_parameters(query, ("figure",))["figure"]))
    if not figures:
        raise SlidestatError(
            "figure is missing.", "Name figures with their windows: ?key=JFK&figure=p99_5m."
        )
    if keys * len(figures) > MOST_PAIRS:
        raise SlidestatError(
            f"{len(figures)} figures of {keys} keys are asked for.",
            f"Ask for at most {MOST_PAIRS} in one question.",
        )
    return LiveTable(topology, figures)


def ranking_query(topology: Declared, query: str, most: int = MOST_PLACES) -> LiveRanking:
    """Return the question of ?by=&having= and either &largest= or &smallest=, up to `most`."""
    parameters = _parameters(query, ("by", "largest", "smallest", "having"))
    by, having = _single(parameters, "by"), _single(parameters, "having") or ""
    if not by:
        raise SlidestatError(
            "by is missing.", "Name the figure to rank by, with its window: ?by=p99_5m&largest=20."
        )
    sizes = {}
    for name in ("largest", "smallest"):
        text = _single(parameters, name)
        if text is not None and (not _LIMIT.fullmatch(text) or not 1 <= int(text) <= most):
            raise SlidestatError(
                f"{name} is {shown(text)}.", f"Give how many keys, from 1 to {most:,}."
            )
        sizes[name] = None if text is None else int(text)
    return LiveRanking.of_sizes(topology, by, **sizes, having=having)


def no_query(query: str) -> None:
    """Refuse any parameter."""
    _parameters(query, ())


def _parameters(query: str, known: Sequence[str]) -> dict[str, list[str]]:
    if _BROKEN_ESCAPE.search(query):
        raise SlidestatError("The query string has a broken escape.", "Write % as %25.")
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS
        )
    except UnicodeDecodeError as error:
        raise SlidestatError(
            "The query string is not UTF-8.", "Percent-encode the bytes of its UTF-8."
        ) from error
    except ValueError as error:
        raise SlidestatError(
            f"The query string has more than {_MOST_PARAMETERS} parameters.", "Give fewer."
        ) from error
    parameters: dict[str, list[str]] = {name: [] for name in known}
    for name, value in pairs:
        if name not in parameters:
            raise SlidestatError(f"There is no parameter {name!r}.", _instead(name, known))
        parameters[name].append(value)
    return parameters


def _single(parameters: Mapping[str, list[str]], name: str) -> str | None:
    values = parameters[name]
    if len(values) > 1:
        raise SlidestatError(f"{name} is given {len(values)} times.", "Give it once.")
    return values[0] if values else None


def _instead(name: str, known: Sequence[str]) -> str:
    if not known:
        return "Leave it out: there are none here."
    near = near_name(name, known)
    return f"Did you mean {near}?" if near is not None else f"There are {', '.join(known)}."


def _number(name: str, text: str, advice: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        shown = repr(text[:_SHOWN]) + (" and so on" if len(text) > _SHOWN else "")
        raise SlidestatError(f"{name} is {shown}, which is no number.", advice) from error
