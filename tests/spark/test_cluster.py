"""Executors of their own processes, as a cluster has them; the package inside an archive."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.markdown import ROOT

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
from slidestat.synopses.core.compile import CACHE_FOLDER
run_batch(CountParameters(0.1, 1000), [None], Batch([0, 3], [1, 2, 3], None, [0, 1], [4], [10]))
print(slidestat.__file__, CACHE_FOLDER)
"""


def _python(folder: Path, program: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=folder,  # Python would import from where it was started.
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1", **environment},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


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


def test_kernels_inside_a_wheel_are_compiled_once_for_each_version(tmp_path: Path) -> None:
    """The package is imported from inside, as --py-files has it; its kernels go to a folder of
    these sources, and the next process loads them.
    """
    archive, cache = tmp_path / "slidestat-0.1.0-py3-none-any.whl", tmp_path / "cache"
    with ZipFile(archive, "w") as zipped:
        for file in sorted((SOURCES / "slidestat").rglob("*.py")):
            zipped.write(file, file.relative_to(SOURCES))
    environment = {"PYTHONPATH": str(archive), "NUMBA_CACHE_DIR": str(cache)}
    place, folder = _python(tmp_path, KERNEL, **environment).split()
    assert place == f"{archive}/slidestat/__init__.py"
    compiled = {file: file.stat().st_mtime_ns for file in Path(folder).rglob("*.nb*")}
    assert len(compiled) > 10
    assert _python(tmp_path, KERNEL, **environment).split() == [place, folder]
    assert {file: file.stat().st_mtime_ns for file in Path(folder).rglob("*.nb*")} == compiled
    # the same sources in another place have the same kernels
    _python(tmp_path, KERNEL, **environment | {"PYTHONPATH": str(SOURCES)})
    assert {file: file.stat().st_mtime_ns for file in Path(folder).rglob("*.nb*")} == compiled
    with ZipFile(archive, "a") as zipped:
        zipped.writestr("slidestat/synopses/newer.py", "NEWER = True\n")
    asked = "from slidestat.synopses.core.compile import CACHE_FOLDER\nprint(CACHE_FOLDER)"
    assert _python(tmp_path, asked, **environment).split() != [folder]
