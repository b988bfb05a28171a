"""The synopses of several parties that see parts of one logical stream, kept side by side.

Source: the distributed model of Gibbons and Tirthapura 2002, sections 2 and 3.4: parties that see
their own part of a stream alone, and a Referee who answers over the union from what they sent.

Contract: a bundle has at most one synopsis of a party, all of one kind and of equal parameters. To
merge is to take the union of the parties; of a party in both, the synopsis that is further on, by
its `now`, then by its bytes. So a bundle is what was sent, whatever the order, grouping or
repetition of merges (associative, commutative, idempotent; the empty one changes nothing), and
merging costs no accuracy: answers over the union keep the promise of one part, as totals.py and its
neighbours prove.
Space: that of the parts. merged_histogram.py makes one state of many, at a stated loss.

Proof of the merge: a party's part of a merge is the largest of its (now, bytes) in all bundles that
were merged, and to take the largest is associative, commutative and idempotent.

Parties lag. An answer at a time looks ahead of a part whose `now` is before it, as if no event had
come to that party since; `behind` names these parties, so that the caller can call them stale.

The body (kind 23; envelope and numbers: see wire.py) is, in this order:

    form                                  1 bundle
    number of parties, then of each, by rising name:
        length of its name, the name (UTF-8)
        length of its synopsis, the synopsis
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slidestat.synopses.core import wire
from slidestat.synopses.core.envelope import body_of, damaged, sealed, varint
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.merge.families import kind_of, read, shared
from slidestat.synopses.sampling.sample import SlidingSample

MERGED = 23
BUNDLE, HISTOGRAM = 1, 2
"""Forms of kind 23: parts side by side, and one histogram made of them (merged_histogram.py)."""

MAX_NAME = 255


class Part(NamedTuple):
    """A synopsis that a party sent: the party's name, its time, and its bytes."""

    party: str
    now: int
    data: bytes


