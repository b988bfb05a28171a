"""A file with several columns, and a topology written with flags alone: no code at all."""

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from slidestat.declare.forms.flags import topology_of_flags
from slidestat.schemas.emission import Emission
from tests.broker.workers import Worker, distinct, read_topic, undisturbed, wait_until

START_MS = 1_700_000_000_000


def write_flights(file: Path, count: int) -> int:
    """Flights as a CSV, some without a delay; how many those are."""
    random = Random(5)
    cancelled = 0
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["origin", "date", "dest", "delay", "miles"])
        for i in range(count):
            delay = "" if random.random() < 0.05 else random.randint(-20, 300)
            cancelled += delay == ""
            places = random.sample(["JFK", "LGA", "EWR"], 2)
            writer.writerow([places[0], START_MS + 500 * i, places[1], delay, 0.5 * i])
    return cancelled


def test_several_columns_and_flags_alone(
    bootstrap_servers: str, make_topic: Callable[..., str], topic_name: str, tmp_path: Path
) -> None:
    """The statistics of two columns are those of the same topology without Kafka; what lacks one
    of the columns counts for the others; the memory of a key is told before the partitions.
    """
    file = tmp_path / "flights.csv"
    cancelled = write_flights(file, 4_000)
    source = make_topic("source", 2)
    columns = ("--key", "origin", "--time", "date", *("--with", "delay"), *("--with", "miles"))
    command = [sys.executable, "-m", "slidestat", "produce", str(file), "--topic", source, *columns]
    subprocess.run([*command, "--bootstrap", bootstrap_servers], check=True, capture_output=True)

    statistics = ["count", "sum:miles:decimals=1", "mean:delay:epsilon=0.05"]
    flags = [
        *("--source", source, "--name", topic_name, "--span", "10m", "--every", "1m"),
        *("--window", "1m", "--window", "10m"),
        *(word for statistic in statistics for word in ("--statistic", statistic)),
    ]
    topology = topology_of_flags(
        {
            **{"source": source, "name": topic_name, "span": "10m", "every": "1m"},
            **{"windows": ["1m", "10m"], "statistics": statistics},
        }
    )
    expected = undisturbed(topology, read_topic(bootstrap_servers, source))
    with Worker(flags, tmp_path / "data", bootstrap_servers) as worker:
        worker.await_ready()
        wait_until(
            lambda: (
                distinct(read_topic(bootstrap_servers, topology.output_topic)) == expected.emissions
            ),
            "all emissions",
            60,
        )
        worker.stop()
    said = worker.said()
    assert said.index(f"{topic_name}: memory of a key by its events") < said.index("ready")
    assert cancelled > 0
    assert expected.dead_letters == {}
    assert read_topic(bootstrap_servers, topology.dead_letter_topic) == {0: [], 1: []}
    emission = msgspec.json.decode(next(iter(expected.emissions.values())), type=Emission)
    assert {figure.statistic for figure in emission.figures} == {"count", "sum_miles", "mean_delay"}
