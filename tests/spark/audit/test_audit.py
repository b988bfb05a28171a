"""Audit and report of a whole topology: real topics, a real lake, real Spark."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
import typer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession, functions as f

from slidestat import TopologyDriver
from slidestat.cli.spark import audit, ingest, report
from slidestat.declare.statistics import Count, Distinct, Mean, Quantiles, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.emission import Emission
from tests.spark.lake_topics import NOON_MS, Topics, make_topics
from tests.spark.report_reader import ReportReader
from tests.web.browser import Browser

MINUTE_MS = 60_000
HOSTILE = "</script><b>'&\u2028"


# A twentieth of the events is passed over, and of the others a half is large.
WHERE = "value is null or value < 95"
LARGE = "value > 50 and lower(item) <> 'x'"


class Audited:
    """A topology with what an undisturbed worker makes of some events, on its topics."""

    def __init__(self, topics: Topics, folder: Path) -> None:
        self.topics = topics
        self.topology = Topology(
            name=topics.name,
            source=topics.source,
            span="20m",
            windows=("5m", "20m"),
            every="1m",
            lateness="30s",
            where=WHERE,
            statistics=(
                Count(epsilon=0.1),
                Sum(epsilon=0.1, decimals=2),
                Mean(),
                Quantiles(epsilon=0.1),
                Distinct(field="item"),
                TopItems(field="item", limit=3),
                Count(name="large", where=LARGE),
                Mean(name="mean_large", where=LARGE),
            ),
        )
        self.file = folder / "topology.toml"
        self.file.write_text(
            f'name = "{topics.name}"\nsource = "{topics.source}"\nspan = "20m"\n'
            'windows = ["5m", "20m"]\nevery = "1m"\nlateness = "30s"\n'
            f"where = '{WHERE}'\n"
            + "".join(
                f'[[statistics]]\nkind = "{kind}"\n{more}\n'
                for kind, more in (
                    ("count", "epsilon = 0.1"),
                    ("sum", "epsilon = 0.1\ndecimals = 2"),
                    ("mean", ""),
                    ("quantile", "epsilon = 0.1"),
                    ("distinct", 'field = "item"'),
                    ("top", 'field = "item"\nlimit = 3'),
                    ("count", f'name = "large"\nwhere = "{LARGE}"'),
                    ("mean", f'name = "mean_large"\nwhere = "{LARGE}"'),
                )
            )
        )
        self.lake = str(folder / "lake")
        self.passed_over: list[int] = []
        self.emissions = self._stream()

    def _stream(self) -> list[Emission]:
        random = Random(7)
        driver = TopologyDriver(self.topology)
        records: list[bytes] = []
        for i in range(3_000):
            event = {
                "key": random.choice(["a", "b", HOSTILE]),
                "time": NOON_MS + 1_000 * i - random.randrange(40_000),
                "value": random.randrange(10_000) / 100,
                "item": random.choice([HOSTILE, "x", "y", "z", f"rare {i}"]),
            }
            if i % 7 == 2:
                event[random.choice(["value", "item"])] = None
            if i % 500 != 1 and (event["value"] or 0) >= 95:
                self.passed_over.append(i)
            records.append(b"no JSON" if i % 500 == 1 else msgspec.json.encode(event))
        driver.send_bytes(*records)
        assert driver.late
        self.topics.event(*records)
        self.topics.emit(driver.emissions)
        for letter in driver.late:
            self.topics.refuse("late", Reason.LATE, letter.offset)
        for letter in driver.dead_letters:
            self.topics.refuse("dead-letters", letter.reason, letter.offset)
        self.late = [letter.offset for letter in driver.late]
        self.dead = [letter.offset for letter in driver.dead_letters]
        return driver.emissions

    def ingest(self) -> None:
        ingest(str(self.file), self.lake, bootstrap=self.topics.bootstrap)

    def audit(self, *, allow_loss: bool = False, sample: float = 1.0) -> int:
        """Its exit code."""
        try:
            audit(str(self.file), self.lake, allow_loss, None, self.topics.bootstrap, sample)
        except typer.Exit as exit_:
            return exit_.exit_code
        return 0


@pytest.fixture
def audited(make_topic: Callable[..., str], bootstrap_servers: str, tmp_path: Path) -> Audited:
    return Audited(make_topics(make_topic, bootstrap_servers), tmp_path)


@pytest.mark.usefixtures("jobs_in_one_session")
def test_an_audit_of_what_a_worker_wrote(
    audited: Audited,
    admin: AdminClient,
    browser: Browser,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Every figure of every statistic holds, each record is accounted for, records that came twice
    count once, and the page has and draws it all. Events that the broker has deleted are told, and
    the windows that have all of theirs are judged if that is asked for. A figure that is wrong and
    records that were neither counted nor refused are found.
    """
    with pytest.raises(SlidestatError, match="has no records"):
        audited.audit()
    audited.topics.emit(audited.emissions[:50])  # At least once.
    audited.ingest()
    with pytest.raises(SlidestatError, match="has no audit"):
        report(str(audited.file), audited.lake)
    assert audited.audit() == 0
    _check_clean(audited, capsys.readouterr().out)
    _check_page(audited, tmp_path / "report.html")
    _check_drawn(ReportReader(browser, tmp_path / "report.html"))

    where = TopicPartition(audited.topics.source, 0, 1_000)
    admin.delete_records([where])[where].result()
    with pytest.raises(SlidestatError, match=r"partition 0 offsets 0 to 999: the windows") as lost:
        audited.audit()
    assert "--allow-loss" in lost.value.advice
    # An audit that fails leaves the one before.
    report(str(audited.file), audited.lake, ["a"], tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes()

    shutil.rmtree(Path(audited.lake, audited.topics.name, "dead-letters"))
    last = audited.emissions[-1]
    figure = msgspec.structs.replace(last.figures[0], estimate=1e9)
    audited.topics.emit([msgspec.structs.replace(last, figures=[figure, *last.figures[1:]])])
    audited.ingest()
    assert audited.audit(allow_loss=True) == 1
    said = capsys.readouterr().out
    assert "no longer has partition 0 offsets 0 to 999: the windows that they were in" in said
    assert "unaccounted for" in said
    assert said.count("broken: ") == 1
    assert f"at {last.window_end_ms}: emitted twice, differently" in said
    assert said.splitlines()[-1].endswith("PROMISES BROKEN")
    assert "windows that begin before a `slidestat seed`" in said


def _check_clean(audited: Audited, said: str) -> None:
    told = re.search(
        r"([\d,]+) records read = ([\d,]+) counted \+ (\d+) late \+ (\d+) dead \+ (\d+) passed",
        said,
    )
    assert told is not None, said
    read, counted, *others = (int(n.replace(",", "")) for n in told.groups())
    reached = max(emission.source_offset for emission in audited.emissions)
    assert (read, counted) == (reached + 1, read - sum(others))
    assert others == [
        sum(offset <= reached for offset in offsets)
        for offsets in (audited.late, audited.dead, audited.passed_over)
    ]
    figures = sum(len(emission.figures) for emission in audited.emissions)
    old = f"{len(audited.emissions) + 50:,} emissions without a declaration's fingerprint"
    assert said.splitlines()[-2].startswith(old)
    assert said.splitlines()[-1] == (
        f"{figures:,} figures in {len(audited.emissions):,} emissions audited: every promise kept"
    )


def _check_page(audited: Audited, file: Path) -> None:
    report(str(audited.file), audited.lake, [HOSTILE, "a"], file)
    page = file.read_text(encoding="utf-8")
    # One file: it asks for nothing, and nobody's text ends an element of it.
    assert not re.search(r"(?:src|href)\s*=|@import|url\(", page.split('id="data"')[0])
    assert "default-src 'none'" in page
    assert HOSTILE not in page
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    data = msgspec.json.decode(found)
    assert [key["key"] for key in data["keys"]] == [HOSTILE, "a"]
    assert data["is_clean"]
    names = {series["name"] for series in data["keys"][0]["series"]}
    assert names == {
        "count",
        "sum",
        "mean",
        "large",
        "mean_large",
        "quantile 0.5",
        "quantile 0.9",
        "quantile 0.99",
    } | {"distinct_item"}
    for series in data["keys"][0]["series"]:
        for exact, low, high in zip(
            series["exacts"], series["lowers"], series["uppers"], strict=True
        ):
            assert (exact is None) == (low is None)
            assert exact is None or low <= exact <= high or series["confidence"] < 1
    for histogram, summary in zip(data["histograms"], data["audit"]["statistics"], strict=True):
        assert summary["figures"] == histogram["exact"] + sum(histogram["bars"])
        assert histogram["beyond"] == 0
    assert {top["window"] for top in data["keys"][0]["tops"]} == {"5m", "20m"}
    with pytest.raises(SlidestatError, match="No figure of the key 'c'"):
        report(str(audited.file), audited.lake, ["c"], file)


def _check_drawn(reader: ReportReader) -> None:
    """By day and by night, on a wide screen and on a narrow one."""
    browser = reader.browser
    assert browser.text("#verdict") == "Every promise kept"
    assert browser.texts("#key option") == [HOSTILE, "a"]
    assert browser.texts("#top-title") == [f"Top items of {HOSTILE}"]
    assert HOSTILE in browser.texts("#tops .bars > span")
    for scheme, width in (("light", 1280), ("dark", 360)):
        browser.media(prefers_color_scheme=scheme)
        browser.size(width)
        browser.driver.refresh()
        reader.choose("figure", browser.texts("#figure option").index("count"))
        reader.check_bands()
        reader.check_width()
        reader.check_bars("#tops", 6)
        reader.check_bars("#traffic", 4)
        bars = reader.histograms()
        assert bars.keys() == {
            "count",
            "sum",
            "mean",
            "large",
            "mean_large",
            "quantile",
            "distinct_item",
            "top_item",
        }
        assert min(bars["count"], bars["sum"]) > 3


@pytest.mark.long
@pytest.mark.usefixtures("jobs_in_one_session")
def test_a_sample_of_keys(
    audited: Audited, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures of its keys alone, whole; a wrong one of another key is not seen; all records are
    accounted for.
    """
    keys = ["a", "b", HOSTILE]
    frame = spark.createDataFrame([(key,) for key in keys], "key string")
    place = f.pmod(f.xxhash64("key"), f.lit(1_000_000)).alias("place")
    (first, at), (second, _), _ = sorted(
        frame.select("key", place).collect(), key=lambda row: row.place
    )
    audited.ingest()
    share = (at + 1) / 1_000_000
    assert audited.audit(sample=share) == 0
    said = capsys.readouterr().out
    emitted = sum(emission.key == first for emission in audited.emissions)
    assert f"in {emitted:,} emissions audited: every promise kept" in said
    assert f"a sample of {share:.4%} of the keys" in said
    assert "records read = " in said
    assert "unaccounted" not in said

    for key, exit_code in ((second, 0), (first, 1)):
        whole = next(e for e in audited.emissions if e.key == key and e.figures[0].estimate)
        figure = msgspec.structs.replace(whole.figures[0], estimate=1e9, lower=1e9, upper=1e9)
        wrong = [figure, *whole.figures[1:]]
        audited.topics.emit([msgspec.structs.replace(whole, figures=wrong)])
        audited.ingest()
        assert audited.audit(sample=share) == exit_code
    with pytest.raises(SlidestatError, match="--sample is 0"):
        audited.audit(sample=0)
