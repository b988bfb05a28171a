"""Named streams of records: keys, values, times and their disorder, with bad records among them."""

import json
from collections.abc import Callable, Sequence
from random import Random

from tests.engine.model import Record

# Not a multiple of any tick in use.
START_MS = 1_600_000_000_037

KEYS: dict[str, Callable[[Random], str]] = {
    "one": lambda _: "a",
    "few": lambda random: random.choice("abc"),
    "zipf": lambda random: f"k{int(random.paretovariate(0.8))}",
    "mostly new": lambda random: f"{random.random():.6f}",
    "awkward": lambda random: random.choice(
        ["\0", "k", "kk", "\x7f", "ключ", "\U0001f600", '"\\', "a/b", "a" * 256, "\ufffd", " "]
    ),
}

VALUES: dict[str, Callable[[Random], float]] = {
    "ones": lambda _: 1,
    "prices": lambda random: round(random.uniform(0, 100), 2),
    "thirds": lambda random: random.randrange(9) / 3,
    "any doubles": lambda random: random.lognormvariate(0, 4),
    "mostly nothing": lambda random: 3.25 if random.random() < 0.1 else 0.0,
    "far below a unit": lambda random: random.uniform(0, 1e-5),
    "now and then huge": lambda random: 1.7e10 if random.random() < 0.02 else 0.001,
}

# For topologies that take values of any size.
LARGE_VALUES: dict[str, Callable[[Random], float]] = {
    "neighbours of 2^53": lambda random: 2**53 + random.randrange(-2, 7),
    "neighbours below zero": lambda random: -(2**53) - random.randrange(-2, 7),
    "around powers of two": lambda random: (
        random.choice((-1, 1))
        * (2 ** random.choice((53, 54, 60, 63, 64, 70)) + random.randrange(-3, 4))
    ),
    "doubles of any size": lambda random: random.choice((-1, 1)) * random.lognormvariate(36, 20),
    "beyond 2^100": lambda random: random.choice((-1, 1)) * random.randrange(2**103),
}

TIMES: dict[str, Callable[[Random, int], list[int]]] = {
    "in order": lambda random, size: _walk(random, size, [0, 1, 3, 10]),
    "sparse": lambda random, size: _walk(random, size, [70, 200, 1_500]),
    "bursts": lambda random, size: _walk(random, size, [0] * 30 + [400]),
    "all ties": lambda _, size: [0] * size,
    "on the ticks": lambda random, size: [t * 100 - 37 for t in _walk(random, size, [0, 0, 1])],
    "jitter": lambda random, size: _disturbed(random, size, 150),
    "much disorder": lambda random, size: _disturbed(random, size, 2_000),
    "a clock ahead": lambda random, size: [
        t + 5_000 * (random.random() < 0.01) for t in _disturbed(random, size, 50)
    ],
    "clocks far ahead": lambda random, size: [
        t + random.choice([2_000, 9_000, 10**8]) * (random.random() < 0.1)
        for t in _disturbed(random, size, 100)
    ],
    "nights": lambda random, size: _walk(random, size, [10] * 15 + [100_000]),
    "every few minutes": lambda random, size: [
        t * 60_000 + (10**7) * (random.random() < 0.05) for t in _walk(random, size, [0, 1, 1, 2])
    ],
    "backwards": lambda random, size: _walk(random, size, [0, 1, 40])[::-1],
}

BAD: list[bytes | None] = [
    None,
    b"",
    b"no json",
    b"[1, 2]",
    b'{"key": "a", "value": 1}',
    b'{"key": "a", "time": "now", "value": 1}',
    b'{"key": "a", "time": 1600000000, "value": 1}',
    b'{"key": "a", "time": 253370764800000, "value": 1}',
    b'{"key": "a", "time": 1600000000000, "value": -1}',
    b'{"key": "a", "time": 1600000000000, "value": NaN}',
    b'{"key": "", "time": 1600000000000, "value": 1}',
]


def _walk(random: Random, size: int, steps: Sequence[int]) -> list[int]:
    time = 0
    times = []
    for _ in range(size):
        time += random.choice(steps)
        times.append(time)
    return times


def _disturbed(random: Random, size: int, by: int) -> list[int]:
    return [max(0, t - random.randrange(by)) for t in _walk(random, size, [0, 5, 30])]


def encode(key: str, time: int, value: float) -> bytes:
    """An event's JSON."""
    return json.dumps({"key": key, "time": time, "value": value}).encode()


def confirmed(offset: int, time: int) -> list[Record]:
    """So many events at `time`, from an offset on, that event time comes there by any jump."""
    return [Record(offset + i, None, encode("~", time, 0), time) for i in range(16)]


def without_value(random: Random, record: bytes) -> bytes:
    """The record with null for a value, or with none."""
    fields = json.loads(record)
    del fields["value"]
    return json.dumps(random.choice([fields, {**fields, "value": None}])).encode()


def records(
    random: Random,
    size: int,
    *,
    keys: str,
    values: str,
    times: str,
    bad: float,
    holes: bool,
    lacking: float = 0.0,
) -> list[Record]:
    """`size` records, a part `bad` of them unreadable, and of the others a part `lacking` without a
    value; with holes between offsets or without.
    """
    found = []
    offset = random.randrange(1_000) if holes else 0
    for time in TIMES[times](random, size):
        value_of = VALUES.get(values) or LARGE_VALUES[values]
        body = encode(KEYS[keys](random), START_MS + time, value_of(random))
        if lacking and random.random() < lacking:
            body = without_value(random, body)
        value: bytes | None = body
        if random.random() < bad:
            value = random.choice(BAD)
        key = random.choice([None, b"", b"a key"])
        stamp = START_MS + random.choice([0, time]) + random.randrange(10_000)
        found.append(Record(offset, key, value, stamp))
        offset += random.choice([1, 1, 2, 9]) if holes else 1
    return found
