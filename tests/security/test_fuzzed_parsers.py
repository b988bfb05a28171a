"""Whatever comes from outside is read or refused: 2,000 mutations for each decoder.

`make fuzz` tries others, for as long as one likes.
"""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from slidestat.declare.forms.files import load_topology
from slidestat.errors import SlidestatError
from tests.security.decoders import DECODERS

CASES = 2_000
# A millisecond and more each; both readers of records have a law of their own.
DEAR = {
    *("records", "keys", "Avro", "Protobuf", "Debezium", "fetches"),
    *(
        "files of events",
        "times",
        "conditions",
        "computed fields",
        "states of synopses",
        "labels of folders",
        "samples",
    ),
}
DEAR_CASES = 300
SPLICED = [
    b"",
    b"\0",
    b"\xff",
    b"\xf0\x9f",
    b"{" * 3_000,
    b"[" * 3_000,
    b"\x91" * 3_000,
    b"(" * 3_000,
    b'"',
    b"'",
    b"\\u",
    b"%",
    b"e9999",
]
SPLICED += [b"-", b"9" * 400, b"null", b"NaN", b"\n", b"=", b"&", b"1_0", b"\xe2\x80\xae"]


def mutations(seeds: tuple[bytes, ...], cases: int) -> "list[bytes]":
    """Bytes flipped, cut off, doubled, moved, and spliced with what parsers stumble over."""
    rng = random.Random(len(seeds[0]))
    found = []
    for number in range(cases):
        data = bytearray(seeds[number % len(seeds)])
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


@pytest.mark.parametrize("name", DECODERS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    """A decoder gives what it read, or its own error: nothing else is raised, nothing hangs, and
    two readers of the same agree.
    """
    decoder = DECODERS[name]
    for data in mutations(decoder.seeds, DEAR_CASES if name in DEAR else CASES):
        with suppress(decoder.refusals):
            decoder.read(data)


def test_any_toml_is_read_or_refused(tmp_path: Path) -> None:
    """An error of a file begins with the file."""
    told = set()
    for data in mutations(DECODERS["declarations"].seeds[:1], CASES):
        file = tmp_path / "t.toml"
        file.write_bytes(data)
        try:
            load_topology(str(file))
        except SlidestatError as error:
            told.add(error.message.startswith(str(tmp_path)))
    assert told == {True}
