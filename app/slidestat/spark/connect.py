"""Sessions of Spark Connect: a client has no JVM, so it can ask for tables and nothing else."""

from typing import Any

from slidestat.errors import SlidestatError

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
