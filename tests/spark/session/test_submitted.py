"""Jobs that Spark's own spark-submit starts, with the package in a zip."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pyspark
import pytest

from slidestat.spark.jars import connector_jars
from slidestat.spark.spark_java import find_spark_java
from tests.docs.markdown import ROOT, blocks
from tests.spark.lake_topics import NOON_MS, emission, make_topics


@pytest.mark.needs_spark
def test_the_job_of_the_documents_ingests_from_a_broker(
    make_topic: Callable[..., str], bootstrap_servers: str, tmp_path: Path
) -> None:
    """The program of docs/spark.md as it stands but for address, names and place, submitted with a
    zip of the package: it imports the code of the zip, and brings each record of a real topic. Of a
    cluster's defaults it takes none that passes over files in silence.
    """
    topics = make_topics(make_topic, bootstrap_servers)
    topics.emit([emission(topics.name, f"k{i}", NOON_MS + i) for i in range(20)])
    lake = tmp_path / "lake"
    programs = blocks(ROOT / "docs" / "spark.md", "python")
    (program,) = [block for block in programs if block.name == "job.py"]
    job = tmp_path / "job.py"
    job.write_text(
        program.text.replace("s3a://bucket/lake", str(lake))
        .replace("broker:9092", bootstrap_servers)
        .replace("latency", topics.name)
        + "\n    print('ignored:', spark.conf.get('spark.sql.files.ignoreMissingFiles'))"
        + "\nimport slidestat\nprint(slidestat.__file__)\n"
    )
    package = tmp_path / "slidestat.zip"
    commands = "".join(block.text for block in blocks(ROOT / "docs" / "spark.md", "console"))
    (zipping,) = [line for line in commands.splitlines() if " -m zipfile " in line]
    arguments = zipping.removeprefix("$ python ").replace("slidestat.zip", str(package)).split()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "JAVA_HOME": str(find_spark_java().executable.parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        # A quick start is worth more here than fast code.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    jars = connector_jars()
    run = subprocess.run(
        [
            str(Path(pyspark.__path__[0], "bin", "spark-submit")),
            *("--master", "local[1]", "--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.sql.session.timeZone=UTC"),
            *("--conf", "spark.sql.files.ignoreMissingFiles=true"),
            *("--jars", ",".join(map(str, jars)), "--py-files", str(package), str(job)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert f"{package}/slidestat/__init__.py" in run.stdout
    assert "ignored: false" in run.stdout
    rows = ds.dataset(lake / topics.name / "statistics", partitioning="hive").to_table()
    assert sorted(rows["event_key"].to_pylist()) == sorted(f"k{i}" for i in range(20))
    values = [msgspec.json.decode(value) for value in rows["value"].to_pylist()]
    assert {value["topology"] for value in values} == {topics.name}
