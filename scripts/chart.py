"""Lint the Helm chart, and render it: `python -m scripts.chart HELM`, or `make chart`.

The manifest that deploy/ has for `kubectl apply` is the chart's rendering with ci/example.yaml.
Those of the other values in ci/ are for the tests, which have no helm: each rendering says of which
chart it is, so one that is older than the chart fails a test.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "slidestat"
# The oldest one with all that the chart uses; helm that is built from its module knows none.
KUBERNETES = "1.27.0"
# Helm takes it; of a service it is no name, and in YAML some such are numbers.
RELEASE = "7.other"

_HEAD = """\
# Workers of one topology, a pod each, with a volume of its own.
#
#   kubectl create secret generic slidestat-web --from-literal=token="$(openssl rand -hex 32)"
#   kubectl create secret generic slidestat-kafka --from-literal=password=... --from-file=ca.pem
#   kubectl apply -f deploy/kubernetes/slidestat.yaml
#
# Before that, put your image, brokers, user and topology in; or do so with the Helm chart, of which
# this is the rendering. `make chart` makes it: the chart is what to change.
"""
_TESTED = "# Rendered for tests by `make chart`.\n"


def chart_hash() -> str:
    """Return the SHA-256 of all that the chart is made of."""
    digest = hashlib.sha256()
    for path in sorted(it for it in CHART.rglob("*") if it.is_file()):
        digest.update(f"{path.relative_to(CHART)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def renderings() -> dict[Path, tuple[str, list[str]]]:
    """Return the files that are made of the chart: how each begins, and helm's arguments."""
    found = {}
    for values in sorted((CHART / "ci").glob("*.yaml")):
        given = ["--values", str(values)]
        if values.stem == "example":
            target = ROOT / "deploy" / "kubernetes" / "slidestat.yaml"
            found[target] = _HEAD, ["slidestat", *given]
        else:
            target = ROOT / "tests" / "deploy" / "rendered" / values.name
            found[target] = _TESTED, [RELEASE, "--namespace", "stats", *given]
    return found


def stamp() -> str:
    """Return the line that says of which chart a rendering is."""
    return f"# Of the chart {chart_hash()}.\n"


def main(helm: str) -> None:
    """Lint the chart with each of the values, and write its renderings."""

    def run(*arguments: str) -> str:
        done = subprocess.run(  # noqa: S603  # the helm that was built
            [helm, *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"helm {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    for target, (head, arguments) in renderings().items():
        name, *more = arguments
        given = more[more.index("--values") :]
        known = ["--kube-version", KUBERNETES]
        run("lint", "--strict", str(CHART), *known, *given)
        text = run("template", name, str(CHART), *known, *more)
        # The template's name in a comment helps nobody who applies it.
        kept = [line.rstrip() for line in text.splitlines() if not line.startswith("# Source: ")]
        target.parent.mkdir(exist_ok=True)
        target.write_text(head + stamp() + "\n".join(kept) + "\n", encoding="utf-8")
        print(f"linted, and rendered {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1])
