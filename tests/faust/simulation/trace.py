"""What workers have written of one partition, held against the rules of the protocol's model.

A worker absorbs and emits at ticks, and the model record by record. So not each call of a worker is
a step of the model, but each record of its changelog is one: a fence, a state, or a position. Each
rule here has the text of `protocol.qnt` that it transcribes, and tests/model compares the texts.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from slidestat.engine.checkpoints.checkpoint import (
    CHECKPOINT_KEY,
    decode_checkpoint,
    decode_emitted,
    stored_meaning,
)
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.faust.fencing import FENCE_KEY, epoch_of
from slidestat.faust.table import STATE_KEY
from tests.faust.simulation.brokers import Written

RULES = {
    "epochs": 'if (it.epoch < t.newest and has("epochs")) t',
    "fence": "0.to(n - 1).exists(m => changelog[m] == { epoch: changelog[n].epoch, row: Fence })",
    "counted": "0.to(now.at.c - 1).forall(o => keyOf(o) == k implies o <= s.upTo)",
    "p stays": 'if (w.p > w.next and has("p stays")) w.p else w.next',
    "emitted": "o < now.at.p",
}


class BrokenRuleError(AssertionError):
    """An error of a record that is no step of the model."""


class Event(NamedTuple):
    """An event that is neither late nor dead."""

    offset: int
    key: str
    time: int

    @classmethod
    def of(cls, offset: int, value: bytes) -> "Event":
        """That of a record in JSON."""
        event = json.loads(value)
        return cls(offset, event["key"], event["time"])


@dataclass
class Trace:
    """What was written of a partition: the committed records of its changelog, its events, and the
    first record of each emission. `due` gives the emissions of which reading up to an offset is
    all that they need.
    """

    changelog: list[Written]
    events: list[Event]
    due: Callable[[int], Iterable[bytes]]
    emitted: dict[Any, Written]
    span_ms: int

    def check(self) -> int:
        """Follow the changelog; return how many of its records count. Raises BrokenRuleError."""
        newest = followed = reached = 0
        fenced: set[int] = set()
        states: dict[str, tuple[int, int]] = {}
        for one in self.changelog:
            epoch, key = epoch_of(one.headers), one.key or b""
            if key == FENCE_KEY:
                fenced.add(epoch)
            elif epoch not in fenced:
                raise BrokenRuleError(f"fence: record {one.offset} is of epoch {epoch}")
            # The rule "epochs".
            if epoch < newest:
                continue
            newest, followed = epoch, followed + 1
            if key[:1] == STATE_KEY:
                name = key[1:].decode()
                if one.value is None:
                    states.pop(name, None)
                else:
                    state = decode_key_state(one.value)
                    states[name] = state.watermark, state.offset
            elif key == CHECKPOINT_KEY:
                at = decode_checkpoint(one.value, stored_meaning(one.value or b""))
                p = decode_emitted(one.value, at)
                for event in self.events:
                    watermark, up_to = states.get(event.key, (0, -1))
                    has_it = event.time <= watermark and event.offset <= up_to
                    # A key whose windows are all empty has no state any more.
                    is_gone = event.time <= p.max_time - self.span_ms
                    if event.offset < at.next_offset and not (has_it or is_gone):
                        raise BrokenRuleError(f"counted: record {one.offset} is behind {event}")
                if p.next_offset < reached:
                    raise BrokenRuleError(f"p stays: {p.next_offset} after {reached}")
                reached = p.next_offset
                for emission in self.due(reached):
                    found = self.emitted.get(emission)
                    is_same = found is not None and found.transaction is one.transaction is not None
                    if found is None or not (found.moment < one.moment or is_same):
                        raise BrokenRuleError(f"emitted: {emission!r} is due at {reached}")
        return followed
