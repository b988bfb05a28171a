"""States of keys, checkpoints and the tables of partitions, as they are stored."""

from functools import partial

import msgspec
from msgspec.structs import astuple

from slidestat.engine.alerts.alerting import Standing, alert_id
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Counters,
    Loss,
    Recent,
    Slot,
    decode_checkpoint,
    encode_checkpoint,
    stored_mark,
    stored_slots,
)
from slidestat.engine.keys.key_state import KeyState, decode_key_state, encode_key_state
from slidestat.engine.records import LogMark
from tests.golden.golden import NOON, Golden

TABLES = [
    "partition-1",
    "partition-2",
    "partition-1-checkpoint-2",
    "referee-1",
    "referee-1-with-offsets",
]
STANDINGS = {
    alert_id("slow"): Standing(True, False, 0, NOON),
    alert_id("zu viel"): Standing(False, True, 2**32 - 1, NOON - 60_000),
    alert_id(""): Standing(False, False, 1, -1),
}
STANDING = bytes.fromhex(
    "0115c19f35b0be3a4803000000000068e5cf8b010000"
    "1742a1bb85295f8c00ffffffffa07de4cf8b010000"
    "e4a6a0577479b2b40201000000ffffffffffffffff"
)
# Of a record with one figure, in which the condition held: a count in [2, 3].
WRITTEN = bytes.fromhex("0101001122334455667700000000000000400000000000000840")
KEY_STATES = {
    "key-state-1/empty": KeyState(-(2**62), -1, -(2**62), 0, ()),
    "key-state-1/three-synopses": KeyState(NOON, 2**40, NOON + 5, 12, (b"one", b"", b"three")),
    "key-state-2/quota": KeyState(NOON, 7, NOON + 5, 12, (b"one",), bytes(range(48))),
    "key-state-3/alerts": KeyState(NOON, 7, NOON + 5, 12, (b"one", b""), b"", STANDING),
    "key-state-3/alerts-and-quota": KeyState(NOON, 7, NOON, 1, (), bytes(range(24)), STANDING),
    "key-state-4/written": KeyState(NOON, 7, NOON, 1, (b"one",), b"", b"", WRITTEN),
    "key-state-4/all": KeyState(NOON, 7, NOON, 1, (), bytes(range(24)), STANDING, WRITTEN),
}
SLOTS = (Slot("a count"), Slot(""), Slot("a sum", NOON + 1, 2**40))
MEANING = {"name": "frozen", "span": "600000 ms"}
CHECKPOINTS = {
    "checkpoint-1/new": Checkpoint(0),
    "checkpoint-1/counted": Checkpoint(2**40, NOON, Counters(10, 7, 2, 1)),
    "checkpoint-2/of-a-topic": Checkpoint(
        7,
        NOON,
        Counters(7, 7),
        "k7jLpHrTQXq0N2hs5FvB8g",
        recent=Recent(NOON - 3, (NOON, NOON - 3, NOON - 9), (0, 0, 6)),
    ),
    "checkpoint-2/lost": Checkpoint(
        2**40,
        NOON,
        Counters(10, 7, 2, 1, 30),
        "k7jLpHrTQXq0N2hs5FvB8g",
        Loss(30, NOON - 9, NOON + 9, is_open=False),
    ),
    "checkpoint-3/left-out": Checkpoint(
        2**40,
        NOON,
        Counters(10, 7, 2, 1, left_out={"mean": 3, "sum": 3}),
        "k7jLpHrTQXq0N2hs5FvB8g",
    ),
    "checkpoint-4/statistics-added": Checkpoint(2**40, NOON, Counters(10, 7, 2, 1)),
    "checkpoint-2/marked": Checkpoint(7, NOON, Counters(7, 7), "k7jLpHrTQXq0N2hs5FvB8g"),
    "checkpoint-4/marked": Checkpoint(2**40, NOON, Counters(10, 7, 2, 1)),
}
MARK = LogMark(2**40 + 1, 12, 2**32 - 1)


def _key_state(data: bytes) -> dict[str, object]:
    state = decode_key_state(data)
    return {
        "times and numbers": [state.watermark, state.offset, state.last_time, state.number],
        "synopses": [synopsis.hex() for synopsis in state.synopses],
        "quota": state.used.hex(),
        "alerts": state.alerts.hex(),
        **({"written": state.written.hex()} if state.written else {}),
    }


def _checkpoint(data: bytes) -> dict[str, object]:
    checkpoint, slots = decode_checkpoint(data, MEANING), stored_slots(data)
    counters, recent, loss = checkpoint.counters, checkpoint.recent, checkpoint.loss
    return {
        "position": [checkpoint.next_offset, checkpoint.max_time, checkpoint.topic_id],
        "read, counted, dead, late": [
            *(counters.read, counters.counted, counters.dead, counters.late)
        ],
        "lost, passed over": [counters.lost, counters.passed_over],
        "left out": counters.left_out,
        "recent": [recent.front, list(recent.times), list(recent.steps)],
        "loss": loss and [loss.records, loss.first, loss.last, loss.is_open],
        **({"slots": [list(astuple(slot)) for slot in slots]} if slots else {}),
        **({"mark": list(astuple(mark))} if (mark := stored_mark(data)) else {}),
    }


def _encode(name: str, checkpoint: Checkpoint) -> bytes:
    mark = MARK if name.endswith("/marked") else None
    return encode_checkpoint(checkpoint, MEANING, slots=SLOTS if "-4/" in name else (), mark=mark)


def _rows(data: bytes) -> list[list[object]]:
    return [[key, len(value)] for key, value in msgspec.msgpack.decode(data)]


GOLDEN = [
    *(
        Golden(name, _key_state, partial(encode_key_state, *state))
        for name, state in KEY_STATES.items()
    ),
    *(
        Golden(
            name,
            _checkpoint,
            # Of version 1, none is written any more.
            partial(_encode, name, checkpoint) if name >= "checkpoint-2" else None,
            version_at=1,
        )
        for name, checkpoint in CHECKPOINTS.items()
    ),
    # What becomes of them is tested by `test_frozen_partitions.py`.
    *(Golden(name, _rows, None, version_at=None) for name in TABLES),
]
