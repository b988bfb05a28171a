"""A topology attached to a Faust application, run by Faust's own command."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import faust
import pytest

from slidestat import Count, SlidestatError, Topology
from slidestat.cli import attached_worker
from slidestat.faust import attach
from tests.broker.conftest import BODY
from tests.broker.workers import (
    START_S,
    Stage,
    end_offsets,
    events,
    produce,
    undisturbed,
    wait_until,
)

APPLICATION = """
import faust
from slidestat import Count, Sum, Topology
from slidestat.faust import attach

app = faust.App("{name}-app", broker="kafka://{bootstrap}", web_enabled=False, datadir="{folder}")
topology = Topology(name="{name}", source="{source}", {body})
emissions = attach(app, topology, data_dir="{folder}/tables")
seen = app.topic("{seen}", value_serializer="raw")

@app.agent(emissions)
async def look(stream):
    async for emission in stream:
        await seen.send(key=emission.key, value=b"%d" % emission.window_end_ms)
"""


@pytest.mark.parametrize("given", ["orders.toml", {"name": "orders"}, [], None])
def test_what_is_no_topology_is_refused(given: object) -> None:
    """With how to get one from a file, not by an attribute that it lacks."""
    app = faust.App("shop", broker="kafka://127.0.0.1:1")
    with pytest.raises(SlidestatError, match="attach was given") as refused:
        attach(app, cast(Topology, given))
    assert "load_topology" in refused.value.advice


def test_brokers_are_those_of_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they are: at an address of IPv6, or, without a host, on this machine."""
    asked: list[str] = []

    def prepared(_topologies: object, bootstrap: str, *_args: object, **_more: object) -> None:
        asked.append(bootstrap)
        raise SlidestatError("Seen.")

    monkeypatch.setattr(attached_worker, "prepared_worker", prepared)
    app = faust.App("shop", broker=["kafka://[::1]:9093", "kafka://", "kafka://shop"])
    topology = Topology(name="orders", source="orders", span="1h", every="1m", statistics=[Count()])
    worker = attached_worker._AttachedWorker(app, topology, None, "", logs=False)
    with pytest.raises(SystemExit):
        asyncio.run(worker.on_start())
    assert asked == ["[::1]:9093,127.0.0.1:9092,shop:9092"]


def test_agents_read_the_emissions_of_an_attached_topology(
    make_stage: Callable[..., Stage], make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """They see all that the topology writes, which is what a worker of ours writes; a signal ends
    both with everything committed.
    """
    stage = make_stage(body=BODY)
    seen = make_topic("seen", 1)
    text = APPLICATION.format(
        **{"name": stage.topology.name, "bootstrap": stage.bootstrap, "folder": tmp_path},
        **{"source": stage.topology.source, "body": BODY, "seen": seen},
    )
    (tmp_path / "shop.py").write_text(text)

    def ends(topic: str) -> int:
        return sum(end_offsets(stage.bootstrap, topic).values())

    produce(stage.bootstrap, stage.topology.source, events(3_000))
    expected = undisturbed(stage.topology, stage.read(stage.topology.source))
    with started(tmp_path) as worker:
        wait_until(
            lambda: worker.poll() is not None or ends(seen) >= len(expected.emissions),
            "an agent that has seen all",
            START_S,
        )
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0, (tmp_path / "said").read_text()
    stage.check()


def test_what_is_refused_ends_the_application_in_two_lines(
    bootstrap_servers: str, topic_name: str, tmp_path: Path
) -> None:
    """As it ends `slidestat run`, without a stack trace."""
    text = APPLICATION.format(
        **{"name": topic_name, "bootstrap": bootstrap_servers, "folder": tmp_path},
        **{"source": f"{topic_name}-none", "body": BODY, "seen": "seen"},
    )
    (tmp_path / "shop.py").write_text(text)
    with started(tmp_path) as worker:
        code = worker.wait(60)
    said = (tmp_path / "said").read_text()
    assert code == 2, said
    assert f"error: There is no topic '{topic_name}-none'" in said
    assert "what to do: " in said
    assert "Traceback" not in said


def test_one_of_several_topologies_logs_for_all() -> None:
    """Each line would come twice."""
    app = faust.App("several")
    for name in ("a", "b"):
        attach(app, Topology(name=name, source="s", span="1h", every="1m", statistics=[Count()]))
    assert [child._logs for child in app._children] == [True, False]


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Faust's command for the application `shop` of a folder, which has what it `said`."""
    with (folder / "said").open("wb") as said:
        worker = subprocess.Popen(
            [sys.executable, "-m", "faust", "-A", "shop", "worker", "-l", "warn", "--without-web"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=said,
            stderr=said,
        )
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()
