"""A worker and the clients on a broker that lets in only whom it knows."""

import json
from pathlib import Path
from tempfile import gettempdir

import msgspec
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer

from slidestat.local.jars import log_folder
from slidestat.schemas.emission import Emission, Figure
from tests.broker.workers import read_topic, wait_until
from tests.security.conftest import PASSWORD, RunSecured, Secured, make_user, secured_worker

OF_THE_CLIENT = ("KAFKA_SSL_CERTIFICATE_FILE", "KAFKA_SSL_KEY_FILE", "KAFKA_SSL_KEY_PASSWORD")
TOPOLOGY = """
name = "{name}"
source = "{name}"
span = "1h"
every = "1m"
[[statistics]]
kind = "count"
"""


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SSL", ""),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ],
)
def test_every_client_is_let_in(
    secured: Secured,
    secured_topic: str,
    run_secured: RunSecured,
    tmp_path: Path,
    protocol: str,
    mechanism: str,
) -> None:
    """One set of variables serves `produce`, `run` with its tables and changelog, and `watch`."""
    variables = secured.environment(protocol, mechanism)
    topology = tmp_path / "t.toml"
    topology.write_text(TOPOLOGY.format(name=secured_topic))
    events = tmp_path / "events.jsonl"
    events.write_text(
        "".join(
            json.dumps({"key": "k", "time": 1_700_000_000_000 + 1_000 * i, "value": 1}) + "\n"
            for i in range(200)
        )
    )
    produced = run_secured(variables, "produce", str(events), "--topic", secured_topic)
    assert produced.returncode == 0, produced.stderr

    said = tmp_path / "said"
    with secured_worker(variables, topology, tmp_path / "data", said) as worker:
        output = f"{secured_topic}-statistics"
        watch = ("watch", "--topic", output, "--once", "--json", "--from-beginning")

        def emitted() -> bool:
            assert worker.poll() is None, said.read_text()
            is_ready = "ready, partitions" in said.read_text()
            return is_ready and any(read_topic(secured.broker.bootstrap_servers, output).values())

        wait_until(emitted, "an emission", 180)
        assert "window_end_ms" in run_secured(variables, *watch).stdout
        worker.terminate()
        assert worker.wait(30) == 0, said.read_text()
    logs = "".join(path.read_text() for path in (tmp_path / "data").glob("*.log"))
    assert PASSWORD not in said.read_text() + logs


@pytest.mark.long
def test_whom_the_broker_does_not_let_in(secured: Secured, run_secured: RunSecured) -> None:
    """A wrong password, authority, mechanism or port is told in two lines, without the secret,
    behind one that says for what the command waits, if it does.
    """
    scram = secured.environment("SASL_SSL")
    tls = secured.environment("SSL")
    plaintext = {"KAFKA_BOOTSTRAP_SERVERS": scram["KAFKA_BOOTSTRAP_SERVERS"]}
    wrong = "another-password"
    for variables, told in [
        (scram | {"KAFKA_SASL_PASSWORD": wrong}, "refuses the user 'alice'"),
        (scram | {"KAFKA_SASL_USERNAME": "bob"}, "refuses the user 'bob'"),
        (scram | {"KAFKA_SSL_CA_FILE": str(secured.other_ca_file)}, "no TLS connection"),
        (tls | {"KAFKA_SSL_CA_FILE": str(secured.other_ca_file)}, "no TLS connection"),
        (plaintext, "No Kafka broker answers at"),
        (plaintext, "one with TLS or passwords needs KAFKA_SECURITY_PROTOCOL"),
        (tls | dict.fromkeys(OF_THE_CLIENT, ""), "bad certificate"),
    ]:
        run = run_secured(variables, "topics", "list")
        assert run.returncode == 2, run.stdout + run.stderr
        error = run.stderr.removeprefix(
            f"waiting for a broker at {variables['KAFKA_BOOTSTRAP_SERVERS']} ...\n"
        )
        assert error.startswith("error: "), run.stderr
        assert told in error
        assert error.count("\n") == 2, run.stderr
        assert wrong not in run.stderr
        assert PASSWORD not in run.stderr


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_password_that_is_replaced(secured: Secured, secured_topic: str, tmp_path: Path) -> None:
    """A worker says that it is refused. Once its file has the new password it ends, to be started
    again, and what is started then is let in.
    """
    user, file = f"of-{secured_topic}", tmp_path / "password"
    variables = secured.environment("SASL_PLAINTEXT")
    del variables["KAFKA_SASL_PASSWORD"]
    variables |= {"KAFKA_SASL_USERNAME": user, "KAFKA_SASL_PASSWORD_FILE": str(file)}
    file.write_text("old-password")
    make_user(secured.broker.bootstrap_servers, user, "old-password")
    topology = tmp_path / "t.toml"
    topology.write_text(TOPOLOGY.format(name=secured_topic))
    said = tmp_path / "said"

    def await_text(text: str, timeout_s: float) -> None:
        wait_until(lambda: text in said.read_text(), text, timeout_s)

    with secured_worker(variables, topology, tmp_path / "data", said) as worker:
        await_text("ready, partitions", 300)
        make_user(secured.broker.bootstrap_servers, user, "new-password")
        secured.broker.restart()
        await_text(f"refuses the user '{user}'", 120)
        assert worker.poll() is None
        file.write_text("new-password")
        assert worker.wait(400) == 1, said.read_text()
        assert "its certificate or its password was replaced" in said.read_text()
    with secured_worker(variables, topology, tmp_path / "data", said) as worker:
        await_text("ready, partitions", 300)
        worker.terminate()
        assert worker.wait(60) == 0, said.read_text()
    assert "-password'" not in said.read_text()


