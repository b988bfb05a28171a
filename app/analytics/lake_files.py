"""Small files beside the data of a lake, wherever it lies: on a disk, HDFS, an object store.

They go through Hadoop's file systems, as Spark's own do.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession


class LakeFiles:
    """Reads and writes whole small files by their paths."""

    def __init__(self, spark: SparkSession) -> None:
        # PySpark has no other way to Hadoop's file systems than its own gateway.
        self._jvm: Any = spark._jvm
        self._settings: Any = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""
        return bool(self._system(path).exists(self._path(path)))

    def read(self, path: str) -> str:
        """The text of a file."""
        stream = self._system(path).open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Make or replace a file; half of it is never seen under its name."""
        system, target, half = self._system(path), self._path(path), self._path(f"{path}.half")
        stream = system.create(half, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        system.delete(target, False)
        system.rename(half, target)

    def names(self, path: str) -> Iterator[str]:
        """The names in a folder; none if it is not there."""
        if self.exists(path):
            for status in self._system(path).listStatus(self._path(path)):
                yield str(status.getPath().getName())

    def remove(self, path: str) -> None:
        """Remove a folder with all that it has."""
        self._system(path).delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._settings)
