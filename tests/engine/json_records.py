"""JSON records by the thousand, right and wrong, for readers that must agree on them."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, nextafter
from random import Random

from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS

NAMES = ("key", "time", "value", "user", "ok", "in", "n", "größe", "x", "note", "a b")
SPACES = ("", "", "", "", "", "", " ", "\t", "\n", "\r ", "  \n")
STRINGS = (
    "a",
    "",
    "k1",
    "ключ",
    "日本語",
    "\U0001f600",
    "a" * 255,
    "a" * 256,
    "a" * 257,
    "é" * 128,
    "é" * 256,
    "é" * 257,
    "x/y",
    "1",
    "null",
    "{}",
    "[1,",
    "\x7f",
    "\u2028",
)
ESCAPED = (
    '"\\n"',
    '"a\\"b"',
    '"\\\\"',
    '"\\/"',
    '"\\u0041"',
    '"\\ud83d\\ude00"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\x"',
    '"\\u12"',
    '"\\"',
    '"\t"',
    '"\x00"',
    '"a\x1fb"',
)
NUMBERS = (
    "0", "-0", "-0.0", "0.0", "1", "-1", "7", "1.5", "2.50", "0.1", "0.001", "1e2", "1E+2", "1e-2",
    "-1e-05", "123456789012345", "1234567890123456", "9007199254740991", "9007199254740992",
    "9007199254740993", "900719925474099.3", "0.1234567890123456789", "999999999999999999",
    "1000000000000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1" + "0" * 40,
    "1e22", "1e23", "1e-22", "1e-23", "123e20", "1e308", "1e309", "1e400", "-1e400", "1e-400",
    "5e-324", "4.9e-324", "2e-324", "1e0000000001", "1e99999999999", "01", "-01", "00", "-", "+1",
    ".5", "5.", "1.e1", "1e", "1e+", "0x10", "1_0", "NaN", "Infinity", "-Infinity", "1.2.3", "--1",
    "17592186044", "17592186044.5", "17592186045", "4" * 200, "0." + "3" * 200, "1" * 5000,
)  # fmt: skip
TIMES = (
    "1600000000000", "315532800000", "315532799999", "4102444799999", "4102444800000", "1600000000",
    "1600000000.5", "1.6e12", "1600000000000.0", "1600000000123999", "1600000000123999999",
    "4102444799999999999", '"2020-09-13T12:26:40Z"', "-1600000000000", "0", "5",
    "1600000000.123999", "4102444799.9999996", "9223372036854775807", "1600000000000.9995",
    '"1600000000000"', '" +1600000000.1239 "', '"1.6e15"', '"1600000000123999999"', '"0x10"',
    "1600000000000000.5", "1.6e18", '"9223372036854775808"', '"2020-09-13"', '"20200913T122640Z"',
    '"2020-09-13 12:26:40.0009995 +01:00"', '"2020-09-13T12:26:60,25z"', '"2020-02-30T12:00:00Z"',
    '"2020-09-13T12:26:40+05:75"', '"2020-09-13T12:26:40.0009994999-0130"', '"2020-W37-7T12"',
)  # fmt: skip
WORDS = ("true", "false", "null", "True", "nul", "nulll", "fals", "tru", "t", "undefined")


def _string(random: Random) -> str:
    if random.random() < 0.08:
        return random.choice(ESCAPED)
    return f'"{random.choice(STRINGS)}"'


def _number(random: Random) -> str:
    match random.randrange(7):
        case 0:
            return random.choice(NUMBERS)
        case 4:
            return repr(random.lognormvariate(0, 2))
        case 5:
            return _between_doubles(random)
        case 1:
            return str(random.randrange(-5, 2 ** random.randrange(1, 66)))
        case 2:
            return repr(random.lognormvariate(0, 20))
        case 3:
            digits = str(random.randrange(10 ** random.randrange(1, 20)))
            return f"{digits[0]}.{digits[1:] or 0}e{random.randrange(-30, 30)}"
    return f"{random.randrange(10**5) / 100}"


def _between_doubles(random: Random) -> str:
    """A number within a few units of its last place of the middle between two doubles."""
    double = random.lognormvariate(0, 4)
    middle = (Fraction(double) + Fraction(nextafter(double, inf))) / 2
    digits = random.randrange(1, 24)
    return f"{round(middle * 10**digits) + random.randrange(-2, 3)}e-{digits}"


def _nested(random: Random, depth: int) -> str:
    kind = random.randrange(10)
    if kind < 2 and depth < 6:
        parts = [_nested(random, depth + 1) for _ in range(random.randrange(3))]
        return "[" + ",".join(map(_spaced(random), parts)) + "]"
    if kind < 4 and depth < 6:
        return _object(random, depth + 1)
    if kind == 4 and random.random() < 0.02:
        deep = random.choice((31, 32, 33, 40, 100, 1100))
        return "[" * deep + "]" * (deep - (random.random() < 0.1))
    return _value(random)


def _value(random: Random) -> str:
    match random.randrange(4):
        case 0:
            return _number(random)
        case 1:
            return random.choice(WORDS[:3]) if random.random() < 0.9 else random.choice(WORDS)
    return _string(random)


def _spaced(random: Random) -> Callable[[str], str]:
    return lambda text: random.choice(SPACES) + text + random.choice(SPACES)


def _object(random: Random, depth: int) -> str:
    names = [random.choice(NAMES) for _ in range(random.randrange(4))]
    return _joined(random, [(name, _nested(random, depth)) for name in names])


def _joined(random: Random, fields: list[tuple[str, str]]) -> str:
    space = _spaced(random) if random.random() < 0.3 else str
    texts = [space(f'"{name}"') + ":" + space(value) for name, value in fields]
    return "{" + ",".join(texts) + ("," if random.random() < 0.003 else "") + "}"


def record(random: Random, time: Callable[[int], object]) -> str:
    """A record that is nearly right: most of its fields are there, and most of them in order.
    `time` is how a time in milliseconds is written.
    """
    fields = []
    chance = random.choice((0.0, 0.1, 0.5))

    def add(name: str, plain: Callable[[], str], odd: Callable[[Random], str]) -> None:
        if random.random() >= 0.05:
            fields.append((name, odd(random) if random.random() < chance else plain()))

    add("key", lambda: f'"k{random.randrange(9)}"', lambda r: _nested(r, 0))
    add(
        "time",
        lambda: str(time(random.randrange(EARLIEST_TIME_MS, LATEST_TIME_MS))),
        lambda r: r.choice(TIMES),
    )
    add(
        "value",
        lambda: str(random.randrange(10**4) / random.choice((1, 100))).removesuffix(".0"),
        _number,
    )
    if random.random() < 0.5:
        add("user", lambda: f'"u{random.randrange(9)}"', lambda r: _nested(r, 0))
        add("ok", lambda: random.choice(("true", "false")), lambda r: _nested(r, 0))
        add("in", lambda: f'{{"n":{random.randrange(9)},"x":"y"}}', lambda r: _nested(r, 0))
        add("größe", lambda: "3", _number)
    if random.random() < 0.3:
        fields.append((random.choice(NAMES), _nested(random, 0)))
    if random.random() < 0.3:
        random.shuffle(fields)
    text = _joined(random, fields)
    return _spaced(random)(text) if random.random() < 0.1 else text


def mutated(random: Random, data: bytes) -> bytes:
    """The record with a little damage."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        place = random.randrange(len(changed) + 1)
        match random.randrange(7):
            case 0 if place < len(changed):
                changed[place] ^= 1 << random.randrange(8)
            case 1:
                del changed[place:]
            case 2 if place < len(changed):
                del changed[place]
            case 3:
                changed[place:place] = random.choice((b'"', b"\\", b"{", b"}", b",", b"0", b"\x00"))
            case 4:
                changed[place:place] = random.choice(
                    (
                        b"\xff",
                        b"\xc0\x80",
                        b"\xed\xa0\x80",
                        b"\xf4\x90\x80\x80",
                        b"\xe2\x82",
                        b"\xc3",
                    )
                )
            case 5:
                other = random.randrange(len(changed) + 1)
                changed[place:place] = changed[min(place, other) : max(place, other)][:60]
            case 6:
                changed[:0] = random.choice((b"\xef\xbb\xbf", b" ", b"[", b"\n", b"null"))
    return bytes(changed)


def records(random: Random, count: int, time: Callable[[int], object]) -> Iterator[bytes | None]:
    """So many records: half of them as they should be or nearly so, the others damaged."""
    for _ in range(count):
        data = record(random, time).encode()
        chance = random.random()
        if chance < 0.4:
            data = mutated(random, data)
        yield None if chance > 0.999 else data
