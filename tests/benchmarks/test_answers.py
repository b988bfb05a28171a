"""The benchmarks' check of peers: a peer that is right passes, one that is not does not."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks.harness import answers
from benchmarks.harness.answers import Answers
from benchmarks.harness.bench import Run
from benchmarks.harness.cases import CaseName
from benchmarks.harness.exact import Exact
from benchmarks.harness.measure import Measurement
from benchmarks.harness.results import Outcome, as_data, write
from benchmarks.harness.systems import BARE, OURS
from benchmarks.harness.workload import KeyDistribution, Workload, draw
from slidestat.errors import SlidestatError

MINUTE_MS = 60_000
Records = list[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def workload() -> Workload:
    return draw(3_000, 5, KeyDistribution.ZIPF, 2, mean_gap_ms=100.0)


def windows(workload: Workload, starts: set[tuple[int, int]], length: int) -> Records:
    """Right answers for windows, given as key and start."""
    exact = Exact(workload)
    keys, begins = map(np.array, zip(*sorted(starts), strict=True))
    counts, _ = exact.of(keys, begins, begins + length)
    return [
        (workload.key_text(key).encode(), b'{"start":%d,"end":0,"value":%d}' % (start, count))
        for key, start, count in zip(keys.tolist(), begins.tolist(), counts.tolist(), strict=True)
    ]


def tumbling(workload: Workload) -> Records:
    starts = workload.times // MINUTE_MS * MINUTE_MS
    return windows(
        workload, set(zip(workload.keys.tolist(), starts.tolist(), strict=True)), MINUTE_MS
    )


def sliding(workload: Workload) -> Records:
    starts = workload.times - MINUTE_MS
    pairs = set(zip(workload.keys.tolist(), starts.tolist(), strict=True))
    return windows(workload, pairs, MINUTE_MS + 1)


def check(
    monkeypatch: pytest.MonkeyPatch, workload: Workload, what: Answers, records: Records
) -> int:
    monkeypatch.setattr(answers, "read_topic", lambda *_: records)
    return what.check(workload, "", "group")


def test_exact_windows_pass(monkeypatch: pytest.MonkeyPatch, workload: Workload) -> None:
    """Right windows pass, tumbling and sliding; of a window that was updated, the last answer."""
    right = tumbling(workload)
    early = [(right[0][0], b'{"start":%d,"value":1}' % (workload.times[0] // 60_000 * 60_000))]
    assert check(monkeypatch, workload, Answers.updated("tumbling"), early + right) == len(right)
    right = sliding(workload)
    assert check(monkeypatch, workload, Answers.updated("sliding"), right) == len(right)


def test_a_watermark_is_that_of_the_partition_that_has_come_least_far(
    monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    """A system that was stopped had read one partition further than the other."""
    behind = int(workload.times[-1]) // MINUTE_MS * MINUTE_MS
    is_read = (workload.keys % 2 == 0) | (workload.times < behind)
    keys, times, cents = workload.keys[is_read], workload.times[is_read], workload.cents[is_read]
    part = replace(workload, keys=keys, times=times, cents=cents)
    waited = Answers.waited("tumbling", lost_when_stopped=False)
    starts = part.times // MINUTE_MS * MINUTE_MS
    due = starts + 2 * MINUTE_MS < behind
    pairs = set(zip(part.keys[due].tolist(), starts[due].tolist(), strict=True))
    right = windows(part, pairs, MINUTE_MS)
    assert check(monkeypatch, part, waited, right) == len(right)
    with pytest.raises(SlidestatError, match=r"1 of \d+ windows .* are missing"):
        check(monkeypatch, part, waited, right[1:])


def test_a_window_waits_for_a_later_event_of_its_key(
    monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    """Of a system that keeps a clock for each key, as Bytewax does."""
    half = int(workload.times[len(workload.times) // 2]) // MINUTE_MS * MINUTE_MS
    is_sent = (workload.keys != 0) | (workload.times < half)
    keys, times, cents = workload.keys[is_sent], workload.times[is_sent], workload.cents[is_sent]
    part = replace(workload, keys=keys, times=times, cents=cents)
    starts = part.times // MINUTE_MS * MINUTE_MS
    is_last = (part.keys == 0) & (starts >= half - 2 * MINUTE_MS)
    there = ~is_last
    pairs = set(zip(part.keys[there].tolist(), starts[there].tolist(), strict=True))
    right = windows(part, pairs, MINUTE_MS)
    waited = Answers.waited("tumbling", lost_when_stopped=False)
    assert check(monkeypatch, part, waited, right) == len(right)


def test_a_wrong_count_is_no_answer(monkeypatch: pytest.MonkeyPatch, workload: Workload) -> None:
    """One count that is one too high, or one event that a sliding window's end leaves out."""
    records = tumbling(workload)
    key, value = records[3]
    records[3] = (key, value.replace(b'"value":', b'"value":1'))
    with pytest.raises(SlidestatError, match=r"^The speed is worth nothing: 1 of \d+ windows"):
        check(monkeypatch, workload, Answers.updated("tumbling"), records)
    starts = workload.times - MINUTE_MS
    pairs = set(zip(workload.keys.tolist(), starts.tolist(), strict=True))
    short = windows(workload, pairs, MINUTE_MS)
    with pytest.raises(SlidestatError, match="are wrong"):
        check(monkeypatch, workload, Answers.updated("sliding"), short)


def test_a_missing_window_is_no_answer(monkeypatch: pytest.MonkeyPatch, workload: Workload) -> None:
    """Without one window the peer has lost events; those still open need not be there."""
    records = tumbling(workload)
    with pytest.raises(SlidestatError, match=r"1 of \d+ windows of \S+ are missing"):
        check(monkeypatch, workload, Answers.updated("tumbling"), records[1:])
    newest = dict(records)
    closed = [record for record in records if newest[record[0]] != record[1]]
    assert check(monkeypatch, workload, Answers.final("tumbling"), closed) == len(closed)
    with pytest.raises(SlidestatError, match="missing"):
        check(monkeypatch, workload, Answers.final("tumbling"), closed[1:])


def run(events_per_s: float) -> Run:
    measurement = Measurement(1_000, 1_000 / events_per_s, 1.0, None, 0.0, 2**20)
    return Run(measurement, 10, 0.0, 0.0, 0, 0, 1_000, 10)


def test_ratios_are_medians_of_rounds_and_cannot_is_a_value(tmp_path: Path) -> None:
    """Ours by theirs, round by round; a system that cannot stands among them with why."""
    outcome = Outcome(
        [
            {OURS: run(100), BARE: run(50)},
            {OURS: run(90), BARE: run(30)},
            {OURS: run(80), BARE: run(80)},
        ]
    )
    outcome.fail("quix_sliding", "no wheel for this machine")
    data = as_data(outcome, {})
    assert data["ratios"] == {BARE: 2.0, "quix_sliding": "cannot: no wheel for this machine"}
    file = tmp_path / "latest.json"
    write(file, {CaseName.SUMS: data}, {})
    written = msgspec.json.decode(file.read_bytes())
    assert written["ratios"] == data["ratios"]
    spread = written["workloads"]["sums"]["systems"][OURS]["events_per_s"]
    assert (spread["least"], spread["median"], spread["most"]) == (80, 90, 100)


def test_a_system_that_fails_once_is_in_no_round() -> None:
    """What it did in earlier rounds is not set against ours."""
    outcome = Outcome([{OURS: run(100), BARE: run(50)}, {OURS: run(100)}])
    outcome.fail(BARE, "died")
    assert outcome.ratios("events_per_s") == {}
