"""Emissions in Avro, from a worker by way of a registry to whoever watches."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.engine.emissions.output_codec import AnyFormat
from slidestat.schemas.emission import Emission
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import events, produce
from tests.registry.stand_in import stand_in


def test_a_worker_writes_avro_that_watch_reads(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emissions are those that a worker writes in JSON, under the same keys; watching shows
    them as JSON, and without the registry says what is missing. In both formats a header has the
    fingerprint of the declaration.
    """
    plain = make_stage(body=BODY)
    produce(plain.bootstrap, plain.topology.source, events(10_000))
    plain.drain()
    expected = {key: msgspec.json.decode(v, type=Emission) for key, v in plain.emissions().items()}
    with stand_in() as registry:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
        stage = make_stage(
            body=BODY + 'output_format="avro",', name="avro", source=plain.topology.source
        )
        stage.drain()
        read = AnyFormat(registry.url).decode
        emissions = [read(value) for value in stage.emissions().values()]
        renamed = [msgspec.structs.replace(e, topology=plain.name) for e in emissions]
        assert sorted(renamed, key=_place) == sorted(expected.values(), key=_place)
        assert len(renamed) > 10
        for one in (plain, stage):
            marks = {
                record.headers["declaration"]
                for records in one.read(one.topology.output_topic).values()
                for record in records
            }
            assert marks == {fingerprint_of(one.topology).encode()}

        watch = [sys.executable, "-m", "slidestat", "watch", "--topic", stage.topology.output_topic]
        watch += ["--bootstrap", stage.bootstrap, "--once", "--from-beginning", "--json"]
        shown = subprocess.run(watch, capture_output=True, text=True, check=True, timeout=60)
        lines = [msgspec.convert(json.loads(line), Emission) for line in shown.stdout.splitlines()]
        assert sorted(lines, key=_place) == sorted(emissions, key=_place)
        subject = f"{stage.topology.output_topic}-value"
        assert f"POST subjects/{subject}/versions" in registry.asked

    alone = {name: value for name, value in os.environ.items() if name != "SCHEMA_REGISTRY_URL"}
    failed = subprocess.run(
        watch, capture_output=True, text=True, check=False, timeout=60, env=alone
    )
    assert failed.returncode == 2
    assert "needs a schema registry, and none is given" in failed.stderr
    with stage.worker() as worker:
        assert worker.await_end() == 2
        assert "No schema registry answers" in worker.said()


def _place(emission: Emission) -> tuple[int, str]:
    return emission.window_end_ms, emission.key
