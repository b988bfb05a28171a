"""The manifest for Kubernetes: valid by its schemas, and in step with the command line."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import trustme
import yaml

from slidestat.declare.forms.files import load_topology
from slidestat.kafka.settings import broker_security
from slidestat.options import BOOTSTRAP_VARIABLE, TOKEN_FILE_VARIABLE

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "deploy" / "kubernetes" / "slidestat.yaml"
RESOURCES: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text("utf-8")))
WORKERS = next(resource for resource in RESOURCES if resource["kind"] == "StatefulSet")
POD = WORKERS["spec"]["template"]["spec"]
(WORKER,) = POD["containers"]


def resource(kind: str, name: str) -> dict[str, Any]:
    """The one of this kind and name; StopIteration without."""
    return next(r for r in RESOURCES if (r["kind"], r["metadata"]["name"]) == (kind, name))


@pytest.mark.parametrize("given", RESOURCES, ids=lambda r: f"{r['kind']}-{r['metadata']['name']}")
def test_manifest_follows_the_schemas(given: dict[str, Any]) -> None:
    """Each resource is one that Kubernetes knows, without a field that it does not."""
    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(given, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**given, "sepc": {}}, version, strict=True)


def test_worker_runs_a_command_that_exists(tmp_path: Path) -> None:
    """`slidestat` takes the container's arguments, and the topology that it is given loads."""
    done = subprocess.run(
        [sys.executable, "-m", "slidestat", *WORKER["args"], "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    ((name, text),) = resource("ConfigMap", "slidestat-topology")["data"].items()
    (tmp_path / name).write_text(text)
    assert load_topology(str(tmp_path / name)).source == "requests"
    mounted = {mount["name"]: mount["mountPath"] for mount in WORKER["volumeMounts"]}
    assert WORKER["args"][1] == f"{mounted['topology']}/{name}"
    data_dir = WORKER["args"][WORKER["args"].index("--data-dir") + 1]
    assert data_dir.startswith(f"{mounted['data']}/")


def test_settings_are_those_that_workers_read(tmp_path: Path) -> None:
    """The variables are known, together they make sense, and each file is in a mounted secret."""
    settings = dict(resource("ConfigMap", "slidestat")["data"])
    mounts = tuple(mount["mountPath"] for mount in WORKER["volumeMounts"])
    (tmp_path / "password").write_text("secret")
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name, value in settings.items():
        if name.endswith("_FILE"):
            assert str(Path(value).parent) in mounts
            settings[name] = str(tmp_path / Path(value).name)
    assert {BOOTSTRAP_VARIABLE, TOKEN_FILE_VARIABLE} <= settings.keys()
    security = broker_security(settings)
    assert (security.has_tls, security.mechanism) == (True, "SCRAM-SHA-512")
    assert (security.username, security.password) == ("slidestat", "secret")


def test_probes_ask_what_workers_answer() -> None:
    """Alive at /healthz, ready at /readyz, both at the port that the worker listens at."""
    port = WORKER["args"][WORKER["args"].index("--web-port") + 1]
    assert [str(p["containerPort"]) for p in WORKER["ports"]] == [port]
    (service_port,) = resource("Service", "slidestat")["spec"]["ports"]
    assert str(service_port["port"]) == port
    annotations = WORKERS["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == port
    asked = {kind: WORKER[kind]["httpGet"] for kind in WORKER if kind.endswith("Probe")}
    assert {kind: get["path"] for kind, get in asked.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {get["port"] for get in asked.values()} == {WORKER["ports"][0]["name"]}


def test_image_is_that_of_the_project() -> None:
    """As compose builds it, by the user that the image makes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert WORKER["image"] == f"slidestat:{project['version']}"
    user = POD["securityContext"]["runAsUser"]
    assert f"--uid {user} " in (ROOT / "Dockerfile").read_text("utf-8")
