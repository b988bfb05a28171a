"""Alerts and rows of real workers, one of them killed: each as without a crash, told everywhere."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import pytest

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.engine.emissions.rows import Rows
from slidestat.errors import SlidestatError
from slidestat.kafka.read.listed_keys import KeyList
from slidestat.schemas.alert import AlertChange, AlertState
from slidestat.schemas.emission import Emission
from slidestat.text import iso_time
from tests.broker.conftest import MakeStage
from tests.broker.workers import distinct, events, produce, undisturbed, wait_until

ALERTING = """
    span="1m", every="2s", windows=("4s", "1m"), statistics=(Count(epsilon=0.1), Mean(epsilon=0.2)),
    alerts=(
        Alert(name="busy", when="count >= 12", window="4s", for_=2, resolve="count < 9"),
        Alert(name="high", when="mean > 60", window="4s", certain=True),
        Alert(name="silent", when="count = 0", window="1m"),
    ),
    alert_headers="cloudevents",
    expected_topic="%s",
    output_shape="rows",
"""


def test_alerts_and_rows_of_a_worker_that_was_killed(
    make_stage: MakeStage, make_topic: Callable[..., str]
) -> None:
    """The topic of alerts has what an undisturbed partition tells, the second worker tells in its
    metrics for how many keys they fire, and `watch --alerts` shows them. What is written again is
    the same CloudEvent. The output has the rows of an undisturbed partition's emissions, each once
    or again; who reads emissions says what to do.
    """
    services = make_topic("services", 1)
    stage = make_stage(body=ALERTING % services)
    produce(stage.bootstrap, services, [(b"never came", b""), (b"gone", b""), (b"gone", None)])
    topic = stage.topology.alert_topic
    assert topic is not None
    produce(stage.bootstrap, stage.topology.source, events(4_000))
    with stage.worker().await_ready() as worker:
        stage.await_commit_after(0)
        worker.kill()
    produce(stage.bootstrap, stage.topology.source, events(4_000, start=4_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        metrics_url = f"{worker.url}/metrics"
        with urllib.request.urlopen(metrics_url, timeout=10) as response:  # noqa: S310
            metrics = response.read().decode()
        worker.stop()

    declared = replace(stage.topology, expected=("never came",), expected_topic="")
    whole = undisturbed(declared, stage.read(stage.topology.source))
    emissions = [msgspec.json.decode(v, type=Emission) for v in whole.emissions.values()]
    rows = Rows(stage.topology)
    output = stage.read(stage.topology.output_topic)
    sent = [(record.key, record.value) for found in output.values() for record in found]
    assert set(sent) == {
        (f"{row['key']}/{row['window_ms']}".encode(), msgspec.json.encode(row))
        for emission in emissions
        for row in rows.of(emission)
    }
    expected = whole.alerts
    assert distinct(stage.read(topic)) == expected
    ids = dict[str, tuple[bytes, bytes]]()
    for record in (record for found in stage.read(topic).values() for record in found):
        headers = {name: value.decode() for name, value in record.headers.items()}
        change = msgspec.json.decode(record.value, type=AlertChange)
        assert ids.setdefault(headers.pop("ce_id"), record[:2]) == record[:2]
        assert headers == {
            "ce_specversion": "1.0",
            "ce_source": f"/topologies/{declared.name}",
            "ce_type": f"slidestat.alert.{change.state}",
            "ce_time": iso_time(change.window_end_ms),
            "content-type": "application/json",
            "declaration": fingerprint_of(stage.topology),
        }
    assert len(ids) == len(expected)
    changes = [msgspec.json.decode(value, type=AlertChange) for value in expected.values()]
    silent = [change for change in changes if change.alert == "silent"]
    assert [(change.key, change.state) for change in silent] == [("never came", AlertState.FIRING)]
    told = Counter((change.alert, change.state) for change in changes)
    for alert in ("busy", "high"):
        fires = told[alert, AlertState.FIRING] - told[alert, AlertState.RESOLVED]
        assert told[alert, AlertState.RESOLVED] > 5
        (gauge,) = re.findall(rf'slidestat_alert_firing_keys{{alert="{alert}".*}} (.*)', metrics)
        assert float(gauge) == fires

    watch = [sys.executable, "-m", "slidestat", "watch", str(stage.file), "--alerts", "--once"]
    watch += ["--from-beginning", "--json", "--bootstrap", stage.bootstrap]
    shown = subprocess.run(watch, capture_output=True, text=True, check=True, timeout=60)
    lines = {msgspec.json.encode(json.loads(line)) for line in shown.stdout.splitlines()}
    assert lines == {msgspec.json.encode(json.loads(value)) for value in expected.values()}
    watch.remove("--json")
    shown = subprocess.run(watch, capture_output=True, text=True, check=True, timeout=60)
    assert len(shown.stdout.splitlines()) == 20
    assert all(
        re.search(r" (firing|resolved) (certain|likely|forgotten) ", line)
        for line in shown.stdout.splitlines()
    )
    watch.remove("--alerts")
    shown = subprocess.run(watch, capture_output=True, text=True, check=False, timeout=60)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "writes rows, and `slidestat watch` reads emissions" in shown.stderr


def test_a_service_that_stops_alone_in_its_partition(
    make_stage: MakeStage, make_topic: Callable[..., str]
) -> None:
    """Nobody else sends there: a page goes out within the window, `idle` and two ticks, and is
    confirmed under the same key when the service comes back; or taken back, if an event was on its
    way, also by a worker that did not tell it. A key that is listed meanwhile is expected, too.
    """
    services = make_topic("services", 1, {"cleanup.policy": "compact"})
    stage = make_stage(
        partitions=1,
        body=f"""
    span="1m", every="1s", windows=("2s", "1m"), idle="2s", statistics=(Count(epsilon=0.1),),
    alerts=(Alert(name="silent", when="count = 0", window="2s"),), expected_topic="{services}",
