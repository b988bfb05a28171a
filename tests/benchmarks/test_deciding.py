"""What the answers to the deciding question are worth is found from the events alone."""

import re

import numpy as np
import pytest

from benchmarks.deciding import Answer, judge
from benchmarks.requests import Requests, draw_requests
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


def test_exact_answers_have_no_error() -> None:
    errors = judge(_REQUESTS, _answers(_REQUESTS))
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
    errors = judge(_REQUESTS, wrong)
    assert errors.value == (1, 1, 1)
    assert min(errors.rank) > 0
    assert errors.distinct == pytest.approx(0.1)
    assert errors.count > 0
    assert 0.3 < errors.listed < 0.51


def test_a_missing_answer_is_found() -> None:
    answers = _answers(_REQUESTS)
    del answers[min(answers, key=lambda place: place[1])]
    with pytest.raises(SlidestatError, match=re.escape("1 of ")):
        judge(_REQUESTS, answers)


def test_a_part_of_requests_has_their_columns() -> None:
    part = _REQUESTS.part(10, 20)
    assert len(part) == 10
    assert part.users.tolist() == _REQUESTS.users[10:20].tolist()
    record = next(_REQUESTS.records(10, 11))
    assert b'"path":"/p/%d"' % _REQUESTS.paths[10] in record.value
