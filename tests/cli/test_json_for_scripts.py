"""What scripts read: one JSON object of what people get as text."""

import json
from pathlib import Path

from confluent_kafka import Producer

from tests.commands import RunCli
from tests.conftest import MakeTopic

START_MS = 1_764_000_000_000
EVENTS = 500


def test_from_a_topic_to_a_plan(
    bootstrap_servers: str, make_topic: MakeTopic, run_cli: RunCli, tmp_path: Path
) -> None:
    """`init` names the file and its guesses, `topology show` what a key takes, and a dry run of
    `replay` what would be read, each as one object on standard output.
    """
    topic = make_topic("requests", 2)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for i in range(EVENTS):
        event = {"path": f"/p{i % 7}", "at": START_MS + 10 * i, "ms": i % 90}
        producer.produce(topic, json.dumps(event), event["path"], timestamp=event["at"])
    assert producer.flush(30) == 0

    file = tmp_path / "t.toml"
    run = run_cli("init", topic, "--file", str(file), "--json")
    assert run.returncode == 0, run.stderr
    proposed = json.loads(run.stdout)
    assert (proposed["file"], proposed["source"]) == (str(file), topic)
    assert proposed["time"]["value"] in ("at", ["at"])

    run = run_cli("topology", "show", str(file), "--json")
    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)
    assert shown["source"] == topic
    assert shown["span"] in shown["windows"]
    for statistic in shown["statistics"]:
        assert statistic["bytes"].keys() == shown["bytes"].keys()
        assert statistic["promise"]["confidence"] <= 1

    run = run_cli("replay", str(file), "--dry-run", "--json")
    assert run.returncode == 0, run.stderr
    plan = json.loads(run.stdout)
    assert (plan["source"], plan["records"], plan["in_place"]) == (topic, EVENTS, True)
    assert sum(p["end"] - p["start"] for p in plan["partitions"]) == EVENTS


def test_what_was_made_and_sent(make_topic: MakeTopic, run_cli: RunCli, tmp_path: Path) -> None:
    """`topics create` says of each topic whether it is new, and `produce` what it sent and what it
    left out.
    """
    name = make_topic("made", 1)
    for topic, created in ((name, False), (f"{name}-new", True)):
        run = run_cli("topics", "create", topic, "--partitions", "1", "--json")
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout) == {
            "name": topic,
            "partitions": 1,
            "retention": "forever",
            "created": created,
        }

    file = tmp_path / "events.jsonl"
    file.write_text(f'{{"key": "a", "time": {START_MS}, "value": -1}}\nno event\n')
    run = run_cli("produce", str(file), "--topic", name, "--skip-bad", "--json")
    assert run.returncode == 0, run.stderr
    sent = json.loads(run.stdout)
    assert (sent["topic"], sent["sent"], sent["skipped"], sent["negative"]) == (name, 1, 1, 1)
    assert sent["first_skipped"]


def test_no_json_of_what_is_none(run_cli: RunCli) -> None:
    """What would mix an object with a worker's output, or ask a question, is refused."""
    replayed = run_cli("replay", "flights", "--json")
    assert (replayed.returncode, replayed.stdout) == (2, "")
    assert "--dry-run" in replayed.stderr
    begun = run_cli("init", "requests", "--json", "--run")
    assert (begun.returncode, begun.stdout) == (2, "")


def test_completion_is_offered(run_cli: RunCli) -> None:
    """Shells can be taught the commands."""
    shown = run_cli("--help").stdout
    assert "--install-completion" in shown
