"""Whatever lies among the emissions of a lake, an audit ends with a verdict, and a right one."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import typer
from pyspark.sql import SparkSession

from slidestat import TopologyDriver
from slidestat.cli.spark import audit, ingest, report
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason
from slidestat.schemas.emission import Emission, Figure, emission_key
from slidestat.spark.lake.lake import Lake
from slidestat.spark.lake.locks import locked
from tests.spark.lake_topics import NOON_MS, Topics, make_topics

pytestmark = pytest.mark.usefixtures("jobs_in_one_session")
TOPOLOGY = """
name = "{name}"
source = "{name}"
span = "10m"
windows = ["10m"]
every = "1m"
lateness = "0s"
[[statistics]]
kind = "count"
[[statistics]]
kind = "distinct"
field = "item"
"""


@pytest.fixture
def topics(make_topic: Callable[..., str], bootstrap_servers: str) -> Topics:
    return make_topics(make_topic, bootstrap_servers)


def emissions_of(topics: Topics, file: Path) -> list[Emission]:
    """What a worker makes of an hour of events, among which are records that are none."""
    driver = TopologyDriver(load_topology(str(file)))
    for i in range(600):
        event = {"key": "k", "time": NOON_MS + 6_000 * i, "item": f"i{i % 50}"}
        record = msgspec.json.encode(event)
        if i % 100 == 50:  # Nobody reads the note, whatever is in it.
            record = record[:-1] + b',"note":["\xff",1e99999999999999999999]}'
        driver.send_bytes(record)
        topics.event(record)
    return driver.emissions


def verdict(topics: Topics, file: Path, lake: str) -> int:
    """Ingest, and the exit code of an audit."""
    ingest(str(file), lake, bootstrap=topics.bootstrap)
    try:
        audit(str(file), lake, bootstrap=topics.bootstrap)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def test_what_is_wrong_is_told_and_nothing_else(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    """Records that are no emission to us, though Spark reads them; figures that nobody declared,
    by a name that is markup; errors and a confidence that are not those declared, so that anything
    would do; numbers beyond all measure; emissions of partitions that there are not. Two audits at
    once would each remove what the other finds.
    """
    file, lake = tmp_path / "topology.toml", str(tmp_path / "lake")
    file.write_text(TOPOLOGY.format(name=topics.name))
    mark = fingerprint_of(load_topology(str(file)))
    right = emissions_of(topics, file)

    def altered(number: int, place: int, **changes: object) -> Emission:
        figures = list(right[number].figures)
        figures[place] = msgspec.structs.replace(figures[place], **changes)
        return msgspec.structs.replace(right[number], figures=figures)

    text = json.loads(msgspec.json.encode(right[5]))
    text["figures"][0]["estimate"] = "5"
    foreign = Figure("[/b]", 1.0, 1.0, 1.0, window_ms=600_000, confidence=0.0)
    wrong = {
        6: msgspec.structs.replace(right[6], figures=[*right[6].figures, foreign]),
        7: altered(7, 0, relative_error=1e9, estimate=1e6, lower=0.0, upper=1e9),
        8: altered(8, 1, confidence=0.0, estimate=1e6),
        9: altered(9, 0, estimate=1e308, lower=-1e308, upper=1e308, relative_error=5e-324),
        10: msgspec.structs.replace(right[10], source_partition=99, key="nowhere"),
        12: altered(12, 1, estimate=None, lower=None, upper=None),
    }
    key = emission_key(topics.name, "k", right[5].window_end_ms)
    record = key, json.dumps(text).encode(), NOON_MS, [("declaration", mark.encode())]
    topics._send(f"{topics.name}-statistics", [record])
    topics.emit([wrong.get(i, it) for i, it in enumerate(right) if i != 5], mark)
    assert verdict(topics, file, lake) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[-1].endswith("PROMISES BROKEN")
    for number, told in {
        5: "k at {}: no emission: Expected `float | null`, got `str`",
        6: "k at {}: not declared: statistic [/b], window_ms 600000",
        7: "k at {}: count promises less than is declared: relative_error 1000000000.0",
        8: "k at {}: distinct_item promises less than is declared: confidence 0.0",
        9: "k at {}: statistic count window_ms 600000 more off than promised (1e+308 in",
        10: "k at {}: not emitted",
        12: "k at {}: statistic distinct_item window_ms 600000 no figure",
    }.items():
        assert f"broken: {told.format(right[number].window_end_ms)}" in said, said
    assert "nowhere at" in said
    report(str(file), lake, ["k"], tmp_path / "page.html")
    # A letter about nothing that there is.
    headers = DeadLetterHeaders(Reason.LATE, "?", topics.source, 2**40, -5, topics.name).encode()
    topics._send(f"{topics.name}-late", [(b"?", b"?", NOON_MS, headers)])
    assert verdict(topics, file, lake) == 1
    strange = [
        msgspec.structs.replace(right[3], source_partition=2**40),
        msgspec.structs.replace(right[3], source_offset=-2),
        msgspec.structs.replace(right[3], window_end_ms=-(2**63)),
    ]
    values = map(msgspec.json.encode, strange)
    topics._send(f"{topics.name}-statistics", [(key, value, NOON_MS, []) for value in values])
    with pytest.raises(SlidestatError, match=r"^3 records of .* are no emissions"):
        verdict(topics, file, lake)
    place = Lake(lake, topics.name)
    with (
        locked(spark, place, "audit", path=place.audit_lock),
        pytest.raises(SlidestatError, match=r"The audit of .* is writing to this lake"),
    ):
        verdict(topics, file, lake)
