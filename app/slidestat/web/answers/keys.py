"""Answer for topologies: what they are, and how their workers are; and for keys: which there are,
their figures, and their past emissions.
"""

import time
from collections.abc import Callable, Container, Iterator, Sequence
from heapq import merge
from itertools import accumulate, groupby, islice

import msgspec
from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from slidestat.declare.statistics.base import ListStatistic
from slidestat.live.live_ranking import figures_to_rank_by
from slidestat.live.live_topology import LiveTopology, View
from slidestat.repartition.moved_from import in_all
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import (
    KeyAnswer,
    KeyPage,
    RepartitionStatus,
    SourceLag,
    StatisticDescription,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
    ValueRank,
    WorkerDescription,
    WorkerStatus,
)
from slidestat.schemas.sequence import SequenceKeyAnswer
from slidestat.text import short, window_text
from slidestat.web.answers import parameters
from slidestat.web.answers.history import History
from slidestat.web.answers.workers import (
    OtherWorkers,
    ThisWorker,
    answer_of,
    checked,
    in_two_places,
)
from slidestat.web.errors import HttpError, json_response, parsing
from slidestat.web.metrics import exposition
from slidestat.web.peers import Peers
from slidestat.web.turns import Turns

# The figures of chosen keys as gauges for Prometheus: what a scrape asks for, and no more.
#
# The scrape names the keys, as its configuration has them, so their number is up to its owner; a
# worker answers for those that it has.

_LABELS = ("topology", "key", "statistic", "window", "quantile", "at_least", "below", "item")
# With the name and this label PromQL's histogram_quantile takes gauges for a histogram.
_BUCKET_LABELS = ("topology", "key", "statistic", "window", "le")


class FigureGauges(Collector):
    """The gauges of answers; none of the statistics in `lists`, which list other items from time to
    time.
    """

    def __init__(self, answers: Sequence[KeyAnswer], lists: Container[str]) -> None:
        self._answers = answers
        self._lists = lists

    def collect(self) -> Iterator[Metric]:
        """Yield gauges of the estimates and their bounds, and of the window ends."""
        for name, text, field in (
            ("slidestat_figure", "The estimate.", "estimate"),
            ("slidestat_figure_lower", "The exact figure is not below this.", "lower"),
            ("slidestat_figure_upper", "The exact figure is not above this.", "upper"),
        ):
            family = GaugeMetricFamily(name, text, labels=_LABELS)
            for answer, figure in self._gauged():
                value = getattr(figure, field)
                if value is not None:
                    family.add_metric(_labels(answer, figure), value)
            yield family
        if any(answer.ranks for answer in self._answers):
            yield from self._buckets()
        end = GaugeMetricFamily(
            "slidestat_figure_window_end_timestamp_seconds",
            "Event time at which the windows end.",
            labels=("topology", "key"),
        )
        end_number = GaugeMetricFamily(
            "slidestat_figure_window_end_seq",
            "First number of the sequence after the windows.",
            labels=("topology", "key"),
        )
        for answer in self._answers:
            of_key = answer.topology, answer.key
            if isinstance(answer, SequenceKeyAnswer):
                end_number.add_metric(of_key, answer.window_end_ms)
            else:
                end.add_metric(of_key, answer.window_end_ms / 1000)
        yield end
        if end_number.samples:
            yield end_number

    def _buckets(self) -> Iterator[Metric]:
        """Yield gauges of how many events of a window have at most each of the values asked about,
        and how many there are. As the exact ones, they rise with the values.
        """
        families = [
            GaugeMetricFamily(f"slidestat_figure_bucket{suffix}", text, labels=_BUCKET_LABELS)
            for suffix, text in (
                ("", "The estimate of how many events have at most this value."),
                ("_lower", "Not fewer events have at most this value."),
                ("_upper", "Not more events have at most this value."),
            )
        ]
        for answer in self._answers:
            known = [rank for rank in answer.ranks or () if rank.counted_from_ms is None]
            for (statistic, window), found in groupby(
                known, lambda rank: (rank.statistic, window_text(rank))
            ):
                ranks = sorted(found, key=lambda rank: rank.value)
                names = [*map(floatToGoString, (rank.value for rank in ranks)), "+Inf"]
                for family, numbers in zip(families, _rising(ranks), strict=True):
                    for le, number in zip(names, numbers, strict=True):
                        own = answer.topology, answer.key, statistic, window
                        family.add_metric((*own, le), number)
        yield from families

    def _gauged(self) -> Iterator[tuple[KeyAnswer, Figure]]:
        for answer in self._answers:
            for figure in answer.figures:
                # Bounds are of all of a window: of what was added later there is no gauge yet.
                if figure.statistic not in self._lists and figure.counted_from_ms is None:
                    yield answer, figure


