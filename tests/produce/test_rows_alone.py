"""What is sent of a row depends on that row alone, and reads back as what its cells hold.

Files of every format are generated, 70,000 cells; the oracle of numbers is Python's Decimal.
"""

import csv
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidestat.produce import readers
from slidestat.produce.events import Columns, encode
from slidestat.produce.files import event_file

TIME_MS = 978_307_200_000
ROWS = 600
COLUMNS = Columns("k", "t", "v", more=("m", "n"), texts=("s",))
NAMES = COLUMNS.names

TEXTS = (
    *("", "007", "1.10", "1.1", "12e4", "12E4", "+5", "-.5", ".5", "1.", " 12 ", "1e999", "NaN"),
    *("inf", "0x10", "1_0", "true", "null", "Zürich", 'a"b', "a\\b", "a,b", "tab\t", "{}", "[1]"),
    *("9007199254740993", "12345678901234567890", "9" * 40, "-0", "0.1", "1e-7", "2001-01-01"),
)
NUMBERS = (
    *("0", "-0", "7", "7.0", "7.50", "1e3", "1E+3", "1e-7", "9007199254740993", "12345678901"),
    *("9223372036854775807", "18446744073709551616", "0.10000000000000000001", "1e22", "-1.5"),
    *("18446744073709551616.0", "1.8446744073709551616e19", "1E22", "-0.0e9"),
)


class Sent(NamedTuple):
    """The record of a row."""

    key: bytes | None
    value: bytes


def written(rng: random.Random) -> str:
    """A cell of CSV."""
    if rng.random() < 0.4:
        return rng.choice(TEXTS)
    whole = str(rng.randrange(10 ** rng.randrange(1, 21)))
    return rng.choice((whole, f"{whole}.{rng.randrange(10**6)}", f"x{whole}", f"-{whole}"))


def json_cell(rng: random.Random) -> str:
    """A cell of JSON lines, as it is written."""
    match rng.randrange(6):
        case 0:
            return rng.choice(NUMBERS)
        case 1:
            return json.dumps(rng.choice(TEXTS), ensure_ascii=rng.random() < 0.5)
        case 2:
            return rng.choice(("true", "false", "null", "[1, 2.50]", '{"a": "\\u00e9"}', "1e999"))
        case 3:
            return repr(rng.lognormvariate(0, 20))
        case 4:
            return str(rng.randrange(-(2**70), 2**70))
    return json.dumps(f"k{rng.randrange(9)}")


def whole(bits: int, least: int) -> Callable[[random.Random], int]:
    return lambda rng: max(least, min(least + 2**bits - 1, int(rng.gauss(0, 2 ** (bits - 2)))))


def double(rng: random.Random) -> float:
    odd = (0.0, -0.0, 12345678901.0, 2.0**53, 2.0**63, 1e22, 1e-7, 5e-324, 1.7e308, float("nan"))
    return rng.choice((rng.choice(odd), float(rng.randrange(10**15)), rng.gauss(0, 1e6)))


def moment(rng: random.Random) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=rng.randrange(-(10**15), 10**16))


KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int8": (pa.int8(), whole(8, -128)),
    "int64": (pa.int64(), whole(64, -(2**63))),
    "uint64": (pa.uint64(), lambda rng: rng.randrange(2**64)),
    "double": (pa.float64(), double),
    "float": (pa.float32(), lambda rng: float(np.float32(rng.gauss(0, 10 ** rng.randrange(20))))),
    "truth": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "decimal": (pa.decimal128(38, 10), lambda rng: Decimal(rng.randrange(10**28)).scaleb(-10)),
    "small": (pa.decimal128(20, 12), lambda rng: Decimal(rng.randrange(10**4)).scaleb(-12)),
    "text": (pa.string(), lambda rng: rng.choice(TEXTS)),
    "long text": (pa.large_string(), lambda rng: rng.choice(TEXTS)),
    "code": (pa.dictionary(pa.int32(), pa.string()), lambda rng: rng.choice(TEXTS)),
    "bytes": (pa.binary(), lambda rng: rng.choice(("x", "é", "7")).encode()),
    "moment": (pa.timestamp("us"), moment),
    "day": (pa.date32(), lambda rng: date(1970, 1, 1) + timedelta(rng.randrange(-9_999, 99_999))),
    "list": (pa.list_(pa.int64()), lambda rng: [rng.randrange(2**60), 7][: rng.randrange(3)]),
    "object": (
        pa.struct([("a", pa.float64()), ("b", pa.list_(pa.string()))]),
        lambda rng: {"a": float(rng.randrange(10**12)), "b": [rng.choice(TEXTS)]},
    ),
    "map": (pa.map_(pa.string(), pa.int64()), lambda rng: [(rng.choice("ab"), rng.randrange(9))]),
}


def parsed(value: bytes) -> Any:
    return json.loads(value, parse_int=Decimal, parse_float=Decimal)


