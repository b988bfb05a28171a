"""Whatever comes from outside is read or refused: 10,000 mutations for each parser."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from slidestat.admin.letters import read_letters
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.statistics import Count, Distinct, Quantiles, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Counters,
    decode_checkpoint,
    encode_checkpoint,
)
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.emissions.emission_codec import NotAnEmissionError
from slidestat.engine.emissions.output_codec import AnyFormat
from slidestat.engine.keys.key_state import decode_key_state, encode_key_state
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import DeadLetterHeaders
from slidestat.web.answers.parameters import key_of, key_query, page_query

CASES = 10_000
TOPOLOGY = Topology(
    name="t",
    source="s",
    span="1h",
    every="1m",
    key_field="user.id",
    statistics=(Count(), Sum(), Quantiles(), Distinct(field="path")),
)
MEANING = {"name": "t", "statistics": "count, epsilon 0.01"}

GOOD = {
    "record": b'{"user":{"id":"k1"},"time":1700000000000,"value":1.25,"path":"/a\\u00e9"}',
    "emission": b'{"topology":"t","key":"k","window_end_ms":1700000000000,"figures":[{"statistic":'
    b'"count","estimate":1.0,"lower":1.0,"upper":1.0,"window_ms":60000}],"source_topic":"s",'
    b'"source_partition":0,"source_offset":1}',
    "checkpoint": encode_checkpoint(
        Checkpoint(7, 1_700_000_000_000, Counters(7, 5, 1, 1)), MEANING
    ),
    "key state": encode_key_state(1_700_000_000_000, 7, 1_700_000_000_000, 3, (b"a", b"", b"bc")),
    "letters": b'{"topic":"s","partition":0,"offset":1,"reason":"late","detail":"",'
    b'"timestamp_ms":1}\n{"topic":"s","partition":0,"offset":2,"reason":"late","detail":"","timestamp_ms":1,'
    b'"value_base64":"AAE="}',
    "toml": b'name = "t"\nsource = "s"\nspan = "1h"\nevery = "1m"\nwindows = ["1m"]\n'
    b'[[statistics]]\nkind = "quantile"\nfield = "took.ms"\nquantiles = [0.5, 0.99]\n',
    "statistic": b"quantile:took.ms:quantiles=0.5,0.99:epsilon=0.02:name=q",
    "query": b"window=5m&window=1h&statistic=count&quantile=0.99&prefix=a%2Fb&limit=10",
}
SPLICED = [
    b"",
    b"\0",
    b"\xff",
    b"\xf0\x9f",
    b"{" * 3_000,
    b"[" * 3_000,
    b'"',
    b"\\u",
    b"%",
    b"e9999",
]
SPLICED += [b"-", b"9" * 400, b"null", b"NaN", b"\n", b"=", b"&", b"1_0", b"\xe2\x80\xae"]


def mutations(good: bytes) -> "list[bytes]":
    """Bytes flipped, cut off, doubled, moved, and spliced with what parsers stumble over."""
    rng = random.Random(len(good))
    found = []
    for _ in range(CASES):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(5):
                case 0:
                    data[at : at + 1] = bytes([rng.randrange(256)])
                case 1:
                    del data[at:]
                case 2:
                    data[at:at] = data[: rng.randrange(len(data) + 1)]
                case 3:
                    data[at : at + rng.randrange(8)] = rng.choice(SPLICED)
                case _:
                    del data[at : at + rng.randrange(8)]
        found.append(bytes(data[:20_000]))
    return found


def records(data: bytes) -> None:
    columns = DECODER.decode([data])
    assert len(columns.rows) + len(columns.refusals) == 1


def toml_file(data: bytes, folder: Path) -> None:
    file = folder / "t.toml"
    file.write_bytes(data)
    load_topology(str(file))


def flags(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    given = {"name": "t", "source": "s", "span": "1h", "every": "1m", "statistics": [text]}
    topology_of_flags(given)


def times(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    topology_of_flags({"name": "t", "source": "s", "span": text, "every": "1m"})


def headers(data: bytes) -> None:
    DeadLetterHeaders.decode([("reason", data), ("partition", data), ("offset", data)])


DECODER = EventDecoder(TOPOLOGY)
ANY_FORMAT = AnyFormat("")


@pytest.mark.parametrize(
    ("good", "parse", "refusals"),
    [
        ("record", records, ()),
        ("emission", ANY_FORMAT.decode, (NotAnEmissionError,)),
        ("checkpoint", lambda data: decode_checkpoint(data, MEANING), ()),
        ("key state", decode_key_state, ()),
        ("letters", lambda data: read_letters(data, "-"), ()),
        ("statistic", flags, ()),
        ("statistic", times, ()),
        ("query", lambda data: key_query(TOPOLOGY, data.decode("latin-1")), ()),
        ("query", lambda data: page_query(data.decode("latin-1")), ()),
        ("query", lambda data: key_of(data.decode("latin-1")), ()),
    ],
)
def test_any_bytes_are_read_or_refused(
    good: str, parse: Callable[[bytes], object], refusals: tuple[type[Exception], ...]
) -> None:
    """A parser gives what it read, or its own error: nothing else is raised, nothing hangs."""
    for data in mutations(GOOD[good]):
        try:
            parse(data)
        except (SlidestatError, *refusals):
            pass


def test_any_toml_is_read_or_refused(tmp_path: Path) -> None:
    """The same of files, whose error begins with the file."""
    told = set()
    for data in mutations(GOOD["toml"]):
        try:
            toml_file(data, tmp_path)
        except SlidestatError as error:
            told.add(error.message.startswith(str(tmp_path)))
    assert told == {True}