""",
    )
    source, topic = stage.topology.source, stage.topology.alert_topic
    assert topic is not None

    def now() -> int:
        return int(time.time() * 1_000)

    def beat(times: Iterable[int]) -> None:
        values = [b'{"key":"search","time":%d,"value":1}' % at for at in times]
        produce(stage.bootstrap, source, [(b"search", value) for value in values])

    def told(key: str = "search") -> list[AlertChange]:
        found = stage.read(topic)[0]
        changes = [msgspec.json.decode(it.value or b"", type=AlertChange) for it in found]
        return [change for change in changes if change.key == key]

    def newest(page: AlertChange) -> AlertChange:
        return next(it for it in reversed(told()) if it.window_end_ms == page.window_end_ms)

    with stage.worker().await_ready() as worker:
        beat(range(now(), now() + 1_000, 50))
        stopped = time.monotonic()
        wait_until(told, "the page", 30)
        # The window, `idle`, two ticks, and what a busy machine takes.
        assert time.monotonic() - stopped < 2 + 2 + 2 + 10
        (page,) = told()
        assert (page.state, page.provisional) == ("firing", True)
        produce(stage.bootstrap, services, [(b"listed", b"")])
        beat(range(now(), now() + 1_000, 50))
        wait_until(lambda: not newest(page).provisional, "its confirmation", 30)
        assert newest(page).state == "firing"
        wait_until(lambda: told()[-1].provisional, "another page", 30)
        page = told()[-1]
        wait_until(lambda: told("listed"), "the page of the key that is listed", 30)
        worker.kill()
    beat([page.window_end_ms - 500, *range(now(), now() + 1_000, 50)])
    with stage.worker().await_ready() as worker:
        wait_until(lambda: not newest(page).provisional, "what became of it", 30)
        worker.stop()
    assert newest(page).state == "resolved"


def test_a_topic_that_lists_no_keys(bootstrap_servers: str, make_topic: Callable[..., str]) -> None:
    """One that is not there, or has records without a key, or with one that is no text."""
    with pytest.raises(SlidestatError, match="no topic"):
        KeyList(bootstrap_servers, "no-such-topic")
    topic = make_topic("services", 2)
    listed = KeyList(bootstrap_servers, topic)
    assert listed.keys == []
    for number in range(2):
        records = [(b"b%d" % number, b""), (b"gone", b"1"), (b"gone", None), (b"a", b"1")]
        produce(bootstrap_servers, topic, records, number)
    assert listed.read() == ["a", "b0", "b1"]
    known = listed.keys
    assert listed.read() is known, "nothing has come, and it is read again"
    for key in (b"\xff", None):
        produce(bootstrap_servers, topic, [(key, b"1")], 0)
        with pytest.raises(SlidestatError, match="has a record whose key is"):
            listed.read()
        assert listed.keys is known
