"""`slidestat spark backfill` and `slidestat spark rollup`, typed as docs/spark.md has them."""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from slidestat.cli.main import main
from slidestat.produce.events import Columns
from slidestat.produce.produce import produce_file
from tests.docs.markdown import ROOT, blocks, commands

EVENTS = 8_000
Type = Callable[[str], tuple[int, str, str]]

pytestmark = pytest.mark.usefixtures("jobs_in_one_session")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """`typed(command)` types it: its exit code, what it printed, and what it complained of."""

    def run(command: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, told.out, told.err

    return run


@pytest.fixture
def flights(tmp_path: Path) -> tuple[pa.Table, Path]:
    """The demo's first flights, half a day of them, and a file of them."""
    file = tmp_path / "flights.parquet"
    with resources.as_file(
        resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
    ) as all_of_them:
        table = pq.read_table(all_of_them).slice(0, EVENTS)
    pq.write_table(table, file)
    return table, file


def _documented(job: str, folder: Path) -> str:
    """A command of docs/spark.md, in a folder of the test's own: Spark has one of its own."""
    (command,) = [
        command
        for command in commands(ROOT / "docs" / "spark.md")
        if command.startswith(f"slidestat spark {job} ")
    ]
    for lake in ("history", "lake"):
        command = command.replace(f"--lake {lake} ", f"--lake {folder / lake} ")
    for file in ("flights.parquet", "requests.parquet"):
        command = command.replace(file, str(folder / file))
    return command


def _counts(said: str) -> dict[str, int]:
    found = re.findall(r"^([\w-]+): ([\d,]+) records$", said, re.MULTILINE)
    assert len(found) == len(said.splitlines())
    return {dataset: int(count.replace(",", "")) for dataset, count in found}


def _records(folder: Path) -> int:
    return ds.dataset(folder, format="parquet", partitioning="hive").count_rows()


@pytest.mark.long
def test_history_is_filled_in_and_rolled_up(
    typed: Type, flights: tuple[pa.Table, Path], tmp_path: Path
) -> None:
    """Backfill tells how many records each folder of the lake has got, and refuses to fill it
    twice; rollup shows figures of all airports in whose bounds the exact ones lie, or writes them.
    """
    table, _ = flights
    code, said, _ = typed(_documented("backfill flights", tmp_path))
    assert code == 0
    counts = _counts(said)
    assert counts.keys() == {"statistics", "late", "dead-letters", "synopses"}
    assert (counts["late"], counts["dead-letters"]) == (0, 0)
    lake = tmp_path / "history" / "flights"
    for dataset in ("statistics", "synopses"):
        assert counts[dataset] == _records(lake / dataset) > 100

    code, _, complaint = typed(_documented("backfill flights", tmp_path))
    assert code == 2
    assert complaint.startswith(f"error: {lake}/statistics has records already.\nwhat to do: ")

    code, said, _ = typed(_documented("rollup", tmp_path))
    assert code == 0
    _check_table(said, table)

    by_airport = tmp_path / "by-airport"
    command = f"slidestat spark rollup flights --lake {tmp_path / 'history'} --by 7d"
    code, said, _ = typed(f"{command} --into {by_airport}")
    figures = ds.dataset(by_airport, format="parquet").to_table().to_pylist()
    assert (code, said) == (0, f"{len(figures):,} figures in {by_airport}\n")
    exact = Counter(table["origin"].to_pylist())
    found = {row["group"]: row for row in figures if row["statistic"] == "count"}
    assert found.keys() == exact.keys()
    assert all(row["lower"] <= exact[key] <= row["upper"] for key, row in found.items())
    code, _, complaint = typed(f"{command} --into {by_airport}")
    assert code == 2
    assert "what to do: Give --into a folder that is not there yet." in complaint
    code, said, _ = typed(command)
    assert said.endswith("There are more than 200: --into DIR writes them all.\n")


def _check_table(said: str, table: pa.Table) -> None:
    heading, *lines = [re.split(r"  +", line.strip()) for line in said.splitlines()]
    assert heading == ["7d from (UTC)", "group", "statistic", "lower", "estimate", "upper"]
    assert {(start, group) for start, group, *_ in lines} == {("2000-12-28", "all")}
    found = {
        name: [float(number.replace(",", "")) for number in numbers]
        for _, _, name, *numbers in lines
    }
    delays = table["delay"].to_numpy()
    by_rank = np.sort(delays)
    items = Counter(table["destination"].to_pylist())
    exact = {
        "count": len(delays),
        "mean": delays.mean(),
        "mean: deviation": delays.std(),
        "maximum": delays.max(),
        "distinct_destination": len(items),
        **{f"quantile {p:g}": by_rank[int(p * EVENTS) - 1] for p in (0.5, 0.9, 0.99)},
        **{f"top_destination {item}": count for item, count in items.items()},
    }
    assert {name for name in exact if not name.startswith("top")} <= found.keys()
    assert {name for name, count in items.items() if count >= EVENTS / 100} <= {
        name.removeprefix("top_destination ") for name in found
    }
    for name, (lower, estimate, upper) in found.items():
        assert lower <= estimate <= upper
        if name in exact:  # as it is printed
            assert lower <= float(f"{exact[name]:.6g}") <= upper, name


@pytest.mark.long
def test_history_that_keeps_synopses_by_the_day_is_rolled_up_by_the_week(
    typed: Type, tmp_path: Path
) -> None:
    """Of 37 days each week has its window, whose bounds hold, up to the last watermark. Without
    --synopses the last week alone is there, and the rollup says so. Keys of a third of the events
    stay whole where there are five spans of them.
    """
    hours = np.arange(37 * 24) + 20_000 * 24
    table = pa.table(
        {
            "key": [f"k{hour % 3}" for hour in hours],
            "time": [(int(hour) * 60 + 7) * 60_000 for hour in hours],
            "value": [int(hour) % 10 for hour in hours],
        }
    )
    pq.write_table(table, tmp_path / "events.parquet")
    topology = tmp_path / "weekly.toml"
    topology.write_text(
        'name = "weekly"\nsource = "events"\nspan = "7d"\nevery = "6h"\nlateness = "5h"\n'
        '[[statistics]]\nkind = "count"\nepsilon = 0.02\n[[statistics]]\nkind = "maximum"\n'
    )
    fill = f"slidestat spark backfill {topology} --files {tmp_path / 'events.parquet'} "
    fill += "--partitions 1 --lake "
    roll = f"slidestat spark rollup {topology} --by 7d --group \"'all'\" --lake "
    exact = Counter(int(hour) // (7 * 24) for hour in hours[:-5])
    code, said, _ = typed(f"{fill}{tmp_path / 'daily'} --synopses 1d")
    assert code == 0
    assert _counts(said)["synopses"] == 3 * 2 * 37
    code, said, _ = typed(f"{roll}{tmp_path / 'daily'}")
    counts = [
        [float(number.replace(",", "")) for number in re.split(r"  +", line.strip())[-3:]]
        for line in said.splitlines()
        if "  count  " in line
    ]
    assert (code, len(counts)) == (0, len(exact))
    for (lower, estimate, upper), (_, count) in zip(counts, sorted(exact.items()), strict=True):
        assert lower <= count <= upper
        assert abs(estimate - count) <= 0.02 * count

    code, _, complaint = typed(f"{roll.replace('7d', '12h')}{tmp_path / 'daily'}")
    assert (code, "synopses that are 1d apart" in complaint) == (2, True)
    for wrong, why in (("8d", "of the span alone."), ("4h", "no multiple of `every`.")):
        code, _, complaint = typed(f"{fill}{tmp_path / 'wrong'} --synopses {wrong}")
        assert code == 2
        assert why in complaint
        assert "Give a multiple of `every`, '6h', up to the span, '7d'." in complaint

    code, said, _ = typed(f"{fill}{tmp_path / 'end'} --split-hot-keys")
    assert (code, said.splitlines()[-1]) == (
        0,
        "split by time: no key, none is hot over more than two spans",
    )
    code, said, _ = typed(f"{roll}{tmp_path / 'end'}")
    assert said.startswith("This lake has synopses of the end of its history alone")


@pytest.mark.long
def test_rankings_of_history_are_those_of_the_referee(
    typed: Type,
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command of the guide, with the two files of the guide to rankings. A backfill of the
    topology itself says who writes them. From a topic, an audit finds each of them right.
    """
    monkeypatch.chdir(tmp_path)
    for block in blocks(ROOT / "docs" / "rankings.md", "toml")[1:]:
        Path(block.text.splitlines()[0].removeprefix("# ")).write_text(block.text)
    # Of four partitions, each has events until the end.
    count = 8_000
    names = [f"/{number}" for number in range(40)]
    table = pa.table(
        {
            "path": [names[i % 40] for i in range(count)],
            "at": [1_764_072_000_000 + 50 * i for i in range(count)],
            "took_ms": [float(i % 97 * (1 + i % 40)) for i in range(count)],
        }
    )
    pq.write_table(table, "requests.parquet")
    command = _documented("backfill slow_ranked.toml", tmp_path)
    code, said, complaint = typed(command)
    assert code == 0, complaint
    counts = _counts(said)
    assert counts.keys() == {"rankings", "synopses", "late", "dead-letters"}
    minutes = count // 1_200
    assert counts["rankings"] == minutes == _records(tmp_path / "lake/slow-global/rankings")
    first = ds.dataset("lake/slow-global/rankings", partitioning="hive").head(1).to_pylist()[0]
    assert (first["parties"], first["provisional"]) == ([f"requests/{n}" for n in range(4)], None)

    for more, why in (
        ("--synopses 1h", "slow-global is a referee, which keeps no synopses of keys."),
        ("--split-hot-keys", "slow publishes its synopses, or which keys lead in rankings"),
    ):
        code, _, complaint = typed(f"{command} {more}")
        assert (code, why in complaint) == (2, True), complaint
    alone = command.replace("slow_ranked", "slow").replace("--partitions 4", "")
    code, said, _ = typed(alone)
    assert (code, said.splitlines()[-1]) == (
        0,
        "rankings: none, they are written by a backfill of a referee of this topology",
    )

    source = make_topic(partitions=2)
    Path("slow.toml").write_text(Path("slow.toml").read_text().replace('"requests"', f'"{source}"'))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for row in table.rename_columns(["key", "time", "took_ms"]).to_pylist():
        producer.produce(source, msgspec.json.encode(row), row["key"])
    assert producer.flush(60) == 0
    where = f"--lake {tmp_path / 'audited'} --bootstrap {bootstrap_servers}"
    assert typed(f"slidestat spark backfill slow_ranked.toml {where}")[0] == 0
    code, said, _ = typed(f"slidestat spark audit slow_ranked.toml {where}")
    assert code == 0, said
    assert "rankings audited: every promise kept" in said


def test_a_history_of_which_nothing_could_be_counted_is_an_error(
    typed: Type, flights: tuple[pa.Table, Path], tmp_path: Path
) -> None:
    """The exit code is 2, the reasons are told, nothing is written: the corrected command goes on
    in the same lake. What is refused of a history that could be read is told by its reason, texts
    of time that are no moments among it.
    """
    table, file = flights
    lake = tmp_path / "lake"
    fill = f"slidestat spark backfill flights --files {file} --lake {lake} --key origin"
    code, said, complaint = typed(f"{fill} --time delay --value delay")
    assert (code, said) == (2, "")
    assert (
        f"All {EVENTS:,} records of the history were refused: bad-time ({EVENTS:,});" in complaint
    )
    assert "say which columns are 'key', 'time' and the values" in complaint
    assert "(--time-unit)" in complaint

    texts = [str(moment) for moment in table["date"].to_pylist()]
    texts[5:9] = ["2001", "10:30", "yesterday", "2001-01-01T10:00:00+01:00"]
    mixed = table.set_column(table.column_names.index("date"), "date", pa.array(texts))
    pq.write_table(mixed, file)
    code, said, _ = typed(f"{fill} --time date --value delay")
    assert code == 0
    first, *_ = said.splitlines()
    assert first == "date has times without an offset: they are read in UTC."
    assert "dead-letters: 3 records" in said
    assert said.endswith("refused as bad-time: 3\n")


def test_a_topic_is_filled_in_once_it_has_records(
    typed: Type,
    flights: tuple[pa.Table, Path],
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    """Without --files the source is read. One without records is told, with what to do; nothing is
    written, and when events have come the same command fills the lake. An audit finds every figure
    of it as good as a worker's.
    """
    _, file = flights
    source = make_topic(partitions=2)
    topology = tmp_path / "latency.toml"
    topology.write_text(
        f'name = "late"\nsource = "{source}"\nspan = "6h"\nevery = "1h"\n'
        '[[statistics]]\nkind = "count"\n'
    )
    lake = tmp_path / "lake"
    command = f"slidestat spark backfill {topology} --lake {lake} --bootstrap {bootstrap_servers}"
    code, said, complaint = typed(command)
    assert (code, said) == (2, "")
    assert complaint == (
        f"error: The topic '{source}' has no records.\nwhat to do: Send events to it first.\n"
    )
    assert not lake.exists()

    produce_file(file, bootstrap_servers, source, columns=Columns("origin", "date", "delay"))
    code, said, _ = typed(command)
    assert code == 0
    counts = _counts(said)
    assert counts["statistics"] == _records(lake / "late" / "statistics") > 100
    assert counts["dead-letters"] == 0
    code, said, _ = typed(command.replace("backfill", "audit"))
    assert code == 0
    assert said.endswith(f"{counts['statistics']:,} emissions audited: every promise kept\n")
