"""Emissions as JSON, many in one go, where they differ in key, end and numbers alone.

Their texts are the bytes that msgspec writes of the same emission, which is the schema's word; but
no object is made of a figure, nor of a record: a kernel writes names and numbers between the pieces
that all records share.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.emissions.number_texts import (
    LONGEST_NUMBER,
    LONGEST_WHOLE,
    KnownTexts,
    OddTexts,
    UInt64s,
    is_odd,
    learn,
    odd_texts,
    place_of,
    write_odd,
    write_whole,
)
from slidestat.engine.emissions.output_records import EmittedNumbers, KeysAndValues, OutputRecords
from slidestat.kernels.compile import borrowing_kernel, unlocked_kernel
from slidestat.schemas.emission import Emission, emission_key
from slidestat.synopses.core.arrays import Bytes, Floats, Integers

_LONGEST, _1 = np.uint64(LONGEST_NUMBER), np.uint64(1)
_encode = msgspec.json.Encoder().encode


class EmissionText:
    """The texts of emissions that are `model` but for the key, the end, the source offset and the
    numbers of the figures.
    """

    def __init__(self, model: Emission) -> None:
        self.model = model
        # Quotation marks in a name are escaped: none of these texts can be part of one.
        empty = replace(model, key="", window_end_ms=0, figures=[], source_offset=0)
        end_name = _encode(_name_on_the_wire(model, "window_end_ms"))
        head, _, rest = _encode(empty).partition(b'"",' + end_name + b':0,"figures":[]')
        middle, _, end = rest.rpartition(b'"source_offset":0')
        pieces = [head, b"," + end_name + b":", b',"figures":[']
        for figure in model.figures:
            numbered = replace(figure, estimate=0.5, lower=0.5, upper=0.5)
            before, _, after = _encode(numbered).partition(
                b'"estimate":0.5,"lower":0.5,"upper":0.5'
            )
            pieces[-1] += before + b'"estimate":'
            pieces += [b',"lower":', b',"upper":', after + b","]
        pieces[-1] = pieces[-1].removesuffix(b",") + b"]" + middle + b'"source_offset":'
        self._record = _Pieces.of([*pieces, end])
        name, _, end = emission_key(model.topology, "", 0).rpartition(b'"",0')
        self._key = _Pieces.of([name, b",", end])

    def write(
        self,
        names: Sequence[str],
        groups: Integers,
        ends: Integers,
        numbers: Floats,
        source_offsets: Integers,
    ) -> OutputRecords:
        """Return the records of n emissions, whose text is written when it is asked for: `names`
        are the keys, `groups` int64[n] the place of each emission's there; `numbers` float64[n,
        figures, 3] are estimates, lowers and uppers, NaN for missing ones.
        """
        said = EmittedNumbers(self.model, names, groups, ends, numbers, source_offsets)
        return OutputRecords(partial(self._text, said), ends)

    def _text(self, said: EmittedNumbers) -> KeysAndValues:
        _, names, groups, ends, numbers, source_offsets = said
        count = len(groups)
        encoded = list(map(_encode, names))
        name_ends = np.cumsum([0, *map(len, encoded)])
        text = np.frombuffer(b"".join(encoded), np.uint8)
        numbers = np.ascontiguousarray(numbers.reshape(count, -1))
        longest = int(np.diff(name_ends).max(initial=0)) + LONGEST_WHOLE
        keys = np.empty(count * (len(self._key.text) + longest), np.uint8)
        longest += LONGEST_WHOLE + LONGEST_NUMBER * numbers.shape[1]
        values = np.empty(count * (len(self._record.text) + longest), np.uint8)
        key_ends, value_ends = np.zeros((2, count + 1), np.int64)
        _write_keys(*self._key, text, name_ends, groups, ends, keys, key_ends)
        odd = odd_texts(numbers)
        with _KNOWN_BY_ONE:
            _write_records(
                *self._record,
                text,
                name_ends,
                groups,
                ends,
                numbers,
                numbers.view(np.uint64),
                odd,
                _KNOWN,
                source_offsets,
                values,
                value_ends,
            )
        return _column(keys, key_ends), _column(values, value_ends)


# The texts that this process knows: one thread at a time uses and changes them.
_KNOWN = KnownTexts.none()
_KNOWN_BY_ONE = threading.Lock()


def _name_on_the_wire(record: msgspec.Struct, attribute: str) -> str:
    place = record.__struct_fields__.index(attribute)
    return record.__struct_encode_fields__[place]


def _column(text: Bytes, ends: Integers) -> BinaryColumn:
    # Memory behind the text was never touched, so it costs nothing.
    return BinaryColumn(text[: ends[-1]], ends[:-1], ends[1:])


class _Pieces(NamedTuple):
    """Constant pieces of text, one after another, and where each ends."""

    text: Bytes
    ends: Integers

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> "_Pieces":
        return cls(
            np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([len(piece) for piece in pieces])
        )


@borrowing_kernel
def _copy(text: Bytes, start: int, stop: int, out: Bytes, place: int) -> int:
    """Put text[start:stop] at `place`; return where it ends."""
    # An unsigned index cannot count from the end: so the compiler copies many bytes at once, which
    # takes a fifth of the time.
    begin, to, length = np.uint64(start), np.uint64(place), np.uint64(stop - start)
    for i in range(length):
        out[to + i] = text[begin + i]
    return place + stop - start


@unlocked_kernel
def _write_keys(
    pieces: Bytes,
    piece_ends: Integers,
    names: Bytes,
    name_ends: Integers,
    groups: Integers,
    ends: Integers,
    out: Bytes,
    stops: Integers,
) -> None:
    place = 0
    for row in range(len(groups)):
        group = groups[row]
        place = _copy(pieces, 0, piece_ends[0], out, place)
        place = _copy(names, name_ends[group], name_ends[group + 1], out, place)
        place = _copy(pieces, piece_ends[0], piece_ends[1], out, place)
        place = write_whole(ends[row], out, place)
        place = _copy(pieces, piece_ends[1], piece_ends[2], out, place)
        stops[row + 1] = place


@unlocked_kernel
def _write_records(
    pieces: Bytes,
    piece_ends: Integers,
    names: Bytes,
    name_ends: Integers,
    groups: Integers,
    ends: Integers,
    numbers: Floats,
    bits: UInt64s,
    odd: OddTexts,
    known: KnownTexts,
    source_offsets: Integers,
    out: Bytes,
    stops: Integers,
) -> None:
    place = odd_before = 0
    for row in range(len(groups)):
        group = groups[row]
        place = _copy(pieces, 0, piece_ends[0], out, place)
        place = _copy(names, name_ends[group], name_ends[group + 1], out, place)
        place = _copy(pieces, piece_ends[0], piece_ends[1], out, place)
        place = write_whole(ends[row], out, place)
        piece = 1
        for column in range(numbers.shape[1]):
            place = _copy(pieces, piece_ends[piece], piece_ends[piece + 1], out, place)
            piece += 1
            number_bits = bits[row, column]
            slot = place_of(number_bits)
            if known.bits[slot] != number_bits:
                number = numbers[row, column]
                if is_odd(number):
                    place, odd_before = write_odd(number, odd, odd_before, out, place)
                    continue
                learn(known, slot, number_bits, number)
            start, to = np.uint64(known.starts[slot]), np.uint64(place)
            for i in range(_LONGEST):
                out[to + i] = known.texts[start + i]
            place += int((slot + _1) * _LONGEST - start)
        place = _copy(pieces, piece_ends[piece], piece_ends[piece + 1], out, place)
        place = write_whole(source_offsets[row], out, place)
        place = _copy(pieces, piece_ends[piece + 1], piece_ends[piece + 2], out, place)
        stops[row + 1] = place