class Bundle:
    """Synopses of the parties of one logical stream; it never changes, `merge` makes another.

    >>> from slidestat.synopses import CountParameters, ExponentialHistogram
    >>> from slidestat.synopses import Bundle, union_totals
    >>> sent = {}
    >>> for party, times in {"a": [1_000, 2_000], "b": [1_500]}.items():
    ...     visits = ExponentialHistogram.create(CountParameters(epsilon=0.1, span=60_000))
    ...     visits.insert(times)
    ...     sent[party] = visits.to_bytes()
    >>> both = Bundle.of(sent)
    >>> union_totals([both], [both.now], [60_000]).estimates.tolist(), both.behind(both.now)
    ([[3.0]], ('b',))
    """

    def __init__(self, parts: tuple[Part, ...], kind: int, parameters: object) -> None:
        self._parts = parts
        self._kind = kind
        self._parameters = parameters

    @classmethod
    def of(cls, synopses: Mapping[str, bytes]) -> "Bundle":
        """Return the bundle of one stored synopsis a party; of none, the empty one.

        Raises SynopsisError for bytes that are no synopsis that can be merged, for kinds or
        parameters that differ (of samples: but the seed, which must), and for names that are empty
        or longer than 255 bytes.
        """
        for party in synopses:
            if not (1 <= len(_name(party)) <= MAX_NAME):
                raise SynopsisError(f"the name of a party is 1 to {MAX_NAME} bytes, not {party!r}")
        return cls._made(sorted(synopses.items(), key=lambda item: _name(item[0])))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Bundle":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        Cost: that of reading each part.
        """
        body = opened_form(BUNDLE, data)
        array = np.frombuffer(bytearray(body), np.uint8)
        number, at = wire.get_varint(array, 0, len(body))
        if not (0 <= number <= len(body)):
            raise damaged()
        texts = []
        for _ in range(2 * number):
            length, at = wire.get_varint(array, at, len(body))
            if not (1 <= length <= len(body) - at):
                raise damaged()
            texts.append(body[at : at + length])
            at += length
        names = texts[::2]
        if at != len(body) or any(len(name) > MAX_NAME for name in names):
            raise damaged()
        if any(name >= after for name, after in pairwise(names)):
            raise damaged()
        try:
            parties = [name.decode() for name in names]
        except UnicodeDecodeError:
            raise damaged() from None
        return cls._made(list(zip(parties, texts[1::2], strict=True)))

    @classmethod
    def _made(cls, sent: list[tuple[str, bytes]]) -> "Bundle":
        """Return the bundle of what parties sent, by rising name."""
        if not sent:
            return cls((), 0, None)
        kinds = [kind_of(data) for _, data in sent]
        synopses = [read(data) for _, data in sent]
        made_with = [shared(synopsis.parameters) for synopsis in synopses]
        for other in zip(kinds, made_with, strict=True):
            _must_agree((kinds[0], made_with[0]), other)
        _must_draw_apart(sent, kinds[0])
        parts = tuple(
            Part(party, synopsis.now, bytes(data))
            for (party, data), synopsis in zip(sent, synopses, strict=True)
        )
        return cls(parts, kinds[0], made_with[0])

    def to_bytes(self) -> bytes:
        """Return the bundle: equal bundles are equal bytes."""
        pieces = [varint(BUNDLE), varint(len(self._parts))]
        for part in self._parts:
            for text in (_name(part.party), part.data):
                pieces += [varint(len(text)), text]
        return sealed(MERGED, b"".join(pieces))

    def merge(self, *others: "Bundle") -> "Bundle":
        """Return the union; of a party in several, what is further on. SynopsisError as for `of`.

        Cost: O(parties), however large the parts are.
        """
        furthest: dict[str, Part] = {}
        for part in (part for bundle in (self, *others) for part in bundle._parts):
            known = furthest.get(part.party)
            if known is None or (part.now, part.data) > (known.now, known.data):
                furthest[part.party] = part
        parts = tuple(sorted(furthest.values(), key=lambda part: _name(part.party)))
        filled = [bundle for bundle in (self, *others) if bundle._parts]
        for bundle in filled[1:]:
            _must_agree(
                (filled[0]._kind, filled[0]._parameters), (bundle._kind, bundle._parameters)
            )
        if not filled:
            return self
        _must_draw_apart([(part.party, part.data) for part in parts], filled[0]._kind)
        return Bundle(parts, filled[0]._kind, filled[0]._parameters)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts, by rising name of the party."""
        return self._parts

    @property
    def kind(self) -> int:
        """The kind byte of the parts; 0 of an empty bundle."""
        return self._kind

    @property
    def parameters(self) -> object:
        """Return the parameters of all parts (of samples: but the seed); None if it is empty."""
        return self._parameters

    @property
    def now(self) -> int:
        """The latest time of a part. SynopsisError for an empty bundle."""
        if not self._parts:
            raise SynopsisError("a bundle without parts has no time")
        return max(part.now for part in self._parts)

    def behind(self, now: int) -> tuple[str, ...]:
        """Return the parties whose synopsis has a time before `now`."""
        return tuple(part.party for part in self._parts if part.now < now)

    def check(self) -> None:
        """Raise SynopsisError unless each part keeps its invariants. Cost: that of theirs."""
        for part in self._parts:
            read(part.data).check()


def _name(party: str) -> bytes:
    try:
        return party.encode()
    except UnicodeEncodeError:
        raise SynopsisError(f"the name of a party must be text, not {party!r}") from None


def opened_form(form: int, data: bytes) -> bytes:
    """Return what follows the form in a stored merge; SynopsisError for anything else."""
    body = body_of(data, MERGED)
    found, at = wire.get_varint(np.frombuffer(bytearray(body), np.uint8), 0, len(body))
    if found not in (BUNDLE, HISTOGRAM):
        raise damaged()
    if found != form:
        names = {BUNDLE: "a bundle", HISTOGRAM: "a merged histogram"}
        raise SynopsisError(f"these bytes hold {names[found]}, not {names[form]}")
    return body[at:]


def _must_agree(one: tuple[int, object], other: tuple[int, object]) -> None:
    if one != other:
        raise SynopsisError(
            f"parts must be of one kind and equal parameters: kind {one[0]}, {one[1]}, "
            f"and kind {other[0]}, {other[1]}, are not"
        )


def _must_draw_apart(sent: list[tuple[str, bytes]], kind: int) -> None:
    """Raise SynopsisError if two parties draw the same random numbers for their samples."""
    if kind not in SlidingSample.kinds:
        return
    party_of: dict[int, str] = {}
    for party, data in sent:
        seed = SlidingSample.from_bytes(data).parameters.seed
        if seed in party_of:
            raise SynopsisError(
                f"parties {party_of[seed]!r} and {party!r} have one seed, so their samples are not "
                "independent: give each its own (party_seed)"
            )
        party_of[seed] = party
