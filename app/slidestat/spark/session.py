"""A Spark session: on this machine by default, or the one that spark-submit has begun.

Spark's own log goes to a file of its own, so that the terminal has only a job's own messages. Its
Python workers are of the running interpreter and import the running code.
"""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import slidestat as package
from slidestat.errors import SlidestatError
from slidestat.local.jars import log_folder
from slidestat.spark.delta import (
    CATALOG,
    EXTENSIONS,
    LOG_TASKS,
    delta_settings,
    has_delta,
    has_jars,
    require_delta,
)
from slidestat.spark.executors import is_on_this_machine, require_executors
from slidestat.spark.jars import connector_jars, delta_jars, release_line
from slidestat.spark.spark_java import find_spark_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
# The environment variable of a program that spark-submit starts.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
# The variable that makes every session of PySpark one of Spark Connect.
_REMOTE = "SPARK_REMOTE"

# The output of a job must not depend on the cluster's defaults.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    # The columns of jobs are called offset, key and time.
    "spark.sql.ansi.enforceReservedKeywords": "false",
    # Keys and synopses are bytes, also in files that Spark has not written.
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The most bytes that are brought to Python at once: a record, or a run of events, may have
    # megabytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 2**20),
    # Spark's list without Kafka, whose older reader makes an object of each value of a record.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Files that are not there, or damaged, would be passed over in silence.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # This optimisation would parse an emission once for each of its fields.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    # The files that may be open in a task before its rows are sorted by file.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    # A plan shows the options of its sources, Kafka's passwords and keys among them.
    "spark.sql.redaction.options.regex": "(?i)url|password|jaas|keystore|secret|token",
}
# On its pages and in its log of events: Spark knows neither the keys of Azure's stores nor Kafka's
# logins, and no signed address.
_HIDDEN = {
    "spark.redaction.regex": "(?i)secret|passw|token|access[.]?key|account[.]key|jaas|sas[.]|auth",
    "spark.redaction.string.regex": "(?i)(?<=[?&](?:sig|token|x-amz-signature)=)[^&\\s]+",
}
_ON_THIS_MACHINE = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "WARN",
}
# A job is there to be done soon, and no request waits for its next answer meanwhile: the collector
# that stops all for a moment takes a fifth less of the JVM's CPU than one that does not.
_COLLECTOR = "-XX:+UseParallelGC"
_JAVA_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_ENDED = re.compile(r'^Exception in thread "main" [\w.$]+: (.+)$', re.MULTILINE)
_SHUFFLE = "spark.sql.shuffle.partitions"


@contextmanager
def spark_session(
    job: str, master: str | None = None, *, delta: bool = False
) -> Iterator["SparkSession"]:
    """Yield a session for `job`, stopped when the context is left; inside spark-submit, its own.

    `master` is where to run, `local[*]` by default; under spark-submit it is not used. With `delta`
    the session reads and writes Delta tables; under spark-submit it does so wherever Delta's jars
    are. Costs 3 to 5 s for the JVM on this machine. Raises SlidestatError without PySpark, without
    a Java that Spark runs on, if Spark does not start, without Delta's jars where they are asked
    for, or if executors elsewhere lack what a job needs.
    """
    _require_pyspark()
    _require_no_connect(master or "")
    with ended_in_silence():
        if _SUBMITTED in os.environ:
            session = _submitted(job)
        else:
            session = _started(job, master or LOCAL, delta=delta)
        if threading.current_thread() is threading.main_thread():
            # PySpark's own handler asks the JVM, over a connection that may be waited on.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            if delta:
                require_delta(session, f"The {job}'s lake")
            _set_partitions(session)
            require_executors(session)
            yield session
        finally:
            session.stop()


@contextmanager
def ended_in_silence() -> Iterator[None]:
    """Have Ctrl-C end a job without the stack traces that py4j logs of what it was waiting for."""
    loggers = [logging.getLogger(name) for name in (None, "py4j.clientserver")]
    for logger in loggers:
        logger.addFilter(_no_interrupt)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_no_interrupt)


