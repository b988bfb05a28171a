"""What a topology means, in text."""

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.harness.examples import example
from slidestat.cli.display import topology as display
from slidestat.cli.display.topology import (
    footprint_line,
    promise_text,
    show_topology,
    topology_object,
)
from slidestat.declare.alerts import Alert
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics import (
    Count,
    LandmarkCount,
    Mean,
    Quantiles,
    Rate,
    Statistic,
    TopItems,
)
from slidestat.declare.statistics.base import Promise
from slidestat.declare.topology import Topology
from slidestat.engine.footprint import Footprint, measure
from slidestat.text import bytes_text
from tests.commands import RunCli


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


def declare(*statistics: Statistic, **changes: str) -> Topology:
    fields = {"name": "t", "source": "s", "span": "1h", "every": "1m", **changes}
    return Topology(**fields, statistics=statistics)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Own(Count):
    """A statistic of the user's own, whose code may change unseen."""


def test_what_was_measured_is_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same is shown again, without the kernels that measure; of a topology that keeps something
    else, and of statistics whose code is the user's, it is measured. Where nothing can be kept, or
    what is kept is damaged, it is as well.
    """
    measured: list[Topology] = []

    def counting(topology: Topology) -> list[Footprint]:
        measured.append(topology)
        return measure(topology)

    def shown(*statistics: Statistic, **changes: str) -> str:
        show_topology(topology := declare(*statistics, **changes))
        assert topology_object(topology)["bytes"]
        return capsys.readouterr().out

    monkeypatch.setattr(display, "measure", counting)
    monkeypatch.setattr(display, "cache_folder", lambda: tmp_path)
    many = Count(), Rate(), Quantiles(), TopItems(field="item"), Mean()
    first = shown(*many)
    (kept,) = (tmp_path / "footprints").iterdir()
    assert shown(*many) == first
    assert len(measured) == 1
    kept.write_bytes(b"{")
    assert shown(*many) == first
    assert len(measured) == 2
    shown(*many, span="2h")
    shown(Count(epsilon=0.02))
    assert len(measured) == 4
    assert shown(Own()) == shown(Own())
    assert len(measured) == 8
    monkeypatch.setattr(display, "cache_folder", lambda: kept)
    assert shown(*many) == first
    assert len(measured) == 10
    monkeypatch.setattr(display, "_MOST_KEPT", 2)
    monkeypatch.setattr(display, "cache_folder", lambda: tmp_path)
    shown(Rate())
    assert len(list((tmp_path / "footprints").iterdir())) == 2


def test_showing_what_is_remembered_loads_no_kernels(run_cli: RunCli) -> None:
    """Nor what they are compiled with."""
    run_cli("topology", "show", "flights")
    code = "import sys; from slidestat.cli.main import main\ntry: main()\n"
    code += "finally: print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "topology", "show", "flights"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False False"


def test_a_topology_that_ships(run_cli: RunCli) -> None:
    """The topics, the group, the windows, and a row for each statistic, without a broker."""
    run = run_cli("topology", "show", "flights", bootstrap="127.0.0.1:1")
    assert (run.returncode, run.stderr) == (0, "")
    lines = [line.rstrip() for line in run.stdout.splitlines()]
    assert "reads       flights" in lines
    assert "writes      flights-statistics" in lines
    assert "sets aside  flights-dead-letters, flights-late" in lines
    assert "changelog   slidestat-flights-flights-state-changelog" in lines
    assert "group       slidestat-flights" in lines
    assert "windows     1d, 7d; the span is 7d" in lines
    heading = next(line for line in lines if line.startswith("statistic"))
    assert heading.split()[-3:] == ["5", "1,000", "100,000"]
    rows = {line.split()[0]: line.split()[1:3] for line in lines if re.match("count|maximum", line)}
    assert rows == {"count": ["1", "%"], "maximum": ["exact", "maximum,"]}
    assert lines[-1].split()[:2] == ["in", "all"]


def test_a_pipe_cuts_no_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of topics, and what a synopsis is, are on one line each, whatever COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "40")
    show_topology(declare(Count(), name="requests-of-all-the-shops-of-europe" * 2))
    told = capsys.readouterr().out
    name = "requests-of-all-the-shops-of-europe" * 2
    assert f"slidestat-{name}-{name}-state-changelog" in told
    assert "count, epsilon 0.01" in told


def test_a_narrow_terminal_has_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of a letter each cannot be read, and a terminal breaks lines itself."""
    monkeypatch.setenv("COLUMNS", "40")
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, highlight=False)
    monkeypatch.setattr(display, "Console", lambda **_: console)
    name = "requests-of-all-the-shops"
    show_topology(declare(Count(), name=name))
    told = screen.getvalue()
    assert "count, epsilon" in told
    assert "\u2026" not in told
    assert f"slidestat-{name}-{name}-state-changelog" in "".join(told.split())


