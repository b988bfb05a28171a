"""The last part of the demo: what it produced as a lake on Spark, audited, and a page of it."""

from pathlib import Path

from rich.console import Console

from slidestat.declare.forms.resolved import resolved
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.spark.session import require_spark, spark_session

PAGE = Path("demo-report.html")


def show_lake(topology: Topology, bootstrap: str, folder: Path, console: Console) -> None:
    """Ingest the topology's topics into `folder`, audit every figure, and write the page.

    Without what Spark needs, a line with that is printed. Raises SlidestatError for a broken
    promise.
    """
    try:
        require_spark()
    except SlidestatError as error:
        console.print(f"Left out: ingest, audit and report. {error}", soft_wrap=True)
        return
    console.print("Spark: the topics as Parquet files, every figure audited once more …")
    with spark_session("demo") as spark:
        from slidestat.spark.audit.audit import Audit
        from slidestat.spark.audit.report import show
        from slidestat.spark.lake.declarations import keep_declaration
        from slidestat.spark.lake.ingest import Ingest
        from slidestat.spark.lake.lake import Lake
        from slidestat.spark.lake.session import lake_topics
        from slidestat.spark.report.page import report_data, write_page

        lake = Lake(str(folder / "lake"), topology.name)
        keep_declaration(spark, lake, topology)
        Ingest(spark, bootstrap, lake, lake_topics(topology)).take_what_is_there()
        report = Audit(spark, bootstrap, lake, resolved(topology)).run()
        write_page(report_data(spark, lake, []), PAGE)
    show(report)
    if not report.is_clean:
        raise SlidestatError("The audit found broken promises.", "This is a bug in slidestat.")
    console.print(f"{PAGE}: open it in a browser", highlight=False)
