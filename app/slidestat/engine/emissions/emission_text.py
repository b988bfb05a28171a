"""Emissions as JSON, many in one go, where they differ in key, end and numbers alone.

Their texts are the bytes that msgspec writes of the same emission, which is the schema's word; but
no object is made of a figure: one kernel writes the numbers of all records, and another puts them
between the pieces that all records share.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from slidestat.engine.emissions.number_texts import listed_texts, number_texts
from slidestat.schemas.emission import Emission, emission_key
from slidestat.synopses.core.compile import borrowing_kernel

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

_encode = msgspec.json.Encoder().encode

# Each text is copied twice: what so many rows take stays in the processor's cache meanwhile.
_BLOCK_ROWS = 128


class EmissionText:
    """The texts of emissions that are `model` but for the key, the end, the source offset and the
    numbers of the figures.
    """

    def __init__(self, model: Emission) -> None:
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
        self._record = _Pieces([*pieces, end])
        name, _, end = emission_key(model.topology, "", 0).rpartition(b'"",0')
        self._key = _Pieces([name, b",", end])

    def write(
        self, keys: Sequence[str], ends: Int64s, numbers: Float64s, source_offsets: Int64s
    ) -> tuple[list[bytes], list[bytes]]:
        """(Kafka keys, values) of n > 0 records: `numbers` float64[n, figures, 3] are estimates,
        lowers and uppers, NaN for what does not exist.
        """
        count = len(keys)
        names = list(map(_encode, keys))
        ends_of = [np.cumsum(np.fromiter(map(len, names), np.int64, count))]
        starts_of = [np.concatenate(([0], ends_of[0][:-1]))]
        texts = [b"".join(names)]
        place = len(texts[0])
        columns = listed_texts(ends), number_texts(numbers), listed_texts(source_offsets)
        for column, starts, stops in columns:
            starts_of.append(starts + place)
            ends_of.append(stops + place)
            texts.append(column)
            place += len(column)
        text = b"".join(texts)
        starts = np.hstack([column.reshape(count, -1) for column in starts_of])
        stops = np.hstack([column.reshape(count, -1) for column in ends_of])
        return (
            self._key.between(text, starts[:, :2], stops[:, :2]),
            self._record.between(text, starts, stops),
        )


def _name_on_the_wire(record: msgspec.Struct, attribute: str) -> str:
    place = record.__struct_fields__.index(attribute)
    return record.__struct_encode_fields__[place]


class _Pieces:
    """Constant pieces of text with varying texts between them."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._text = np.frombuffer(b"".join(pieces), np.uint8)
        self._ends = np.cumsum([len(piece) for piece in pieces])

    def between(self, text: bytes, starts: Int64s, ends: Int64s) -> list[bytes]:
        """Row by row, with text[starts[row, i]:ends[row, i]] after the i-th piece."""
        source = np.frombuffer(text, np.uint8)
        sizes = (ends - starts).sum(axis=1) + len(self._text)
        rows: list[bytes] = []
        for first in range(0, len(starts), _BLOCK_ROWS):
            block = slice(first, first + _BLOCK_ROWS)
            row_ends = np.cumsum(sizes[block])
            out = np.empty(int(row_ends[-1]), np.uint8)
            _put(self._text, self._ends, source, starts[block], ends[block], out)
            written = out.tobytes()
            rows += [written[a:b] for a, b in pairwise([0, *row_ends.tolist()])]
        return rows


@borrowing_kernel
def _put(
    pieces: Bytes, piece_ends: Int64s, text: Bytes, starts: Int64s, ends: Int64s, out: Bytes
) -> None:
    # Of an index without a sign it is clear that it does not count from the end: so the compiler
    # copies many bytes at once, which takes a fifth of the time.
    place = np.uint64(0)
    for row in range(len(starts)):
        begin = np.uint64(0)
        for column in range(len(piece_ends)):
            length = np.uint64(piece_ends[column]) - begin
            for i in range(length):
                out[place + i] = pieces[begin + i]
            place += length
            begin += length
            if column < starts.shape[1]:
                start = np.uint64(starts[row, column])
                length = np.uint64(ends[row, column]) - start
                for i in range(length):
                    out[place + i] = text[start + i]
                place += length
