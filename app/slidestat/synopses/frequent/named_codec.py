"""Frequent items with names, as bytes: the items are 64-bit ids, and each id held has its text.

The body (envelope and numbers: wire.py) is, in this order:

    length of what follows
    the state of the ids                 the body of one of frequent items, kind 28 (codec.py of
                                         frequent_pairs/), or of one in blocks, kind 14, where named
                                         items are of kind 24 (codec.py)
    for each id that it holds anywhere   the length of its text in bytes, and the text
                                         (rising by id; an id once)

Which ids are held follows from the state, so that they are not stored again, and a text more or
less is no synopsis. A text has at most MAX_TEXT bytes.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.keyed import first_from, open_body, open_envelope, seal, with_room
from slidestat.synopses.core.wire import get_varint, put_varint

IN_BLOCKS, IN_PAIRS = 24, 29
"""Kinds of named items (wire.py)."""

MAX_TEXT = 256


@kernel
def open_inner(
    arena: Bytes, offsets: Integers, kind: int, of_ids: int
) -> tuple[int, int, int, Bytes, Integers]:
    """Take the states of the ids out of those of named items, arena[offsets[g]:offsets[g + 1]].

    kind: theirs; of_ids: that of the states of the ids. Returns (error, group, its number, the
    states of the ids, their offsets). No bytes are a new state. Cost: O(bytes).
    """
    groups = len(offsets) - 1
    inner = np.empty(len(arena), np.uint8)  # a state of ids is shorter by its length at least
    ends = np.zeros(groups + 1, np.int64)
    to = 0
    for group in range(groups):
        start, end = offsets[group], offsets[group + 1]
        if start < end:
            error_code, number, at = open_body(arena, start, end, kind, kind)
            if error_code != error_codes.OK:
                return error_code, group, number, inner, ends
            size, at = get_varint(arena, at, end)
            if not (0 < size <= end - at):
                return error_codes.CORRUPTED, group, 0, inner, ends
            body = open_envelope(inner, to, of_ids)
            inner[body : body + size] = arena[at : at + size]
            seal(inner, to, body + size)
            to = body + size
        ends[group + 1] = to
    return error_codes.OK, 0, 0, inner, ends


@kernel
def read_texts(
    arena: Bytes, offsets: Integers, sizes: Integers, held: Integers
) -> tuple[int, int, Integers]:
    """Find the texts that are behind the states of the ids.

    sizes: how long each of those states is, with its envelope; held: int64[groups + 1], where the
    ids of each group begin. Returns (error, group, places): text i is
    arena[places[0, i]:places[1, i]].
    """
    places = np.empty((2, held[-1]), np.int64)
    for group in range(len(sizes)):
        if offsets[group] == offsets[group + 1]:
            continue
        end = offsets[group + 1]
        _, at = get_varint(arena, offsets[group] + wire.BODY, end)
        at += sizes[group] - wire.BODY
        for i in range(held[group], held[group + 1]):
            size, at = get_varint(arena, at, end)
            if not (0 <= size <= min(MAX_TEXT, end - at)):
                return error_codes.CORRUPTED, group, places
            places[0, i] = at
            at += size
            places[1, i] = at
        if at != end:
            return error_codes.CORRUPTED, group, places
    return error_codes.OK, 0, places


@borrowing_kernel
def _find(ids: Integers, start: int, end: int, one: int) -> int:
    """Return where `one` is in ids[start:end], which rise; -1 if it is not."""
    place = first_from(ids, start, end, one)
    return place if place < end and ids[place] == one else -1


@kernel
def name_ids(
    held: Integers,
    ends: Integers,
    arena: Bytes,
    known: Integers,
    words: Integers,
    word_codes: Integers,
    texts: Bytes,
    text_ends: Integers,
    starts: Integers,
    times: Integers,
    ids: Integers,
    codes: Integers,
    asked: Integers,
    to: Integers,
    groups: Integers,
    untils: Integers,
) -> Integers:
    """Return where the text of each id asked for is: i for the one of held[i], or -1 - code.

    It is the text of the id's last event before the row's time, or, without one, that of before.
    held, ends: ids held before, held[ends[g]:ends[g + 1]] of group g, with the texts that
    `read_texts` found. words: the batch's ids, rising, each once; word_codes: which of its texts is
    that of each, -1 if several are. starts, times, ids, codes: the events of each group. Row r asks
    for what ends at asked[to[r]], of group groups[r], before untils[r]. Each one asked for is held,
    or among the events. Cost: O((asked + held) * log), and the events for each id that has several
    texts.
    """
    places = np.empty(len(asked), np.int64)
    k = 0
    for row in range(len(to)):
        group = groups[row]
        while k < to[row]:
            place = _find(held, ends[group], ends[group + 1], asked[k])
            word = _find(words, 0, len(words), asked[k])
            code = word_codes[word] if word >= 0 else -1
            if place >= 0 and code >= 0:
                old = arena[known[0, place] : known[1, place]]
                new = texts[text_ends[code] : text_ends[code + 1]]
                if len(old) == len(new) and np.all(old == new):
                    code = -1
                    word = -1
            if place < 0 and code >= 0:
                place = -1 - code
            elif word >= 0:
                for event in range(starts[group + 1] - 1, starts[group] - 1, -1):
                    if ids[event] == asked[k] and times[event] < untils[row]:
                        place = -1 - codes[event]
                        break
            places[k] = place
            k += 1
    return places


@kernel
def write_named(
    kind: int,
    inner: Bytes,
    inner_ends: Integers,
    to: Integers,
    places: Integers,
    arena: Bytes,
    known: Integers,
    texts: Bytes,
    text_ends: Integers,
) -> tuple[Bytes, Integers]:
    """Write the states of the ids with the texts of what they hold; return (bytes, offsets).

    places[to[g - 1]:to[g]] are of the ids that group g holds, as `name_ids` gives them: of the
    texts arena[known[0, i]:known[1, i]], or of the batch's.
    """
    groups = len(to)
    out = np.empty(len(inner) + 24 * groups + 16 * len(places) + 64, np.uint8)
    offsets = np.zeros(groups + 1, np.int64)
    end = 0
    k = 0
    for group in range(groups):
        body = inner_ends[group] + wire.BODY
        size = inner_ends[group + 1] - body
        room = wire.BODY + wire.MAX_VARINT + size + (2 + MAX_TEXT) * (to[group] - k)
        out = with_room(out, end, room)
        at = put_varint(out, open_envelope(out, end, kind), size)
        out[at : at + size] = inner[body : body + size]
        at += size
        while k < to[group]:
            if places[k] >= 0:
                text = arena[known[0, places[k]] : known[1, places[k]]]
            else:
                code = -1 - places[k]
                text = texts[text_ends[code] : text_ends[code + 1]]
            at = put_varint(out, at, len(text))
            out[at : at + len(text)] = text
            at += len(text)
            k += 1
        seal(out, end, at)
        end = at
        offsets[group + 1] = end
    return out, offsets
