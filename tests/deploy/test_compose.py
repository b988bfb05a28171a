"""The compose file and the image: valid, pinned, and in step with the command line.

No container is started here: what is checked is what can be known without an engine. The image is
built and run in test_image.py.
"""

import importlib.resources
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml

from slidestat.declare.forms.files import load_topology
from slidestat.errors import SlidestatError
from slidestat.options import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from slidestat.web.address import listen

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("slidestat:")]


def validator() -> jsonschema.protocols.Validator:
    """The compose specification's own JSON Schema, as check-jsonschema ships it."""
    schemas = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text(encoding="utf-8"))
    return jsonschema.validators.validator_for(schema)(schema)


def dockerfile(instruction: str) -> list[str]:
    """The arguments of every such instruction of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    return re.findall(rf"^{instruction} (.+)$", text, re.MULTILINE)


def test_compose_file_follows_the_specification() -> None:
    """The compose file is valid, and the same check refuses an invalid one."""
    assert [error.message for error in validator().iter_errors(COMPOSE)] == []
    invalid = {"services": {"worker": {"imgae": "slidestat"}}}
    assert list(validator().iter_errors(invalid)) != []


def in_containers() -> list[list[str]]:
    """The arguments of what the file's head says to run in a worker's container."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    lines = re.findall(r"^#   docker compose run --rm worker (.+)$", text, re.MULTILINE)
    return [line.split() for line in lines]


