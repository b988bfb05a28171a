"""Executors of their own processes, as a cluster has them; the package inside an archive."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.docs.markdown import ROOT
from tests.spark.lake_topics import NOON_MS

SOURCES = ROOT / "app"
MASTER = "local-cluster[1,2,1024]"
SESSION = f"""
from slidestat.spark.session import spark_session
from slidestat.errors import SlidestatError
try:
    with spark_session("cluster", "{MASTER}") as spark:
        print("partitions", spark.conf.get("spark.sql.shuffle.partitions"))
except SlidestatError as error:
    print("told", error)
"""
KERNEL = """
import slidestat
from slidestat.synopses import Batch, CountParameters, run_batch
from slidestat.kernels.compile import compiled_here
from slidestat.kernels.units import cache_folder
run_batch(CountParameters(0.1, 1000), [None], Batch([0, 3], [1, 2, 3], None, [0, 1], [4], [10]))
print(slidestat.__file__, cache_folder(), len(compiled_here))
"""

# Executors start when there are tasks, and end some seconds after the last one.
COMES_AND_GOES = " ".join(
    f"--conf spark.dynamicAllocation.{setting}"
    for setting in (
        "enabled=true",
        "shuffleTracking.enabled=true",
        "minExecutors=0",
        "maxExecutors=2",
        "executorIdleTimeout=5s",
        "shuffleTracking.timeout=1s",
    )
)
BACKFILL = """
import sys
import time
from slidestat.declare.forms.files import load_topology
from slidestat.spark.backfill.backfill import fill_lake
from slidestat.spark.backfill.history import Files, read_files
from slidestat.spark.lake.lake import Lake
from slidestat.spark.session import spark_session
events, lake, wait_s = sys.argv[1:]
topology = load_topology("flights")
names = {"key": "origin", "time": "date", "value": "delay"}
with spark_session("cluster", "local-cluster[2,1,1024]") as spark:
    executors = spark.sparkContext._jsc.sc().getExecutorIds
    fill_lake(
        topology,
        read_files(spark, topology, Files(events, "parquet", names, partitions=2)),
        Lake(lake, "flights"),
    )
    end = time.monotonic() + float(wait_s)
    while executors().size() and time.monotonic() < end:
        time.sleep(0.2)
    print("executors left", executors().size())
"""


def _python(
    folder: Path, program: str, *arguments: str, wait_s: int = 280, **environment: str
) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=wait_s,
        cwd=folder,  # Python would import from where it was started.
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1", **environment},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.long
@pytest.mark.needs_spark
def test_executors_without_the_package_are_told_in_one_line(tmp_path: Path) -> None:
    """Before any job runs there, with what they lack and what to do."""
    venv.create(tmp_path / "bare", symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    said = _python(tmp_path, SESSION, PYSPARK_PYTHON=bare, PYTHONPATH=str(SOURCES))
    (line,) = said.splitlines()
    assert line.startswith("told Python 3.")
    assert " lacks pyarrow, pandas, numba, " in line
    assert "--py-files" in line


@pytest.mark.needs_spark
def test_a_cluster_shuffles_as_its_cores_are(tmp_path: Path) -> None:
    """Two partitions for each core, not 200."""
    environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(SOURCES)}
    assert _python(tmp_path, SESSION, **environment) == "partitions 4\n"


@pytest.mark.long
@pytest.mark.needs_spark
def test_a_backfill_where_executors_come_and_go(tmp_path: Path) -> None:
    """Dynamic allocation off and on: the same records, and with it no executor stays."""
    events = str(tmp_path / "flights.parquet")
    chance = np.random.default_rng(8)
    columns: dict[str, Any] = {
        "origin": chance.choice(["ATL", "ORD", "DFW"], 3_000),
        "date": pa.array(np.sort(chance.integers(0, 10**9, 3_000)) + NOON_MS, pa.timestamp("ms")),
        "delay": chance.integers(-20, 90, 3_000),
        "destination": chance.choice(["JFK", "LAX"], 3_000),
    }
    pq.write_table(pa.table(columns), events)
    environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(SOURCES)}
    written, left = [], []
    # Those that stay are not waited for: they stay for ever.
    for lake, settings, wait_s in (("off", "", "5"), ("on", COMES_AND_GOES, "60")):
        said = _python(
            tmp_path,
            BACKFILL,
            *(events, str(tmp_path / lake), wait_s),
            **environment,
            PYSPARK_SUBMIT_ARGS=f"{settings} pyspark-shell",
        )
        left.append(said.splitlines()[-1])
        rows = ds.dataset(tmp_path / lake / "flights" / "statistics", partitioning="hive")
        written.append(sorted(rows.to_table(["key", "value"]).to_pylist(), key=str))
    assert left == ["executors left 2", "executors left 0"]
    assert len(written[0]) > 50
    assert written[0] == written[1]


@pytest.mark.long
@pytest.mark.needs_spark
@pytest.mark.timeout(1_200)
def test_a_stream_whose_executors_are_killed(tmp_path: Path) -> None:
    """One of two in the middle of three batches, each behind its states: emissions, late records
    and letters are those of a worker to the byte, each once.
    """
    said = _python(
        ROOT,
        "import sys; from pathlib import Path; from tests.spark.killed_executors import main;"
        " main(Path(sys.argv[1]))",
        str(tmp_path),
        wait_s=1_100,
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH=f"{SOURCES}:{ROOT}",
    )
    assert said == "killed 3 batches 4 equal True\n"


@pytest.mark.long
def test_kernels_inside_a_wheel_are_compiled_once_for_each_version(tmp_path: Path) -> None:
    """The package is imported from inside, as --py-files has it; the units of its kernels go to the
    user's folder, and the next process loads them, wherever the same sources lie.
    """
    archive, cache = tmp_path / "slidestat-0.1.0-py3-none-any.whl", tmp_path / "cache"
    with ZipFile(archive, "w") as zipped:
        for file in sorted((SOURCES / "slidestat").rglob("*")):
            if file.suffix in (".py", ".pyi", ".bin"):
                zipped.write(file, file.relative_to(SOURCES))
    environment = {"PYTHONPATH": str(archive), "NUMBA_CACHE_DIR": str(cache)}
    place, folder, here = _python(tmp_path, KERNEL, **environment).split()
    assert place == f"{archive}/slidestat/__init__.py"
    assert here == "0"

    def units() -> dict[Path, int]:
        kept = (file for file in Path(folder).iterdir() if file.suffix != ".lock")
        return {file: file.stat().st_mtime_ns for file in kept}

    compiled = units()
    assert compiled
    assert _python(tmp_path, KERNEL, **environment).split() == [place, folder, "0"]
    _python(tmp_path, KERNEL, **environment | {"PYTHONPATH": str(SOURCES)})
    assert units() == compiled