def _rising(ranks: Sequence[ValueRank]) -> tuple[list[float], list[float], list[float]]:
    """Return estimates, lowers and uppers of how many events have at most each of some rising
    values, and at last of all events.
    """
    last = ranks[-1]
    estimates, lowers, uppers = (
        [
            *(getattr(rank.at_most, field) or 0.0 for rank in ranks),
            (getattr(last.at_most, field) or 0.0) + (getattr(last.more_than, field) or 0.0),
        ]
        for field in ("estimate", "lower", "upper")
    )
    return (
        list(accumulate(estimates, max)),
        list(accumulate(lowers, max)),
        list(accumulate(reversed(uppers), min))[::-1],
    )


def _labels(answer: KeyAnswer, figure: Figure) -> tuple[str, ...]:
    limits = (figure.quantile, figure.at_least, figure.below)
    numbers = ("" if number is None else short(number) for number in limits)
    own = answer.topology, answer.key, figure.statistic, window_text(figure)
    return *own, *numbers, figure.item or ""


# Questions that are served at once, and the seconds that others wait: so answers come soon.
_QUESTIONS = (2, 0.05)
_HISTORIES = (1, 5.0)


class KeyAnswers:
    """The handlers that name keys."""

    def __init__(self, here: ThisWorker, elsewhere: OtherWorkers, history: History) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._history = history
        self._questions = Turns(*_QUESTIONS)
        self._histories = Turns(*_HISTORIES)

    async def list_keys(self, request: web.Request) -> web.Response:
        """Return a page of the keys of all workers."""
        live = self._here.topology(request)
        asked = checked(lambda query: parameters.page_query(live.topology, query), request)
        prefix, after, limit, firing = asked
        is_for_here = self._here.is_for_here(request)

        def read(view: View) -> list[str]:
            # A further key shows whether another page follows.
            return list(view.keys(prefix, after, limit + 1, firing))

        async with self._questions.one():
            epoch, pages = await self._here.see(live, read)
        has_more = False
        if not is_for_here:
            for page in await self._elsewhere.pages(live, request, epoch):
                pages.append(page.keys)
                has_more = has_more or page.next_after is not None
        keys = list(islice((key for key, _ in groupby(merge(*pages))), limit + 1))
        has_more = has_more or len(keys) > limit
        keys = keys[:limit]
        return json_response(KeyPage(live.topology.name, keys, keys[-1] if has_more else None))

    async def show_key(self, request: web.Request) -> web.Response:
        """Return the figures of a key, wherever in the group it is."""
        live = self._here.topology(request)
        is_for_here = self._here.is_for_here(request)
        async with self._questions.one():
            with parsing():
                key, query = _key_of(request, place=-1)
                question = parameters.key_query(live.topology, query)
            epoch, found = await self._here.see(live, lambda view: view.alone(key))
            held = [view for view in found if view is not None]
            if len(held) > 1:
                raise in_two_places(key, [f"partition {view.partition}" for view in held])
            if held:
                answer = question.answer(held[0], key)
                if answer is not None:
                    return json_response(answer)
        return await self._elsewhere.answered(live, request, key, epoch, is_for_here=is_for_here)

    async def figure_metrics(self, request: web.Request) -> web.Response:
        """Answer Prometheus with the figures of the requested keys that are here."""
        live = self._here.topology(request)
        with parsing():
            keys, query = parameters.keys_in_query(request.rel_url.raw_query_string)
            # A gauge is as of now; Prometheus has the past of what it scrapes.
            question = parameters.key_query(live.topology, query, can_be_past=False)
        async with self._questions.one():
            _, views = await self._here.see(live, lambda view: [view.alone(key) for key in keys])
            found = [
                question.answer(view, key)
                for of_partition in views
                for key, view in zip(keys, of_partition, strict=True)
                if view is not None
            ]
        topology = live.topology.answering
        statistics = zip(topology.labels, topology.statistics, strict=True)
        lists = {label for label, known in statistics if isinstance(known, ListStatistic)}
        answers = [answer for answer in found if answer is not None]
        return exposition(request, FigureGauges(answers, lists))

    async def show_history(self, request: web.Request) -> web.Response:
        """Answer with the newest emissions of a key on the output topic."""
        live = self._here.topology(request)
        with parsing():
            key, query = _key_of(request, place=-2)
            parameters.no_query(query)
        is_for_here = self._here.is_for_here(request)
        async with self._questions.one():
            epoch, found = await self._here.see(
                live, lambda view: view.partition if view.has(key) else None
            )
        held = [partition for partition in found if partition is not None]
        if len(held) > 1:
            raise in_two_places(key, [f"partition {partition}" for partition in held])
        if held:
            async with self._histories.one():
                return json_response(await self._history(live.topology, held[0], key))
        return await self._elsewhere.answered(live, request, key, epoch, is_for_here=is_for_here)