@pytest.mark.parametrize(
    "command", [*(SERVICES[name]["command"] for name in OURS), *in_containers()]
)
def test_command_exists_in_the_command_line(command: list[str]) -> None:
    """Each command of a service is one that `slidestat` has, with every option that it is given."""
    # --help is answered only after all the other arguments have been parsed.
    arguments = [*command, "--help"]
    done = subprocess.run(
        [Path(sys.executable).with_name("slidestat"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert dockerfile("ENTRYPOINT") == ['["slidestat"]']


def test_images_are_pinned() -> None:
    """No image floats: each has a tag with a version, and ours is the project's version."""
    images = [service["image"] for service in SERVICES.values()] + dockerfile("FROM")
    for image in images:
        assert re.fullmatch(r"[a-z/-]+:v?\d+(\.\d+)+(-[a-z]+)?", image), image
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {SERVICES[name]["image"] for name in OURS} == {f"slidestat:{project['version']}"}


def test_kafka_is_the_version_that_the_tests_ran_on() -> None:
    """Compose starts the Kafka that `slidestat broker` starts."""
    version = SERVICES["kafka"]["image"].partition(":")[2]
    assert (ROOT / "app" / "slidestat" / "local" / f"kafka-{version}.sha256").is_file()


def test_workers_can_be_scaled() -> None:
    """A worker has nothing that a second one would need as well: name, host port, volume."""
    worker = SERVICES["worker"]
    assert "container_name" not in worker
    assert "ports" not in worker
    (volume,) = worker["volumes"]
    assert ":" not in volume
    assert volume in worker["command"]
    assert "stop_grace_period" in worker


def test_workers_answer_each_other_and_who_has_the_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command line listens beyond its container with the secret where the worker is told to
    find it, and would not without; the secret is one that the file declares.
    """
    worker = SERVICES["worker"]
    token_file = worker["environment"][TOKEN_FILE_VARIABLE]
    (secret,) = worker["secrets"]
    assert token_file == f"/run/secrets/{secret}"
    assert COMPOSE["secrets"] == {secret: {"environment": TOKEN_VARIABLE}}
    assert COMPOSE["x-slidestat"]["environment"].items() <= worker["environment"].items()
    command = worker["command"]
    host = command[command.index("--web-host") + 1]
    port = command[command.index("--web-port") + 1]
    with pytest.raises(SlidestatError, match="open to anyone"):
        listen(host, 0)
    (tmp_path / "token").write_text("t0ken\n")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "token"))
    address = listen(host, 0)
    with address.listener:
        assert address.token == "t0ken"
        # Known by its own name, not as all interfaces.
        assert "0.0.0.0" not in address.url  # noqa: S104
    (query,) = (command for command in in_containers() if command[0] == "query")
    assert query[query.index("--url") + 1] == f"http://worker:{port}"


def test_services_wait_for_what_they_need() -> None:
    """Topics wait for a healthy broker, workers and the producer for the topics."""
    for name in OURS:
        for other, how in SERVICES[name]["depends_on"].items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other]
            else:
                assert how["condition"] == "service_completed_successfully"
                assert "restart" not in SERVICES[other]
    assert SERVICES["worker"]["depends_on"].keys() == {"topics"}
    assert SERVICES["producer"]["depends_on"].keys() == {"topics"}


def test_our_image_is_built_once_and_never_pulled() -> None:
    """By the service that all others of the image wait for: builds of one name that run at the same
    time end each other.
    """
    assert len(OURS) == 3
    (built,) = (name for name in OURS if "build" in SERVICES[name])
    for name in set(OURS) - {built}:
        assert SERVICES[name]["pull_policy"] == "never"
        assert built in SERVICES[name]["depends_on"]


def test_a_slow_start_is_no_failure() -> None:
    """A broker may start for a while before failed checks of its health count."""
    for service in SERVICES.values():
        if check := service.get("healthcheck"):
            assert check["test"][0] == "CMD"
            assert check["test"][1].startswith("/opt/kafka/bin/"), "a program that its image has"
            assert int(check["start_period"].removesuffix("s")) >= 60


def test_files_of_ours_can_be_read_and_not_written() -> None:
    """In their containers, also where SELinux is on."""
    mounted = [it for service in SERVICES.values() for it in service.get("volumes", ())]
    ours = [it.split(":") for it in mounted if it.startswith("./")]
    assert len(ours) == 5
    for own, _, mode in ours:
        assert (ROOT / own).exists()
        assert set(mode.split(",")) == {"ro", "z"}


def test_producer_sends_the_shipped_extract() -> None:
    """The mounted folder has the file that the producer names, with the columns it names."""
    producer = SERVICES["producer"]
    assert producer["profiles"] == ["demo"]
    folder, target, _ = producer["volumes"][0].split(":")
    file = producer["command"][1]
    assert file.startswith(f"{target}/")
    names = pq.read_schema(ROOT / folder / file.removeprefix(f"{target}/")).names
    options = dict(option.lstrip("-").split("=") for option in producer["command"][2:])
    sent = {options[column] for column in ("key", "time", "value", "with")}
    assert sent <= set(names)
    # All that is counted: a statistic of a field that is not sent stays empty.
    topology = load_topology("flights")
    value = options["value"] if topology.value_field == "value" else topology.value_field
    read = {".".join(it.path(topology.value_path)) for it in topology.statistics}
    assert read <= sent | {value, "value"}
    assert "destination" in read


def test_what_watches_is_configured() -> None:
    """Prometheus finds the workers where they listen, by the secret that it is given; Grafana has
    our dashboards and that Prometheus; both only for this machine.
    """
    worker, watcher = SERVICES["worker"]["command"], SERVICES["prometheus"]
    config = yaml.safe_load((ROOT / "deploy/prometheus/compose.yml").read_text("utf-8"))
    (scrape,) = config["scrape_configs"]
    (found,) = scrape["dns_sd_configs"]
    assert found["names"] == ["worker"]
    assert str(found["port"]) == worker[worker.index("--web-port") + 1]
    secret = scrape["authorization"]["credentials_file"]
    assert secret == SERVICES["worker"]["environment"][TOKEN_FILE_VARIABLE]
    assert watcher["secrets"] == SERVICES["worker"]["secrets"]
    for rules in config["rule_files"]:
        assert (ROOT / "deploy/prometheus" / rules).exists()
    for name in ("prometheus", "grafana", "registry"):
        assert SERVICES[name]["profiles"] == ["registry" if name == "registry" else "monitoring"]
        assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])
    folder = ROOT / "deploy/grafana/provisioning"
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yml").read_text("utf-8"))[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((folder / "dashboards/slidestat.yml").read_text("utf-8"))[
        "providers"
    ]
    path = provider["options"]["path"]
    shown = [it.split(":")[1] for it in SERVICES["grafana"]["volumes"]]
    assert {f"{path}/{it}.json" for it in ("slidestat", "figures")} <= set(shown)


def test_image_has_its_sources_and_no_root() -> None:
    """What the Dockerfile copies exists and is let through, and the process is not root's."""
    let_through = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for copied in dockerfile("COPY"):
        for source in copied.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in let_through, source
    (user,) = dockerfile("USER")
    (added,) = dockerfile("RUN useradd")
    assert f"--uid {user} " in added
    assert int(user) > 0
    (volume,) = SERVICES["worker"]["volumes"]
    assert any(run.endswith(f" {volume}") for run in dockerfile(r"    && install"))


def test_ci_script_can_be_run() -> None:
    """The script that CI starts is executable."""
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