@pytest.mark.long
@pytest.mark.needs_spark
def test_spark_is_let_in(
    secured: Secured, secured_topic: str, run_secured: RunSecured, tmp_path: Path
) -> None:
    """`slidestat spark ingest` and `backfill` by the same variables, with TLS and a password: every
    record is read, and the password neither in what is said nor in Spark's log.
    """
    # A quick start is worth more here than fast code.
    java = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    variables = secured.environment("SASL_SSL") | java
    topology = tmp_path / "t.toml"
    topology.write_text(TOPOLOGY.format(name=secured_topic))
    made = run_secured(
        variables, "topics", "create", "--topology", str(topology), "--partitions", "2"
    )
    assert made.returncode == 0, made.stderr
    emissions = f"{secured_topic}-statistics"
    producer = Producer({"bootstrap.servers": secured.broker.bootstrap_servers, "log_level": 0})
    for i in range(20):
        figures = [Figure("count", 5.0, 4.0, 6.0, window_ms=60_000, relative_error=0.2)]
        emission = Emission(secured_topic, f"k{i}", 1_764_072_000_000, figures, "events", 0, i)
        producer.produce(emissions, msgspec.json.encode(emission))
    assert producer.flush(60) == 0
    lake, before = tmp_path / "lake", set(log_folder().iterdir())
    ingest = ("spark", "ingest", str(topology), "--lake", str(lake), "--master", "local[1]")
    run = run_secured(variables, *ingest)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{emissions}: 20 records" in run.stdout
    rows = ds.dataset(lake / secured_topic / "statistics", partitioning="hive").to_table()
    assert sorted(rows["source_offset"].to_pylist()) == list(range(20))
    for i in range(200):
        event = {"key": f"k{i % 3}", "time": 1_764_072_000_000 + 1_000 * i}
        producer.produce(secured_topic, json.dumps(event), event["key"])
    assert producer.flush(60) == 0
    filled = ("spark", "backfill", str(topology), "--lake", str(tmp_path / "history"))
    filling = run_secured(variables, *filled, "--master", "local[1]")
    assert filling.returncode == 0, filling.stdout + filling.stderr
    assert "synopses: 3 records" in filling.stdout
    logs = [path.read_text() for path in {*log_folder().iterdir()} - before]
    assert logs
    assert not list(Path(gettempdir()).glob("slidestat-tls-*"))
    said = [run.stdout, run.stderr, filling.stdout, filling.stderr]
    assert PASSWORD not in "".join([*said, *logs])
