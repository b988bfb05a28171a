"""Answer for many keys at once, over all workers: for those of the largest, or the smallest, values
of a figure, and with tables of several figures.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TypeVar, cast
from urllib.parse import urlencode

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slidestat.engine.emissions.rankings import keys_in_two_places
from slidestat.engine.view import PartitionView
from slidestat.live.live_ranking import KeySlice, LiveRanking
from slidestat.live.live_topology import LiveTopology, View
from slidestat.schemas.query import KeyTable, RankedKey, RankingAnswer, RankingPart
from slidestat.web.answers.parameters import MOST_SERIES, keys_in_query, ranking_query, table_query
from slidestat.web.answers.workers import (
    RANKING_S,
    OtherWorkers,
    ThisWorker,
    checked,
    in_two_places,
    require_same,
)
from slidestat.web.errors import HttpError, json_response, parsing, unavailable
from slidestat.web.metrics import exposition
from slidestat.web.turns import Turns

Seen = TypeVar("Seen")
Firing = Mapping[str, set[str]]

# A ranking looks at all keys: names, and states, so many in one look at the work.
_NAMES, _STATES = 20_000, 1_000
# The rankings that are computed at once, and the seconds that others wait.
_RANKINGS = (1, 5.0)
_TABLES = (1, 1.0)


class _PlaceGauges(Collector):
    """The figures and places of a ranking; no series for a last place that is not known."""

    def __init__(self, ranking: RankingAnswer) -> None:
        self._ranking = ranking

    def collect(self) -> Iterator[Metric]:
        """Yield gauges of the estimates, their bounds, and the places that a key may have."""
        ranking = self._ranking
        for name, text, value in _GAUGES:
            family = GaugeMetricFamily(name, text, labels=_LABELS)
            for row in ranking.places:
                number = value(row)
                if number is not None:
                    of = ranking.topology, ranking.by, ranking.order, str(row.place), row.key
                    family.add_metric(of, number)
            yield family


_LABELS = ("topology", "ranking", "order", "place", "key")
_GAUGES: tuple[tuple[str, str, Callable[[RankedKey], float | None]], ...] = (
    ("slidestat_ranking", "The estimate.", lambda row: row.figure.estimate),
    (
        "slidestat_ranking_lower",
        "The exact figure is not below this.",
        lambda row: row.figure.lower,
    ),
    (
        "slidestat_ranking_upper",
        "The exact figure is not above this.",
        lambda row: row.figure.upper,
    ),
    (
        "slidestat_ranking_first_place",
        "The key is not before this place.",
        lambda row: row.first_place,
    ),
    (
        "slidestat_ranking_last_place",
        "The key is not behind this place.",
        lambda row: row.last_place,
    ),
)


class RankingAnswers:
    """The handlers that rank keys."""

    def __init__(self, here: ThisWorker, elsewhere: OtherWorkers) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._rankings = Turns(*_RANKINGS)
        self._tables = Turns(*_TABLES)

    async def show_ranking(self, request: web.Request) -> web.Response:
        """Rank the whole group's keys by a figure; for another worker, return what decides here."""
        live = self._here.topology(request)
        asked = checked(lambda query: ranking_query(live.topology, query), request)
        if self._here.is_for_here(request):
            return json_response(await self._part(live, asked, live.epoch))
        return json_response(await self._ranking(live, asked))

    async def show_table(self, request: web.Request) -> web.Response:
        """Return figures of some keys of the group; for another worker, of those that are here."""
        live = self._here.topology(request)
        is_for_here = self._here.is_for_here(request)
        with parsing():
            keys, query = keys_in_query(request.rel_url.raw_query_string)
            asked = table_query(live.topology, query, len(keys))

        def read(view: View) -> tuple[KeySlice, Firing]:
            # A referee, which has others, is refused before.
            partition = cast(PartitionView, view)
            fires = {alert: found.intersection(keys) for alert, found in partition.firing.items()}
            return KeySlice.of(partition, keys), fires

        async with self._tables.one():
            epoch, found = await self._here.see(live, read)
            rows = [row for part in found for row in asked.rows(*part)]
        if not is_for_here:
            rows += await self._elsewhere.rows(live, request, epoch)
        order = {key: place for place, key in enumerate(keys)}
        rows.sort(key=lambda row: order[row.key])
        for key, places in groupby(rows, lambda row: row.key):
            partitions = [f"partition {row.source_partition}" for row in places]
            if len(partitions) > 1:
                raise in_two_places(key, partitions)
        return json_response(KeyTable(live.topology.name, rows))

    async def ranking_metrics(self, request: web.Request) -> web.Response:
        """Answer Prometheus with a ranking of the whole group."""
        live = self._here.topology(request)
        asked = checked(lambda query: ranking_query(live.topology, query, MOST_SERIES), request)
        return exposition(request, _PlaceGauges(await self._ranking(live, asked)))

    async def _ranking(self, live: LiveTopology, asked: LiveRanking) -> RankingAnswer:
        epoch = live.epoch
        others = self._elsewhere.ranking_parts(live, urlencode(asked.asked), epoch)
        here, others_parts = await asyncio.gather(self._part(live, asked, epoch), others)
        parts = [here, *others_parts]
        for key, partitions in keys_in_two_places(it for part in parts for it in part.contenders):
            raise in_two_places(key, [f"partition {partition}" for partition in partitions])
        return asked.answer(asked.joined(parts))

    async def _part(self, live: LiveTopology, asked: LiveRanking, epoch: int) -> RankingPart:
        """Return what decides of the keys that are here."""
        try:
            async with self._rankings.one(), asyncio.timeout(RANKING_S):
                return await self._looked_at(live, asked, epoch)
        except TimeoutError:
            raise HttpError(
                503,
                f"The worker has not looked at all of its keys within {RANKING_S:.0f} s.",
                "Spread the partitions over more workers, or ask when there is less to read.",
                {"Retry-After": "10"},
            ) from None

    async def _looked_at(self, live: LiveTopology, asked: LiveRanking, epoch: int) -> RankingPart:
        found = RankingPart(0, [])
        _, partitions = await self._here.see(live, lambda view: view.partition)
        for partition in partitions:
            after = ""
            while names := await self._seen(live, epoch, partition, _names_after(after)):
                after = names[-1]
                for start in range(0, len(names), _STATES):
                    some = names[start : start + _STATES]
                    states = await self._seen(live, epoch, partition, _states_of(some))
                    found = asked.joined((found, asked.part(states)))
                    # Lets other questions come between.
                    await asyncio.sleep(0)
        return found

    async def _seen(
        self, live: LiveTopology, epoch: int, partition: int, read: Callable[[View], Seen]
    ) -> Seen:
        """Read a partition that is here in an epoch."""
        _, found = await self._here.see(
            live, lambda view: read(view) if view.partition == partition else None
        )
        require_same(live, epoch)
        seen = next((it for it in found if it is not None), None)
        if seen is None:
            raise unavailable(f"Partition {partition} of {live.topology.name!r} has gone.")
        return seen


def _names_after(after: str) -> Callable[[View], list[str]]:
    return lambda view: list(view.keys("", after, _NAMES))


def _states_of(keys: list[str]) -> Callable[[View], KeySlice]:
    def read(view: View) -> KeySlice:
        # A referee, which has others, is refused before.
        return KeySlice.of(cast(PartitionView, view), keys)

    return read