def by_time(path: Path, columns: Columns = COLUMNS) -> dict[int, Sent]:
    """What is sent of a file, by the times, which are those of rows."""
    found: dict[int, Sent] = {}
    for rows in readers.Reader(event_file(path)).batches(columns.names):
        records = encode(rows, columns)
        sent = map(Sent, records.keys, records.values)
        found |= dict(zip(records.timestamps_ms, sent, strict=True))
        assert len(records.values) + records.bad == len(rows.numbers) + len(rows.malformed)
    return found


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, NAMES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = (", ".join(f'"{name}": {cell}' for name, cell in row.items()) for row in rows)
    path.write_text("".join(f"{{{line}}}\n" for line in lines), encoding="utf-8")


def parquet_writer(kinds: dict[str, pa.DataType]) -> Callable[[Path, list[dict[str, Any]]], None]:
    schema = pa.schema([("t", pa.int64()), *kinds.items()])

    def write(path: Path, rows: list[dict[str, Any]]) -> None:
        pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=97)

    return write


def generated(make: Callable[[random.Random], Any], seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {name: TIME_MS + row if name == "t" else make(rng) for name in NAMES} for row in range(ROWS)
    ]


def hold_in_any_company(
    folder: Path,
    suffix: str,
    rows: list[dict[str, Any]],
    write: Callable[[Path, list[dict[str, Any]]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> dict[int, Sent]:
    """Send rows together, in another order, in batches of other sizes, and some of them alone."""
    path = folder / f"rows{suffix}"
    write(path, rows)
    together = by_time(path)
    write(path, random.Random(1).sample(rows, len(rows)))
    assert by_time(path) == together
    with monkeypatch.context() as patch:
        patch.setattr(readers, "BATCH_ROWS", 7)
        patch.setattr(readers, "_BLOCK_BYTES", 500)
        patch.setattr(readers, "_CSV_BLOCK_BYTES", 1_500)
        assert by_time(path) == together
    for row in rows[:: ROWS // 20]:
        write(path, [row])
        time = row["t"]
        assert by_time(path) == {t: sent for t, sent in together.items() if t == time}
    return together


def test_rows_of_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of CSV: numbers with their own digits, or texts as they are; keys are texts."""
    rows = generated(written, 1)
    sent = hold_in_any_company(tmp_path, ".csv", rows, write_csv, monkeypatch)
    assert len(sent) > ROWS * 0.9
    for row in rows:
        if row["t"] not in sent:
            assert not (row["k"] and row["v"])
            continue
        record = sent[row["t"]]
        event = parsed(record.value)
        assert record.key == row["k"].encode()
        assert event["key"] == row["k"]
        assert event.get("s", "") == row["s"]
        for name, cell in (("value", row["v"]), ("m", row["m"]), ("n", row["n"])):
            found = event.get(name, "")
            assert found == cell or (isinstance(found, Decimal) and found == Decimal(cell.strip()))
            if name != "value" and isinstance(found, Decimal):
                assert f'"{name}":{cell}'.encode() in record.value


def test_rows_of_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of JSON lines are sent as they are written; one number has one text as a key."""
    rows = generated(json_cell, 2)
    sent = hold_in_any_company(tmp_path, ".jsonl", rows, write_jsonl, monkeypatch)
    assert len(sent) > ROWS * 0.4
    texts: dict[Decimal, set[str]] = {}
    for row in rows:
        if row["t"] not in sent:
            unsent = [row[name] for name in "kvmns"]
            assert any(cell in ("null", '""', "1e999") or cell[0] in "[{" for cell in unsent)
            continue
        record = sent[row["t"]]
        event = parsed(record.value)
        for name, sent_as in (("v", "value"), ("m", "m"), ("n", "n")):
            assert event.get(sent_as) == parsed(row[name].encode())
            if row[name] != "null":
                assert f'"{sent_as}":{row[name]}'.encode() in record.value
        key = parsed(row["k"].encode())
        if isinstance(key, Decimal):
            assert Decimal(event["key"]) == key
            texts.setdefault(key, set()).add(event["key"])
        elif isinstance(key, str):
            assert event["key"] == key
    assert all(len(of_number) == 1 for of_number in texts.values())
    assert "12345678901" in texts[Decimal(12345678901)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_parquet(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of Parquet are sent as their column types them, exactly."""
    arrow, make = KINDS[kind]
    rng = random.Random(kind)
    rows = [
        {
            "t": TIME_MS + row,
            "k": "a" if pa.types.is_nested(arrow) else make(rng),
            "v": make(rng),
            **{name: make(rng) if rng.random() < 0.9 else None for name in "mns"},
        }
        for row in range(ROWS)
    ]
    if pa.types.is_nested(arrow):
        rows = [row | {"s": "a"} for row in rows]
    types = {name: pa.string() if rows[0][name] == "a" else arrow for name in "kvmns"}
    sent = hold_in_any_company(tmp_path, ".parquet", rows, parquet_writer(types), monkeypatch)
    assert len(sent) > ROWS * 0.5
    for row in rows:
        if row["t"] not in sent:
            assert row["k"] in ("",) or np.nan in (row["k"], row["v"]) or kind == "double"
            continue
        event = parsed(sent[row["t"]].value)
        for name, sent_as in (("v", "value"), ("m", "m"), ("n", "n")):
            assert_same(arrow, row[name], event.get(sent_as))


def assert_same(kind: pa.DataType, cell: Any, found: Any) -> None:
    """Compare what was read back with a cell."""
    match cell:
        case None:
            assert found is None
        case bool():
            assert found is cell
        case float() if cell != cell:
            assert found is None
        case float():
            if kind == pa.float32():
                assert np.float32(str(found)) == np.float32(cell)
            else:
                assert float(found) == cell
            if cell.is_integer() and abs(cell) < 2**63:
                assert str(found) == str(int(cell))
        case int() | Decimal():
            assert found == cell
        case bytes():
            assert found == cell.decode()
        case datetime():
            assert datetime.fromisoformat(found) == cell
        case date():
            assert found == cell.isoformat()
        case dict():
            assert found["b"] == cell["b"]
            assert found["a"] == Decimal(cell["a"])
        case [(str(), _), *_]:
            assert found == dict(cell)
        case _:
            assert found == cell


def test_formats_agree(tmp_path: Path) -> None:
    """Parquet, JSON lines and CSV of the same data give the same events."""
    rng = random.Random(3)
    rows = [
        {
            "t": TIME_MS + row,
            "k": rng.choice((f"k{row % 7}", "007", "1.10", "é")),
            "v": abs(double(rng)) if row % 3 else float(rng.randrange(10**15)),
            "m": rng.randrange(-(2**63), 2**63),
            "n": f"n{row}",
            "s": rng.choice(TEXTS[1:]),
        }
        for row in range(ROWS)
    ]
    rows = [row for row in rows if row["v"] == row["v"]]
    for name, write in (
        (
            "a.parquet",
            parquet_writer(
                {"k": pa.string(), "v": pa.float64(), "m": pa.int64()}
                | {"n": pa.string(), "s": pa.string()}
            ),
        ),
        ("a.jsonl", lambda path, rows: write_jsonl(path, [as_json(row) for row in rows])),
        ("a.csv", write_csv),
    ):
        write(tmp_path / name, rows)
    first, *others = (by_time(tmp_path / f"a.{kind}") for kind in ("parquet", "jsonl", "csv"))
    assert len(first) == len(rows)
    for other in others:
        assert [sent.key for sent in other.values()] == [sent.key for sent in first.values()]
        for mine, its in zip(first.values(), other.values(), strict=True):
            a, b = parsed(mine.value), parsed(its.value)
            assert float(a.pop("value")) == float(b.pop("value"))
            assert a == b


def as_json(row: dict[str, Any]) -> dict[str, str]:
    return {name: json.dumps(cell) for name, cell in row.items()}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_in_any_company(unit: str) -> None:
    """Texts of times of every kind, together and alone; nanoseconds have 19 digits since 2001."""
    from slidestat.options import TimeUnit
    from slidestat.produce.cells import epoch_ms

    rng = random.Random(4)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    texts: list[str] = []
    for _ in range(150):
        second = rng.randrange(10**9, 2 * 10**9)
        fraction = rng.randrange(per_second)
        count = second * per_second + fraction
        stamp = datetime.fromtimestamp(second, UTC)
        texts += [
            str(count),
            f"{count}.{rng.randrange(10**3)}",
            f"{count:.6e}",
            stamp.strftime("%Y-%m-%dT%H:%M:%SZ"),
            stamp.strftime("%Y-%m-%d %H:%M:%S.") + str(rng.randrange(10 ** rng.randrange(1, 9))),
            stamp.strftime("%Y-%m-%d"),
            rng.choice(("soon", "", "2001-02-30", f"+{count}", f" {count} ", "9" * 19, "9" * 25)),
        ]
    together = epoch_ms(pa.array(texts), TimeUnit(unit)).to_pylist()
    alone = [epoch_ms(pa.array([text]), TimeUnit(unit))[0].as_py() for text in texts]
    assert together == alone
    for text, ms in zip(texts, alone, strict=True):
        if text.isdigit() and len(text) < 20 and int(text) < 2**53:
            assert ms == int(text) * 1_000 // per_second
    whole = [text for text in texts if text.isdigit() and len(text) < 19 + (unit == "ns")]
    expected = [int(text) * 1_000 // per_second for text in whole if int(text) < 2**63]
    assert epoch_ms(pa.array([t for t in whole if int(t) < 2**63]), TimeUnit(unit)).to_pylist() == (
        expected
    )
