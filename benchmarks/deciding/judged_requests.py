"""What the answers to the deciding question are worth, compared with the requests themselves."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from benchmarks.deciding.requests import ExactRequests, Requests
from benchmarks.harness.figures import Figure, violation_of
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers

EVERY_MS, WINDOW_MS = 10_000, 3_600_000
QUANTILES = (0.5, 0.95, 0.99)
_LARGEST = 10
_SAMPLE = 500
# The due answers that are kept: a system that comes to a twentieth of them has its sample too.
_KEPT = 20 * _SAMPLE
# An answer is right within these: of distinct users, and of a quantile's rank; beside them, two
# events. All that is declared or promised lies within.
_RIGHT_DISTINCT, _RIGHT_RANK = 0.15, 0.06


class Answer(msgspec.Struct, gc=False):
    """The figures of a key at a tick; `figures` are those of slidestat, with their bounds."""

    end: int
    quantiles: tuple[float, float, float]
    distinct: float
    top: list[tuple[str, float]]
    figures: list[Figure] = []


class _Figure(Figure, gc=False):
    item: str | None = None


class _Head(msgspec.Struct, gc=False):
    end: int


class _OurHead(msgspec.Struct, gc=False):
    key: str
    window_end_ms: int


class _Emission(_OurHead, gc=False):
    figures: list[_Figure]


class Reader:
    """Decodes what a system wrote; of slidestat's emissions, if `is_ours`."""

    def __init__(self, requests: Requests, *, is_ours: bool) -> None:
        self._requests = requests
        self._head: Callable[[bytes], _OurHead | _Head] = (
            msgspec.json.Decoder(_OurHead).decode if is_ours else msgspec.json.Decoder(_Head).decode
        )
        self._decode: Callable[[bytes], _Emission | Answer] = (
            msgspec.json.Decoder(_Emission).decode
            if is_ours
            else msgspec.json.Decoder(Answer).decode
        )

    def place(self, key: bytes, value: bytes) -> tuple[int, int]:
        """Return the key and the tick of a record."""
        head = self._head(value)
        if isinstance(head, _OurHead):
            return self._requests.key_number(head.key), head.window_end_ms
        return self._requests.key_number(key.decode()), head.end

    def answer(self, value: bytes) -> Answer:
        """Return all that a record has."""
        found = self._decode(value)
        return found if isinstance(found, Answer) else _of_ours(found)


def _of_ours(emission: _Emission) -> Answer:
    quantiles = [f.estimate or 0.0 for f in emission.figures if f.quantile is not None]
    distinct = [f.estimate or 0.0 for f in emission.figures if f.statistic == "distinct_user"]
    return Answer(
        emission.window_end_ms,
        (quantiles[0], quantiles[1], quantiles[2]),
        distinct[0],
        [(f.item, f.estimate or 0.0) for f in emission.figures if f.item is not None],
        list(emission.figures),
    )


