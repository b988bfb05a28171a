"""The Helm chart, by its renderings: there is no helm here, and `make chart` makes them."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from scripts.chart import CHART, RELEASE, ROOT, renderings, stamp
from slidestat.declare.forms.files import load_topology
from slidestat.options import (
    BOOTSTRAP_VARIABLE,
    TOKEN_FILE_VARIABLE,
    VIEW_TOKEN_FILE_VARIABLE,
)

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
EXAMPLE = yaml.safe_load((CHART / "ci" / "example.yaml").read_text("utf-8"))
RENDERED = {it.stem: list(yaml.safe_load_all(it.read_text("utf-8"))) for it in renderings()}


def resource(rendering: str, kind: str) -> dict[str, Any]:
    """The last one of this kind; IndexError without."""
    found: dict[str, Any] = [it for it in RENDERED[rendering] if it["kind"] == kind][-1]
    return found


def worker(rendering: str) -> dict[str, Any]:
    (found,) = resource(rendering, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("target", renderings(), ids=lambda it: it.stem)
def test_renderings_are_of_this_chart(target: Path) -> None:
    """One that is older than the chart would be another truth."""
    assert stamp() in target.read_text("utf-8"), "the chart has changed: run `make chart`"


@pytest.mark.parametrize("rendering", RENDERED)
def test_renderings_follow_the_schemas(rendering: str) -> None:
    """Each resource is one that Kubernetes knows; but for that of KEDA, whose schemas it lacks."""
    kinds = set()
    for it in RENDERED[rendering]:
        kinds.add(it["kind"])
        if it["kind"] != "ScaledObject":
            kubernetes_validate.validate(it, kubernetes_validate.latest_version(), strict=True)
    scaler = {"keda": {"ScaledObject"}, "hpa": {"HorizontalPodAutoscaler"}}.get(rendering, set())
    budget = set() if rendering == "hpa" else {"PodDisruptionBudget"}
    assert kinds == {"ConfigMap", "Service", "StatefulSet"} | scaler | budget


@pytest.mark.parametrize("rendering", RENDERED)
def test_workers_may_do_nothing_that_they_do_not_need(rendering: str) -> None:
    """What the profile `restricted` asks for, and a root that nobody writes to: all that a worker
    writes is on its volume, or in /tmp.
    """
    pod = resource(rendering, "StatefulSet")["spec"]["template"]["spec"]
    own = worker(rendering)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert own["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    written = {it["mountPath"] for it in own["volumeMounts"] if not it.get("readOnly")}
    assert written == {"/var/lib/slidestat", "/tmp"}  # noqa: S108
    environment = {it["name"]: it.get("value", "") for it in own["env"]}
    assert environment["XDG_CACHE_HOME"].startswith("/var/lib/slidestat/")


@pytest.mark.parametrize("rendering", RENDERED)
def test_all_that_is_selected_is_of_the_release(rendering: str) -> None:
    """Two releases in a namespace do not take each other's pods for their own."""
    labels = resource(rendering, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    own = {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    selector = {name: text for name, text in labels.items() if name in own}
    release = "slidestat" if rendering == "slidestat" else RELEASE
    assert selector["app.kubernetes.io/instance"] == release
    assert resource(rendering, "Service")["spec"]["selector"] == selector
    assert resource(rendering, "StatefulSet")["spec"]["selector"]["matchLabels"] == selector
    for it in RENDERED[rendering]:
        if it["kind"] == "PodDisruptionBudget":
            assert it["spec"]["selector"]["matchLabels"] == selector
            assert it["spec"]["maxUnavailable"] == 1


def test_the_values_are_in_the_manifest() -> None:
    """Those that the chart has for a start, one by one. What is a user's own to give has none:
    Helm would keep those that they do not name.
    """
    assert VALUES["topologies"] == VALUES["settings"] == {}
    own, pods = worker("slidestat"), resource("slidestat", "StatefulSet")["spec"]
    assert own["image"].startswith(f"{VALUES['image']['repository']}:")
    assert pods["replicas"] == VALUES["replicas"]
    assert own["resources"] == VALUES["resources"]
    assert own["ports"][0]["containerPort"] == VALUES["port"]
    assert resource("slidestat", "ConfigMap")["data"] == EXAMPLE["topologies"]
    settings = RENDERED["slidestat"][1]["data"]
    assert settings == EXAMPLE["settings"] | {TOKEN_FILE_VARIABLE: "/run/secrets/web/token"}
    (claim,) = pods["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == VALUES["volume"]["size"]
    assert "storageClassName" not in claim["spec"]


def test_values_of_another_release(tmp_path: Path) -> None:
    """An image by its digest, brokers without a secret, several topologies, a second token, a role,
    another port, which is Prometheus's as well.
    """
    own = worker("keda")
    assert re.fullmatch(r"registry\.example\.com/slidestat@sha256:[0-9a-f]{64}", own["image"])
    files = [it for it in own["args"] if it.startswith("/etc/")]
    assert files == ["/etc/slidestat/a.toml", "/etc/slidestat/b.toml"]
    assert own["args"][-3:] == ["--change-statistics", "--checkpoint-interval", "1m"]
    for name, text in resource("keda", "ConfigMap")["data"].items():
        (tmp_path / name).write_text(text)
        assert load_topology(str(tmp_path / name)).group == "events"
    assert RENDERED["keda"][1]["data"] == {
        BOOTSTRAP_VARIABLE: "kafka:9092",
        TOKEN_FILE_VARIABLE: "/run/secrets/web/token",
        VIEW_TOKEN_FILE_VARIABLE: "/run/secrets/web/view-token",
    }
    assert not any("kafka" in it["mountPath"] for it in own["volumeMounts"])
    pods = resource("keda", "StatefulSet")["spec"]
    assert pods["template"]["spec"]["serviceAccountName"] == "reads-msk"
    assert own["ports"][0]["containerPort"] == 7000
    assert pods["template"]["metadata"]["annotations"]["prometheus.io/port"] == "7000"
    (claim,) = pods["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


@pytest.mark.parametrize("rendering", RENDERED)
def test_names_are_those_of_a_service(rendering: str) -> None:
    """Of a release with a name that helm takes and Kubernetes does not (helm 4692)."""
    for it in RENDERED[rendering]:
        name = it["metadata"]["name"]
        assert re.fullmatch(r"[a-z]([-a-z0-9]{,61}[a-z0-9])?", name)
    pods = resource(rendering, "StatefulSet")
    assert pods["spec"]["serviceName"] == resource(rendering, "Service")["metadata"]["name"]


@pytest.mark.parametrize(
    "name",
    ["KAFKA_SASL_PASSWORD", "AWS_SECRET_ACCESS_KEY", "SLIDESTAT_WEB_TOKEN", TOKEN_FILE_VARIABLE],
)
def test_no_secret_is_a_setting(name: str) -> None:
    """Nor what the chart itself sets, of which one of two would be left out in silence."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    given = {"settings": {BOOTSTRAP_VARIABLE: "kafka:9092", f"{name}": "x"}}
    validator = jsonschema.Draft7Validator(schema)
    (error,) = validator.iter_errors(VALUES | EXAMPLE | given)
    assert list(error.path) == ["settings"]
    assert not list(validator.iter_errors(VALUES | EXAMPLE))


@pytest.mark.parametrize(
    ("rendering", "kind"), [("keda", "ScaledObject"), ("hpa", "HorizontalPodAutoscaler")]
)
def test_workers_are_scaled_by_lag(rendering: str, kind: str) -> None:
    """By a metric that they have; the number of workers is then nobody else's to set, and changes
    seldom, as each change stops the group.
    """
    pods = resource(rendering, "StatefulSet")
    assert "replicas" not in pods["spec"]
    scaler = resource(rendering, kind)["spec"]
    assert scaler["scaleTargetRef"]["name"] == pods["metadata"]["name"]
    if rendering == "keda":
        (trigger,) = scaler["triggers"]
        query, behavior = trigger["metadata"]["query"], scaler["advanced"]
        behavior = behavior["horizontalPodAutoscalerConfig"]["behavior"]
        assert (scaler["minReplicaCount"], scaler["maxReplicaCount"]) == (2, 24)
        assert trigger["metadata"]["threshold"] == "100000"
        assert 'namespace="stats"' in query
        # Each topology of a worker has the lag of the same partitions.
        (metric,) = re.findall(r"sum\(max by \(partition\) \((\w+)\{", query)
    else:
        (asked,) = scaler["metrics"]
        behavior, metric = scaler["behavior"], asked["pods"]["metric"]["name"]
        assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 6)
        assert asked["pods"]["target"]["averageValue"] == "20000"
    source = (ROOT / "app" / "slidestat" / "web" / "metrics.py").read_text("utf-8")
    assert f'"{metric}"' in source
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 900
    assert behavior["scaleDown"]["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 300}]


def test_the_chart_is_of_this_version() -> None:
    """As the image is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == project["version"]