def _no_interrupt(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is None


def write_tasks(spark: "SparkSession") -> int:
    """Return in how many tasks at most a job writes its files: two for each core that there is."""
    return 2 * spark.sparkContext.defaultParallelism


def _set_partitions(session: "SparkSession") -> None:
    """Set two tasks for each core, unless they are configured, not Spark's 200 and Delta's 50: a
    task costs more than a small partition.

    Where executors come and go, the number of cores is not known, and nothing is set.
    """
    conf = session.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    for name in (_SHUFFLE, LOG_TASKS) if has_delta(session) else (_SHUFFLE,):
        if not conf.contains(name):
            session.conf.set(name, str(write_tasks(session)))


def require_spark() -> None:
    """Raise SlidestatError, with what to install, unless a session can be had on this machine."""
    _require_pyspark()
    find_spark_java()


def _require_pyspark() -> None:
    if find_spec("pyspark") is None:
        raise SlidestatError(
            "PySpark is not installed.", "Install it: pip install 'slidestat[spark]'."
        )
    release_line()


def _require_no_connect(master: str) -> None:
    remote = master if master.startswith("sc://") else os.environ.get(_REMOTE)
    if remote:
        server = remote.partition(";")[0]  # A token may be behind it.
        raise SlidestatError(
            f"{server} is a server of Spark Connect, and a job needs Spark's own JVM.",
            f"Unset {_REMOTE}; --master names a cluster: spark://HOST:PORT, yarn, k8s://...",
        )


def _submitted(job: str) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"slidestat {job}")
    SparkContext._ensure_initialized()
    if has_jars(SparkContext._jvm):
        given = SparkConf()
        for name, value in delta_settings(given.get(EXTENSIONS, "") or "").items():
            if name != CATALOG or not given.contains(CATALOG):
                builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    for name, value in _ALWAYS.items():
        session.conf.set(name, value)
    return session


def _started(job: str, master: str, *, delta: bool) -> "SparkSession":
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from slidestat.spark.errors import first_cause

    os.environ["JAVA_HOME"] = str(find_spark_java().executable.parents[1])
    jars = connector_jars()
    if delta:
        jars += delta_jars()
        _end_jvm_without_delta()
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(f"slidestat {job}")
    conf.setAll([*_ALWAYS.items(), *_HIDDEN.items()])
    if delta:
        conf.setAll(list(delta_settings().items()))
    conf.set("spark.jars", ",".join(map(str, jars)))
    if is_on_this_machine(master):
        # Workers elsewhere have a Python and a slidestat of their own.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        conf.setAll(list(_ON_THIS_MACHINE.items()))
        # A JVM does not start with two of them.
        if not any("GC" in os.environ.get(name, "") for name in _JAVA_OPTIONS):
            conf.set("spark.driver.extraJavaOptions", _COLLECTOR)
        conf.set("spark.executorEnv.PYTHONPATH", str(Path(package.__path__[0]).parent))
    log_path = log_folder() / f"spark-{job}-{os.getpid()}.log"
    try:
        if SparkContext._gateway is not None:  # A JVM that this process has started before.
            return SparkSession(SparkContext(conf=conf))
        if sys.stderr.isatty():  # Nothing else is said for seconds, or for minutes.
            print(f"Starting Spark, whose log is {log_path}", file=sys.stderr)
        with log_path.open("ab") as log:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": log, "stderr": log}
            )
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except (PySparkException, Py4JJavaError, OSError) as error:
        said = (
            first_cause(error) if isinstance(error, Py4JJavaError) else str(error).splitlines()[0]
        )
        why = _cause(log_path) or said
        raise SlidestatError(f"Spark did not start: {why}", f"Its log is {log_path}.") from error


def _cause(log: Path) -> str:
    """Return the reason why a JVM ended before it had begun; "" if its log has none."""
    found = _ENDED.findall(log.read_text("utf-8", "replace")) if log.exists() else []
    return found[-1] if found else ""


def _end_jvm_without_delta() -> None:
    """End a JVM that this process has started before without Delta's jars: none can be brought to
    one that runs. Where it has a session it stays.
    """
    from pyspark import SparkContext

    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    if gateway is None or context is not None or has_jars(gateway.jvm):
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


# Sessions of Spark Connect: a client has no JVM, so it can ask for tables and nothing else.

ADVICE = (
    "Use a session of Spark itself, or `slidestat spark`, which starts one. With Spark Connect"
    " there are read_statistics, plot_figures, the functions of columns and register_functions."
)


def is_connect(spark: Any) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def require_jvm(spark: Any) -> None:
    """Raise SlidestatError for a session of Spark Connect."""
    if is_connect(spark):
        raise SlidestatError(
            "This needs Spark's own JVM, and the session is of Spark Connect.", ADVICE
        )
