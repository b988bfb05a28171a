"""Kafka Connect, which Apache Kafka ships, reads a worker's rows as the guide configures it."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slidestat.local.jars import fetched_jars, kafka_classpath
from slidestat.local.java import find_java
from slidestat.local.settings import HOST, java_command, pick_free_ports
from tests.broker.conftest import BODY, MakeStage, make_stage  # noqa: F401  pytest takes it here
from tests.broker.workers import DRAIN_S, events, produce, wait_until
from tests.docs.markdown import ROOT, blocks

LOCK = Path(__file__).with_name("connect-4.1.1.sha256")
GUIDE = ROOT / "docs" / "rows.md"
ROWS = BODY + 'output_shape="rows", output_format="connect-json",'


def settings_of(text: str) -> dict[str, str]:
    """The settings of a properties file."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def written(folder: Path, name: str, settings: dict[str, str]) -> Path:
    file = folder / name
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


@contextmanager
def connect(folder: Path, worker: dict[str, str], sink: dict[str, str]) -> Iterator[Path]:
    """A standalone worker of Connect that runs a sink; its log."""
    jars = [*kafka_classpath(), *fetched_jars(LOCK, "Kafka Connect")]
    files = [written(folder, "worker.properties", worker), written(folder, "sink.properties", sink)]
    main = ["org.apache.kafka.connect.cli.ConnectStandalone", *files]
    log = folder / "connect.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, java_command(find_java().executable, jars, folder, main))),
            stdout=output,
            stderr=output,
        )
        try:
            yield log
        finally:
            process.terminate()
            process.wait(30)


def columns(line: str) -> dict[str, object]:
    """What the file sink writes of a record with a schema; it leaves out what is null."""
    found = re.fullmatch(r"Struct\{(.*)\}", line)
    assert found, line
    texts = dict(part.split("=", 1) for part in found[1].split(","))
    return {
        name: text if name == "key" else text == "true" if name == "provisional" else float(text)
        for name, text in texts.items()
    }


def test_the_file_sink_has_every_row(make_stage: MakeStage, tmp_path: Path) -> None:  # noqa: F811
    """Each with its columns by name and type, nulls left out, in the order of its partition."""
    stage = make_stage(body=ROWS, name="rows")
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    stage.drain()
    values = [
        json.loads(record.value or b"")
        for records in stage.read(stage.topology.output_topic).values()
        for record in records
    ]
    expected = [value["payload"] for value in values]
    assert len(expected) > 20
    worker, sink = (settings_of(block.text) for block in blocks(GUIDE, "properties")[:2])
    file = tmp_path / "rows.txt"
    worker |= {
        "bootstrap.servers": stage.bootstrap,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": f"http://{HOST}:{pick_free_ports(1)[0]}",
    }
    sink |= {"topics": stage.topology.output_topic, "file": str(file)}
    with connect(tmp_path, worker, sink) as log:

        def lines() -> list[str]:
            return file.read_text().splitlines() if file.exists() else []

        wait_until(lambda: len(lines()) >= len(expected), f"rows are there: {log}", DRAIN_S)

        def place(row: dict[str, object]) -> tuple[str, ...]:
            return str(row["key"]), str(row["window_ms"]), str(row["window_end_ms"])

        plain = [
            {
                name: float(value) if type(value) is int else value
                for name, value in row.items()
                if value is not None
            }
            for row in expected
        ]
        read = [columns(line) for line in lines()]
        assert sorted(read, key=place) == sorted(plain, key=place)
    assert "ERROR" not in log.read_text()
