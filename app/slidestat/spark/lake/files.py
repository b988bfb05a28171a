"""Small files next to the data of a lake, wherever it is: on a disk, HDFS, an object store.

They go through Hadoop's file systems, as Spark's own do.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.spark.session import require_jvm

_RENAME_ADVICE = (
    "Give another path: to Hadoop's file systems a colon ends a scheme, as in s3a://, and names of"
    " files and folders have none."
)
_EXISTS = "FileAlreadyExistsException"
PATTERN_SIGN = re.compile(r"[*?\[\]{}\\]")
"""What makes a path a pattern to Hadoop's file systems."""


class LakeFiles:
    """A reader and writer of whole small files by their paths; each method raises SlidestatError
    for a path that its file system refuses. A session of Spark Connect is refused.
    """

    def __init__(self, spark: SparkSession) -> None:
        require_jvm(spark)
        # PySpark has no other way to Hadoop's file systems than its own gateway.
        self._jvm: Any = spark._jvm
        self._settings: Any = spark._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder."""
        with _told(path):
            return bool(self._system(path).exists(self._path(path)))

    def are_any(self, pattern: str) -> bool:
        """Return whether there is a file or a folder of this path, which may have `*` and `?`."""
        with _told(pattern):
            return bool(self._system(pattern).globStatus(self._path(pattern)))

    def read(self, path: str) -> str:
        """Return the text of a file."""
        with _told(path):
            stream = self._system(path).open(self._path(path))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, path: str, text: str) -> None:
        """Make or replace a file; half of it is never seen under its name."""
        with _told(path):
            system, target, half = self._system(path), self._path(path), self._path(f"{path}.half")
            self._put(f"{path}.half", text, over=True)
            system.delete(target, False)
            system.rename(half, target)

    def create(self, path: str, text: str) -> bool:
        """Make a file where there is none; False if there is one."""
        with _told(path):
            try:
                self._put(path, text, over=False)
            except Py4JJavaError as error:
                if error.java_exception.getClass().getSimpleName() == _EXISTS:
                    return False
                raise
            return True

    def write_over(self, path: str, text: str) -> None:
        """Make or replace a file, which is there all the time, for a moment with half of it."""
        with _told(path):
            self._put(path, text, over=True)

    def _put(self, path: str, text: str, *, over: bool) -> None:
        stream = self._system(path).create(self._path(path), over)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; none if it is not there."""
        if not self.exists(path):
            return []
        with _told(path):
            found = self._system(path).listStatus(self._path(path))
            return [str(status.getPath().getName()) for status in found]

    def size(self, path: str) -> int:
        """Return the bytes of a file, or of all files in a folder."""
        with _told(path):
            return int(self._system(path).getContentSummary(self._path(path)).getLength())

    def qualified(self, path: str) -> str:
        """Return the path with the scheme of its file system: file:, hdfs:, s3a:."""
        with _told(path):
            return str(self._system(path).makeQualified(self._path(path)).toString())

    def path_here(self, path: str) -> str:
        """Return the path on this machine's own disk; "" for any other."""
        whole = self.qualified(path)
        return unquote(urlsplit(whole).path) if whole.startswith("file:") else ""

    def make_parent(self, path: str) -> None:
        """Make the folder that a path lies in, if it is not there."""
        with _told(path):
            self._system(path).mkdirs(self._path(path).getParent())

    def rename(self, path: str, target: str) -> None:
        """Give a file or a folder another name."""
        with _told(path):
            if not self._system(path).rename(self._path(path), self._path(target)):
                raise SlidestatError(f"{path} does not become {target}.", "Check --lake.")

    def remove(self, path: str) -> None:
        """Remove a folder with all that it has."""
        with _told(path):
            self._system(path).delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._settings)


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:  # PySpark has an error for it, such as a colon in a name.
        said = str(error).partition("\n")[0]
        raise SlidestatError(f"{path} cannot be used: {said}.", _RENAME_ADVICE) from error
    except Py4JJavaError as error:
        raise SlidestatError(
            f"{path} cannot be used: {error.java_exception.toString()}.",
            "Check --lake: that it is there, whole, and yours to write.",
        ) from error
