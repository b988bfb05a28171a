"""Audits of emissions of several declarations: each is judged by its own, and for what it lacks."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import typer

from slidestat import TopologyDriver
from slidestat.cli.spark import audit, ingest
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission
from tests.spark.lake_topics import NOON_MS, Topics, make_topics

MINUTE_MS = 60_000
COUNT = '[[statistics]]\nkind = "count"\n'
MORE = COUNT + '[[statistics]]\nkind = "maximum"\nfield = "size"\n'


class Declared:
    """One declaration of a topology in a file, and what an undisturbed worker makes by it."""

    def __init__(self, topics: Topics, file: Path, statistics: str) -> None:
        self.topics, self.file = topics, file
        file.write_text(
            f'name = "{topics.name}"\nsource = "{topics.source}"\nspan = "10m"\nevery = "1m"\n'
            f'windows = ["2m", "10m"]\n{statistics}'
        )
        topology = load_topology(str(file))
        self.mark = fingerprint_of(topology)
        driver = TopologyDriver(topology)
        driver.send_bytes(*events())
        self.emissions = driver.emissions

    def emit(self, emissions: list[Emission]) -> None:
        self.topics.emit(emissions, self.mark)

    def ingest(self, lake: str) -> None:
        ingest(str(self.file), lake, bootstrap=self.topics.bootstrap)

    def audit(self, lake: str) -> int:
        """Its exit code."""
        try:
            audit(str(self.file), lake, bootstrap=self.topics.bootstrap)
        except typer.Exit as exit_:
            return exit_.exit_code
        return 0


def events() -> list[bytes]:
    """Half an hour of three keys."""
    return [
        msgspec.json.encode(
            {"key": f"k{i % 3}", "time": NOON_MS + 6_000 * i, "value": i % 7, "size": i}
        )
        for i in range(300)
    ]


@pytest.mark.long
@pytest.mark.usefixtures("jobs_in_one_session")
def test_a_statistic_that_is_gained_is_no_violation_and_one_that_is_lacking_is(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first half was emitted by a declaration of one statistic, the rest by one of two that
    read another field as well. An audit names the declaration that the lake does not know; when it
    does, the one emission that is missing and the one that lacks a statistic are all that is told.
    """
    topics = make_topics(make_topic, bootstrap_servers)
    old = Declared(topics, tmp_path / "old.toml", COUNT)
    new = Declared(topics, tmp_path / "new.toml", MORE)
    assert old.mark != new.mark
    topics.event(*events())
    half = NOON_MS + 15 * MINUTE_MS
    by_old = [e for e in old.emissions if e.window_end_ms < half]
    by_new = [e for e in new.emissions if e.window_end_ms >= half]
    missing, lacking = by_old.pop(7), by_new.pop()
    counts = [figure for figure in lacking.figures if figure.statistic == "count"]
    old.emit(by_old)
    new.emit([*by_new, msgspec.structs.replace(lacking, figures=counts)])

    lake = str(tmp_path / "lake")
    new.ingest(lake)
    with pytest.raises(SlidestatError, match="lake does not know") as unknown:
        new.audit(lake)
    assert f"{old.mark} ({len(by_old)}); the one given is {new.mark}" in str(unknown.value)
    assert f"slidestat spark ingest THAT.toml --lake {lake}" in unknown.value.advice
    old.ingest(lake)
    capsys.readouterr()
    for given in (old, new):
        assert given.audit(lake) == 1
        said = capsys.readouterr().out.splitlines()
        assert [line for line in said if line.startswith("broken")] == [
            f"broken: {missing.key} at {missing.window_end_ms}: not emitted",
            f"broken: {lacking.key} at {lacking.window_end_ms}: emitted without maximum_size",
        ]
        for declared, count in ((old, len(by_old)), (new, len(by_new) + 1)):
            which = "the topology given" if declared is given else "as the lake keeps it"
            assert f"{count} emissions by declaration {declared.mark}, {which}" in said