def test_a_toml_file(tmp_path: Path, run_cli: RunCli) -> None:
    """A file is shown as a name is."""
    file = tmp_path / "a.toml"
    file.write_text(
        'name = "orders"\nsource = "shop"\nspan = "100 events"\nevery = "1m"\n'
        '[[statistics]]\nkind = "sum"\nfield = "price.net"\n'
    )
    run = run_cli("topology", "show", str(file))
    assert run.returncode == 0, run.stderr
    assert "values      price.net" in run.stdout
    assert "windows     100 events; the span is 100 events" in run.stdout
    assert "sum_price.net" in run.stdout


@pytest.mark.parametrize(
    ("topology", "kept"),
    [
        (declare(Count()), "until the last event is 1h old"),
        (
            declare(Count(), span="7 events"),
            "for ever: the last 7 events of a key never leave its window",
        ),
        (
            declare(Count(), LandmarkCount()),
            "for ever: landmark_count tells of all events since the first",
        ),
    ],
)
def test_how_long_keys_are_kept(
    topology: Topology, kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown; who starts a worker is told where memory only grows."""
    show_topology(topology)
    assert f"keeps keys  {kept}" in capsys.readouterr().out
    told = f"keys are kept {kept}" in footprint_line(topology, measure(topology))
    assert told == (not topology.sees_span_alone)


def test_how_outputs_are_written_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Their format and shape, and in one transaction; where it is the usual way, nothing."""
    usual = declare(Count())
    show_topology(usual)
    assert "commits" not in capsys.readouterr().out
    ours = replace(
        usual,
        output_shape="rows",
        output_format="connect-json",
        exactly_once=True,
        tombstones="dead-letter",
    )
    show_topology(ours)
    shown = capsys.readouterr().out
    assert "writes      t-statistics, in JSON with Kafka Connect's schema" in shown
    assert "columns     key, window_ms, window_end_ms, count, count_lower, count_upper" in shown
    assert "commits     outputs, states and progress in one transaction" in shown
    assert "t-late, tombstones as dead letters" in shown
    plain = topology_object(ours)
    assert (plain["output_format"], plain["exactly_once"]) == ("connect-json", True)
    assert plain["tombstones"] == "dead-letter"


def test_alerts_are_listed_below_their_topic(capsys: pytest.CaptureFixture[str]) -> None:
    """Keys that are expected come behind them."""
    silent = Alert(name="silent", when="count = 0", window="1m")
    show_topology(replace(declare(Count()), windows=("1m",), alerts=(silent,), expected=("/pay",)))
    begins = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    at = begins.index(["alerts", "t-alerts"])
    assert begins[at + 1 : at + 3] == [["silent", "count"], ["expects", "/pay"]]


def test_statistics_that_share_a_synopsis(capsys: pytest.CaptureFixture[str]) -> None:
    """The bytes are told once; figures of one statistic are told with what qualifies them."""
    show_topology(declare(Count(), Rate(), Quantiles(quantiles=(0.5, 0.99), field="a")))
    rows = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows["rate"].split()[-3:] == ['"', '"', '"']
    assert "bytes" in rows["count"]
    assert "quantile_a 0.5, 0.99" in rows


def test_shares_of_a_weight_are_not_of_the_events(capsys: pytest.CaptureFixture[str]) -> None:
    """An error of items by bytes is a share of all bytes."""
    show_topology(declare(TopItems(field="path", weight="bytes"), TopItems(field="path")))
    rows = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " % of all bytes " in rows["top_path_of_bytes"]
    assert " % of the events " in rows["top_path"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_statistic_is_shown(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each by its name, with an error that is more than nothing."""
    show_topology(declare(example(KINDS[kind])))
    out = capsys.readouterr().out
    assert re.search(rf"^{kind}\b.*\d", out, re.MULTILINE), out


def test_errors_as_text() -> None:
    """The terms that matter, and nothing of what floating-point numbers round."""
    mean = Mean().promise(3_600_000)
    assert promise_text(Promise()) == "exact"
    assert promise_text(Promise(relative_error=0.01)) == "1 %"
    assert promise_text(Promise(relative_error=0.01, absolute_error=0.001)) == "1 % + 0.001"
    assert promise_text(Promise(share_error=0.005)) == "0.5 % of the events"
    assert re.fullmatch(r"[\d.]+ % of the deviation \+ 0\.000\d+", promise_text(mean))
    assert promise_text(Promise(relative_error=0.1, confidence=0.999)) == "10 %, in 99.9 % of cases"
    one, three = Quantiles(quantiles=[0.99]), Quantiles()
    of_one = promise_text(one.promise(3_600_000), one.series())
    assert re.fullmatch(r"[\d.]+ %, of a p off by 0\.1 %", of_one)
    assert promise_text(three.promise(3_600_000), three.series()).endswith("0.1 % to 5 %")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (5 * 10**13, "50000 GB"),
    ],
)
def test_sizes_as_text(count: int, text: str) -> None:
    """Two or three digits that are right when rounded."""
    assert bytes_text(count) == text


def test_the_line_of_a_worker() -> None:
    """One line, with the topology and three sizes."""
    assert re.fullmatch(
        r"t: memory of a key by its events in the span, measured:"
        r" \d+ bytes with 5, [\d.]+ (bytes|kB) with 1,000, [\d.]+ kB with 100,000",
        footprint_line(declare(Count()), measure(declare(Count()))),
    )