def _key_of(request: web.Request, place: int) -> tuple[str, str]:
    """Return the key of a request, from a place in the path or the query, and the query's rest.

    As it was sent: aiohttp leaves escapes that are no UTF-8 as they are.
    """
    query = request.rel_url.raw_query_string
    if "key" not in request.match_info:
        return parameters.key_in_query(query)
    return parameters.key_of(request.rel_url.raw_path.split("/")[place]), query


_status_decoder = msgspec.json.Decoder(TopologyStatus)


class TopologyAnswers:
    """The handlers that name a topology alone."""

    def __init__(
        self,
        here: ThisWorker,
        peers: Peers,
        url: str,
        remaining: Callable[[], int],
        watchers: Turns,
    ) -> None:
        """Create the answers; this worker answers at `url`, and `remaining` returns the number of
        records still to be restored; `watchers` limits the requests for a status at once.
        """
        self._here = here
        self._peers = peers
        self._url = url
        self._remaining = remaining
        self._watchers = watchers

    async def list_topologies(self, request: web.Request) -> web.Response:
        """Return the topologies of this worker."""
        checked(parameters.no_query, request)
        lives = [self._here.topologies[name] for name in sorted(self._here.topologies)]
        return json_response(TopologyList([self._describe(live) for live in lives]))

    async def show_topology(self, request: web.Request) -> web.Response:
        live = self._here.topology(request)
        checked(parameters.no_query, request)
        return json_response(self._describe(live))

    async def show_status(self, request: web.Request) -> web.Response:
        """Return the status of a topology's workers, also those that cannot be reached."""
        live = self._here.topology(request)
        checked(parameters.no_query, request)
        async with self._watchers.one():
            workers = [await self._here.looks.take(lambda: self._status(live))]
        if not self._here.is_for_here(request):
            for reply in await self._peers.ask(
                live.topology.events_topic, request.rel_url.raw_path_qs
            ):
                try:
                    workers += answer_of(reply, _status_decoder).workers
                except HttpError:
                    workers.append(WorkerStatus(reply.worker.url, "unreachable", 0, []))
        workers.sort(key=lambda worker: worker.url)
        return json_response(TopologyStatus(live.topology.name, int(time.time() * 1000), workers))

    def _status(self, live: LiveTopology) -> WorkerStatus:
        if not live.is_ready:
            return WorkerStatus(self._url, "restoring", self._remaining(), [])
        behind = live.held.behind()
        moves: RepartitionStatus | msgspec.UnsetType = msgspec.UNSET
        if behind is not None:
            now, moved = time.time(), in_all(behind.values())
            sources = {it: SourceLag(one.records, one.seconds(now)) for it, one in behind.items()}
            named = sources if len(sources) > 1 else msgspec.UNSET
            moves = RepartitionStatus(moved.records, moved.seconds(now), named)
        return WorkerStatus(self._url, "ready", 0, live.status(), live.held.firing(), moves)

    def _describe(self, live: LiveTopology) -> TopologyDescription:
        declared, topology = live.topology, live.topology.answering
        return TopologyDescription(
            name=declared.name,
            source=declared.events_topic,
            output=declared.output_topic,
            late_topic=declared.late_topic,
            dead_letter_topic=declared.dead_letter_topic,
            table=declared.table_name,
            span=topology.span,
            span_ms=None if topology.windows_of_events else topology.span_length.length,
            span_events=topology.span_length.length if topology.windows_of_events else None,
            windows=list(topology.windows or (topology.span,)),
            every=topology.every,
            every_ms=None if topology.is_sequence or topology.every_events else topology.every_ms,
            every_seq=topology.every_ms if topology.is_sequence else None,
            lateness=topology.lateness,
            statistics=[
                StatisticDescription(label, statistic.kind)
                for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            ],
            figures=list(figures_to_rank_by(declared)),
            workers=[
                WorkerDescription(worker.url, list(worker.partitions))
                for worker in self._peers.workers(declared.events_topic)
            ],
            reads=list(declared.read_topics),
            writes=list(declared.written_topics),
        )
