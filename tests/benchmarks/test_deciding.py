"""What the answers to the deciding question are worth is found from the events alone."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks.deciding.comparison import Part, live_cells, write
from benchmarks.deciding.judged_requests import Answer, Answered, Errors, Reader, errors_of, judge
from benchmarks.deciding.live import Lived, OtherWindow, Record, Restart, Ticks, latest
from benchmarks.deciding.requests import ExactRequests, Requests, draw_requests
from slidestat.errors import SlidestatError

_REQUESTS = draw_requests(3_000, 5, 2, 2_000.0)
_TICK_MS, _WINDOW_MS = 10_000, 3_600_000


def _answers(requests: Requests) -> dict[tuple[int, int], Answer]:
    """Return the exact answer of each key at each tick after an event of it, by a plain loop."""
    found = {}
    rows = list(
        zip(requests.keys.tolist(), requests.times.tolist(), range(len(requests)), strict=True)
    )
    for key, time_ms, _ in rows:
        end = (time_ms // _TICK_MS + 1) * _TICK_MS
        if (key, end) in found:
            continue
        inside = [i for of, at, i in rows if of == key and end - _WINDOW_MS <= at < end]
        took = np.sort(requests.cents[inside]) / 100
        quantiles = [float(took[int(np.ceil(q * len(took))) - 1]) for q in (0.5, 0.95, 0.99)]
        paths, counts = np.unique(requests.paths[inside], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:10]
        top = [(f"/p/{paths[i]}", float(counts[i])) for i in order.tolist()]
        users = float(len(set(requests.users[inside].tolist())))
        found[key, end] = Answer(end, (quantiles[0], quantiles[1], quantiles[2]), users, top)
    return found


def _judged(answers: dict[tuple[int, int], Answer]) -> Errors:
    """Judge answers as a peer writes them."""
    exact = ExactRequests(_REQUESTS)
    records = (
        (_REQUESTS.key_text(key).encode(), msgspec.json.encode(answer))
        for (key, _), answer in answers.items()
    )
    return judge(exact, Answered(exact, Reader(_REQUESTS, is_ours=False), records))


def test_exact_answers_have_no_error() -> None:
    errors = _judged(_answers(_REQUESTS))
    assert errors.value == (0, 0, 0)
    assert max(errors.rank) <= 0
    assert (errors.distinct, errors.count, errors.listed) == (0, 0, 1)


def test_errors_are_those_put_in() -> None:
    """Values that are twice as large, a tenth fewer users, no counts and half of the paths."""
    wrong = {
        place: Answer(
            answer.end,
            (answer.quantiles[0] * 2, answer.quantiles[1] * 2, answer.quantiles[2] * 2),
            answer.distinct * 0.9,
            [(path, 0.0) for path, _ in answer.top[: len(answer.top) // 2]],
        )
        for place, answer in _answers(_REQUESTS).items()
    }
    errors = _judged(wrong)
    assert errors.value == (1, 1, 1)
    assert min(errors.rank) > 0
    assert errors.distinct == pytest.approx(0.1)
    assert errors.count > 0
    assert 0.3 < errors.listed < 0.51


def test_a_missing_answer_is_found() -> None:
    answers = _answers(_REQUESTS)
    del answers[min(answers, key=lambda place: place[1])]
    with pytest.raises(SlidestatError, match=re.escape("1 of ")):
        _judged(answers)


def test_a_part_of_requests_has_their_columns() -> None:
    part = _REQUESTS.part(10, 20)
    assert len(part) == 10
    assert part.users.tolist() == _REQUESTS.users[10:20].tolist()
    record = next(_REQUESTS.records(10, 11))
    assert b'"path":"/p/%d"' % _REQUESTS.paths[10] in record.value


def test_due_are_the_ticks_that_follow_events() -> None:
    """As a plain loop finds them, in the order of ticks and keys."""
    newest = [0, 0]
    for key, time_ms in zip(_REQUESTS.keys.tolist(), _REQUESTS.times.tolist(), strict=True):
        newest[key % 2] = max(newest[key % 2], time_ms)
    due = {place for place in _answers(_REQUESTS) if place[1] <= newest[place[0] % 2]}
    found = ExactRequests(_REQUESTS).due(_TICK_MS).tolist()
    assert found == [list(place) for place in sorted(due, key=lambda place: place[::-1])]


def test_the_emission_of_a_worker_is_read_as_an_answer() -> None:
    def figure(statistic: str, estimate: float, **more: object) -> dict[str, object]:
        of = {"statistic": statistic, "window_ms": _WINDOW_MS, "estimate": estimate}
        return {**of, "lower": 0.0, "upper": 9.0, **more}

    emission = {
        "key": "key-000003",
        "window_end_ms": 50_000,
        "figures": [
            figure("quantile_took", 1.0, quantile=0.5),
            figure("quantile_took", 2.0, quantile=0.95),
            figure("quantile_took", 3.0, quantile=0.99),
            figure("distinct_user", 4.0),
            figure("top_path", 5.0, item="/p/7"),
        ],
    }
    reader, value = Reader(_REQUESTS, is_ours=True), msgspec.json.encode(emission)
    assert reader.place(b"any", value) == (3, 50_000)
    answer = reader.answer(value)
    assert (answer.end, answer.quantiles, answer.distinct) == (50_000, (1, 2, 3), 4)
    assert answer.top == [("/p/7", 5.0)]
    assert len(answer.figures) == 5


def test_a_value_between_two_has_the_rank_of_either() -> None:
    """So a value that is right to a hundredth is not off by half of two events."""
    exact = ExactRequests(_REQUESTS)
    (key, end), whole = next(iter(_answers(_REQUESTS).items()))
    nearly = tuple(value * 1.0001 for value in whole.quantiles)
    close = Answer(end, (nearly[0], nearly[1], nearly[2]), whole.distinct, whole.top)
    assert errors_of(exact, key, end - _WINDOW_MS, close).rank == (0, 0, 0)


def test_an_answer_without_most_of_its_window_is_not_right() -> None:
    """That of a state which was lost at a restart: of the last minute alone."""
    exact = ExactRequests(_REQUESTS)
    (key, end), whole = max(_answers(_REQUESTS).items(), key=lambda each: each[1].distinct)
    recent = exact.rows(key, end - 60_000, end)
    lost = Answer(end, whole.quantiles, float(len(set(_REQUESTS.users[recent].tolist()))), [])
    events = len(exact.rows(key, end - _WINDOW_MS, end))
    assert errors_of(exact, key, end - _WINDOW_MS, whole).is_right(events)
    assert not errors_of(exact, key, end - _WINDOW_MS, lost).is_right(events)


def test_the_latest_answers_of_a_restart_are_found() -> None:
    """The old process may answer for the first tick; a tick without right answers waits for the
    next one that has them; and without any at the end there is no figure.
    """
    whole = _answers(_REQUESTS)
    exact, reader = ExactRequests(_REQUESTS), Reader(_REQUESTS, is_ours=False)
    ends = np.unique(exact.due(_TICK_MS)[:, 1])
    ends = ends[ends % _TICK_MS == 0]
    first = next(e for e in ends.tolist() if {e + _TICK_MS, e + 2 * _TICK_MS} <= set(ends.tolist()))
    ticks = [first + step * _TICK_MS for step in range(3)]

    def found(late_ms: dict[int, int]) -> float | None:
        records = [
            Record(key, msgspec.json.encode(answer), end, end + 5_000 + late_ms[end])
            for (key, end), answer in whole.items()
            if end in late_ms
        ]
        restart = Restart(0.0, ticks[0], ticks[2], 0.0)
        return latest(Ticks(exact, reader, records), restart, 5_000)

    assert found({ticks[0]: 200, ticks[1]: 7_000, ticks[2]: 300}) == 7
    assert found({ticks[0]: 200, ticks[2]: 300}) == 10.3
    assert found({ticks[0]: 200, ticks[1]: 300}) is None


_ERRORS = Errors((0.0, 0.0, 0.0), (0.01, 0.02, 0.03), 0.04, 0.0, 1.0)


def test_what_did_not_come_is_said() -> None:
    cells = live_cells(Lived(np.arange(101), 3.25, None, None))
    assert list(cells.values()) == ["50, 99", "3.2", "no right answer"]


@pytest.mark.parametrize(
    ("is_deployed", "said"), [(False, "1500.0 ms for one key"), (True, "1.5 s for all keys")]
)
def test_another_window_is_of_one_key_or_of_all(is_deployed: bool, said: str) -> None:
    other = OtherWindow(1.5, 0.25, _ERRORS, is_deployed=is_deployed)
    cells = list(live_cells(Lived(np.arange(101), 1.0, 1.0, other)).values())
    assert cells[3].startswith(said)
    assert cells[5:] == ["1.0%, 2.0%, 3.0%", "4.0%"]


def _part(pace: int, **systems: str) -> dict[Part, dict[str, object]]:
    asked = {"keys": 1, "minutes": 1.0, "pace": pace, "seconds": 60}
    return {Part.LIVE: {**asked, "systems": systems, "cannot": {}}}


def test_a_part_is_written_beside_the_other_one_and_beside_its_systems(tmp_path: Path) -> None:
    """Systems may be measured in turn, in runs of their own, but at one pace."""
    file = tmp_path / "deciding.json"
    write(file, {Part.SPEED: {"systems": {"a": "1"}, "cannot": {}}})
    write(file, _part(140, a="2", b="3"))
    write(file, _part(140, b="4"))
    found = msgspec.json.decode(file.read_bytes())
    assert found["speed"]["systems"] == {"a": "1"}
    assert found["live"]["systems"] == {"a": "2", "b": "4"}
    write(file, _part(10, b="5"))
    assert msgspec.json.decode(file.read_bytes())["live"]["systems"] == {"b": "5"}
