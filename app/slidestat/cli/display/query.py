"""Format the answer of `slidestat query`: the rows that `slidestat watch` would show, or JSON."""

import sys
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from rich.console import Console

from slidestat.admin.query import ask
from slidestat.cli.display.watch import show_rows
from slidestat.client.client import Client
from slidestat.errors import SlidestatError, near_name
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import KeyAnswer, RankedKey, RankingAnswer, ValueRank
from slidestat.text import Row, iso_time, numbers_text, printable, short

# The most keys that are named, and that are searched for the most similar one.
_FEW_KEYS, _MOST_KEYS = 3, 1_000


def query(
    url: str, topology: str, key: str, where: str | None = None, *, as_json: bool, **asked: Any
) -> None:
    """Show a key's figures once; `asked` is as `Client.query` takes it, and so are the errors."""

    def question(client: Client, where: str | None) -> Coroutine[Any, Any, KeyAnswer]:
        return client.query(topology, key, where=where, **asked)

    try:
        answer, body = ask(url, partial(question, where=where))
    except SlidestatError as error:
        if not error.message.endswith(f"has no key {key!r}."):
            raise
        raise SlidestatError(error.message, _keys(url, topology, key, error.advice)) from error
    if as_json:
        sys.stdout.write(body.decode() + "\n")
        return
    shown = [_chosen(figure, answer.where) for figure in answer.figures]
    shown += [figure for rank in answer.ranks or () for figure in _sides(rank)]
    rows = [Row(answer.key, answer.window_end_ms, figure, lost=answer.lost) for figure in shown]
    show_rows(rows, Console(highlight=False))
    if where is not None and all(figure.upper == 0 for figure in answer.figures):
        for near in other_spellings(where):
            other, _ = ask(url, partial(question, where=near))
            found = next((f.estimate for f in other.figures if f.upper), None)
            if found is not None:
                print(
                    f"Texts are compared as they are: nothing has {printable(where)}, and"
                    f" {short(found)} have {printable(near)}.",
                    file=sys.stderr,
                )
    for alert in answer.alerts or ():
        since = iso_time(alert.since_ms)
        print(
            f"The alert {alert.alert}: {alert.state}, {alert.certainty}, since {since}."
            + (f" What to do: {alert.runbook}" if alert.runbook else ""),
            file=sys.stderr,
        )
    for absent in answer.absent or ():
        came = (
            "it never came"
            if absent.since_ms is None
            else f"it came to {iso_time(absent.since_ms)}"
        )
        print(f"Without {printable(absent.party)}: {came}.", file=sys.stderr)


def _keys(url: str, topology: str, key: str, advice: str) -> str:
    """Return advice on a key that is not there, with the one that may be meant and some that there
    are, where they can be had.
    """
    try:
        page, _ = ask(url, lambda client: client.keys(topology, limit=_MOST_KEYS))
    except SlidestatError:
        return advice
    near = near_name(key, page.keys)
    guess = "" if near is None else f"Did you mean {near!r}? "
    some = ", ".join(map(repr, page.keys[:_FEW_KEYS]))
    return f"{guess}{advice}{f' Keys that are there: {some}.' if some else ''}"


def ranking(
    url: str,
    topology: str,
    by: str,
    largest: int | None,
    smallest: int | None,
    having: str,
    *,
    as_json: bool,
) -> None:
    """Show the keys of the largest or the smallest figures once, a line each."""
    answer, body = ask(
        url,
        lambda client: client.ranking(
            topology, by, largest=largest, smallest=smallest, having=having
        ),
    )
    if as_json:
        sys.stdout.write(body.decode() + "\n")
        return
    for line in lines_of(answer):
        print(line)
    many = f"{len(answer.places):,} of {answer.keys:,} keys"
    print(f"{many}, the {answer.order} first.", file=sys.stderr)


def lines_of(answer: RankingAnswer) -> list[str]:
    """Return a ranking as a table: headings, and a line for each place."""
    newest = max((row.window_end_ms for row in answer.places), default=0)
    rows = [("place", "may be", answer.by, "bounds", "key")]
    rows += [_ranked(row, newest) for row in answer.places]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join((*map(str.rjust, row[:-1], widths), row[-1])) for row in rows]


def _ranked(row: RankedKey, newest: int) -> tuple[str, str, str, str, str]:
    """Return place, first and last possible place, estimate, bounds, and the key with its marks. A
    key whose window ended before the one with the `newest` end began is marked with its end.
    """
    figure, end = row.figure, row.window_end_ms
    estimate, lower, upper = numbers_text(figure.estimate, figure.lower, figure.upper)
    may_be = f"{row.first_place} to {'?' if row.last_place is None else row.last_place}"
    marks = [Row(row.key, end, figure).marks, "may lack lost records" if row.lost else ""]
    if figure.window_ms is not None and end <= newest - figure.window_ms:
        marks.append(f"until {iso_time(end)}")
    return (
        str(row.place),
        "certain" if row.first_place == row.last_place else may_be,
        estimate,
        f"[{lower}, {upper}]",
        "  ".join([printable(row.key), *filter(None, marks)]),
    )


def other_spellings(where: str) -> list[str]:
    """Return the same condition with its text in other notations of a number, or other case."""
    field, _, text = where.partition("=")
    ways = [text.strip(), text.lower(), text.upper()]
    with suppress(ValueError, OverflowError):
        number = float(text)
        ways += [str(int(number)), repr(number)] if number.is_integer() else [repr(number)]
    return [f"{field}={way}" for way in dict.fromkeys(ways) if way != text]


def _sides(rank: ValueRank) -> list[Figure]:
    """Return a rank as figures, each with its side in the name of the statistic."""
    value = short(rank.value)
    sides = (
        (f"at most {value}", rank.at_most, rank.share_at_most),
        (f"more than {value}", rank.more_than, rank.share_more_than),
    )
    return [
        Figure(
            f"{rank.statistic} {side}, {of}",
            *(bounds.estimate, bounds.lower, bounds.upper),
            *(rank.window_ms, rank.window_events),
        )
        for side, events, share in sides
        for of, bounds in (("events", events), ("share", share))
    ]


def _chosen(figure: Figure, where: str | None) -> Figure:
    """Return the figure, with the condition that was asked for in its name."""
    if where is None:
        return figure
    return msgspec.structs.replace(figure, statistic=f"{figure.statistic} where {where}")
