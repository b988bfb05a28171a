"""The examples in Java and in Spark's SQL, beside those that test_commands.py runs."""

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

from slidestat.local.jars import kafka_classpath
from tests.docs.markdown import ROOT, Block, blocks

DOCUMENT = ROOT / "docs" / "read-the-output.md"


def java() -> Block:
    (block,) = blocks(DOCUMENT, "java")
    return block


def test_java_finds_its_classes() -> None:
    """Each class that the example imports is in Kafka's own jars, Jackson with them."""
    imported = re.findall(
        r"^import (org\.apache\.kafka|com\.fasterxml)([\w.]+);$", java().text, re.M
    )
    wanted = {f"{package}{name}".replace(".", "/") + ".class" for package, name in imported}
    assert wanted
    for jar in kafka_classpath():
        with zipfile.ZipFile(jar) as opened:
            wanted -= set(opened.namelist())
    assert wanted == set()


def test_java_compiles(tmp_path: Path) -> None:
    """Where this machine has a compiler, it takes the example without a warning; a machine with a
    runtime alone has seen its classes above.
    """
    compiler = shutil.which("javac")
    if compiler is None:
        return
    block = java()
    (tmp_path / block.name).write_text(block.text, "utf-8")
    classpath = ":".join(map(str, kafka_classpath()))
    done = subprocess.run(
        [compiler, "-Xlint:all", "-Werror", "-proc:none", "-cp", classpath, "-d", ".", block.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "ReadStatistics.class").is_file()