class Answered:
    """The answers on a topic: where there is one, and of a sample of those that are due, all of it.

    Of several answers of a key at a tick the last one counts.
    """

    def __init__(
        self, exact: ExactRequests, reader: Reader, records: Iterable[tuple[bytes, bytes]]
    ) -> None:
        self.due = exact.due(EVERY_MS)
        rng = np.random.default_rng(0)
        # In the order of this draw: the first of them that come are the sample.
        keys, ends = self.due[rng.permutation(len(self.due))[:_KEPT]].T.tolist()
        self.sample = dict[tuple[int, int], Answer | None].fromkeys(zip(keys, ends, strict=True))
        places = array("q")
        for key, value in records:
            place = reader.place(key, value)
            places.extend(place)
            if place in self.sample:
                self.sample[place] = reader.answer(value)
        self.places: Integers = np.frombuffer(places, np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class Errors:
    """The worst errors of a sample of answers: of a quantile's value, as a share of it, and of its
    rank, as a share of the events; of distinct users, as a share; of a path's count, as a share of
    the events; and the share of the paths of the true top ten that were listed, over all answers.
    """

    value: tuple[float, ...]
    rank: tuple[float, ...]
    distinct: float
    count: float
    listed: float

    def is_right(self, events: int) -> bool:
        """Whether an answer with these errors, of so many events, is that of its window."""
        slack = 2 / events
        ranks_hold = max(self.rank) <= _RIGHT_RANK + slack
        return ranks_hold and self.distinct <= _RIGHT_DISTINCT + slack


def judge(exact: ExactRequests, answered: Answered) -> Errors:
    """Compare a sample of answers with the events.

    Raises SlidestatError if an answer is missing of those due before the newest one of their
    partition, or if bounds of slidestat do not hold.
    """
    partitions, due, places = exact.requests.partitions, answered.due, answered.places
    newest = np.zeros(partitions, np.int64)
    np.maximum.at(newest, places[:, 0] % partitions, places[:, 1])
    due = due[due[:, 1] < newest[due[:, 0] % partitions]]
    if not len(due):
        raise SlidestatError("No answer came in its time.", "Give it more: --minutes.")
    missing = np.setdiff1d(_codes(exact, due), _codes(exact, places))
    if len(missing):
        end, key = divmod(int(missing[0]), exact.requests.key_count)
        raise SlidestatError(
            f"{len(missing)} of {len(due)} answers are missing, such as that of key {key} at"
            f" {end * EVERY_MS}.",
            "Report it.",
        )
    found = [
        errors_of(exact, key, end - WINDOW_MS, answer)
        for (key, end), answer in answered.sample.items()
        if answer is not None and end < newest[key % partitions]
    ][:_SAMPLE]
    return worst_of(found)


def _codes(exact: ExactRequests, places: Integers) -> Integers:
    return places[:, 1] // EVERY_MS * exact.requests.key_count + places[:, 0]


def worst_of(found: list[Errors]) -> Errors:
    """Return the worst of each error; of the paths listed, the share of all."""
    if not found:
        raise SlidestatError("None of the sampled answers came.", "Give it more: --minutes.")
    return Errors(
        tuple(np.max([each.value for each in found], axis=0).tolist()),
        tuple(np.max([each.rank for each in found], axis=0).tolist()),
        max(each.distinct for each in found),
        max(each.count for each in found),
        float(np.mean([each.listed for each in found])),
    )


def errors_of(exact: ExactRequests, key: int, start: int, answer: Answer) -> Errors:
    """Compare the answer for a key's window from `start` to the answer's end.

    Raises SlidestatError if bounds of slidestat do not hold.
    """
    requests = exact.requests
    rows = exact.rows(key, start, answer.end)
    cents = np.sort(requests.cents[rows])
    took = cents / 100
    for figure in answer.figures:
        if figure.quantile is not None and (violation := violation_of(figure, cents)):
            raise SlidestatError(f"A bound does not hold: {figure}: {violation}.", "Report it.")
    values, ranks = [], []
    for quantile, estimate in zip(QUANTILES, answer.quantiles, strict=True):
        true = took[max(0, int(np.ceil(quantile * len(took))) - 1)]
        values.append(float(abs(estimate - true) / true))
        low, high = (int(np.searchsorted(took, estimate, side)) for side in ("left", "right"))
        # Between two values it stands for either: of few events, the next is far off by rank.
        first, last = (low, high + 1) if low == high else (low + 1, high)
        rank = max(1, int(np.ceil(quantile * len(took))))
        ranks.append(max(first - rank, rank - last, 0) / len(took))
    users = len(np.unique(requests.users[rows]))
    counts = np.bincount(requests.paths[rows])
    wanted = min(_LARGEST, int((counts > 0).sum()))
    count = 0.0
    for path, estimate in answer.top:
        number = int(path.removeprefix("/p/"))
        true_count = counts[number] if number < len(counts) else 0
        count = max(count, float(abs(estimate - true_count) / len(rows)))
    # Paths that are equally frequent may come in any order.
    least = np.sort(counts)[-wanted]
    named = [int(path.removeprefix("/p/")) for path, _ in answer.top[:_LARGEST]]
    listed = sum(number < len(counts) and bool(counts[number] >= least) for number in named)
    distinct = abs(answer.distinct - users) / users
    return Errors(tuple(values), tuple(ranks), distinct, count, listed / wanted)
