"""What each extra brings is enough for what it is for, and what is missing is said."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What is imported of a distribution where the two names differ.
IMPORTED = {
    "faust-streaming": ("faust", "mode"),
    "confluent-kafka": ("confluent_kafka",),
    "prometheus-client": ("prometheus_client",),
    "python-json-logger": ("pythonjsonlogger",),
}
# Imports as if what these extras bring were not installed.
WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""


def brought_by(extra: str) -> set[str]:
    """The packages that can be imported with an extra, without those of a worker."""
    names = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        found = re.match(r"[\w-]+", requirement)
        assert found, requirement
        if found[0] != "slidestat":
            names.update(IMPORTED.get(found[0], (found[0],)))
    return names


def run_without(missing: set[str], code: str) -> "subprocess.CompletedProcess[str]":
    """A program that runs where these packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=sorted(missing)) + code],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_core_is_enough_for_synopses() -> None:
    """Without a worker's packages every synopsis is there, and counts."""
    code = """
import slidestat.synopses as synopses
for name in synopses.__all__:
    getattr(synopses, name)
count = synopses.ExponentialHistogram.create(synopses.CountParameters(epsilon=0.1, span=100))
count.insert([1, 2, 3])
print(count.query(100, 4).estimate)
"""
    run = run_without(brought_by("worker") | brought_by("local"), code)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "3.0\n"


def test_a_public_name_says_which_extra_it_needs() -> None:
    """Not a trace of modules that the user has never heard of alone."""
    run = run_without(brought_by("worker"), "from slidestat import Topology\n")
    assert "ImportError: slidestat.Topology needs msgspec" in run.stderr
    assert "pip install 'slidestat[worker]'" in run.stderr


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("worker", ["--help"]),
        ("local", ["broker"]),
        ("spark", ["spark", "audit", "flights", "--lake", "nowhere"]),
    ],
)
def test_the_command_says_which_extra_it_needs(extra: str, arguments: list[str]) -> None:
    """Two lines and exit code 2, whatever command is the first to miss a package."""
    code = f"sys.argv = ['slidestat', *{arguments}]\nfrom slidestat.__main__ import main\nmain()\n"
    run = run_without(brought_by(extra), code)
    assert run.returncode == 2, run.stderr
    assert f"slidestat[{extra}]" in run.stderr
    assert "Traceback" not in run.stderr


def test_every_package_has_an_upper_bound_where_its_privates_are_replaced() -> None:
    """Another release may have other privates."""
    wanted = PROJECT["optional-dependencies"]["worker"]
    for name in ("faust-streaming", "aiokafka"):
        (requirement,) = [text for text in wanted if text.startswith(name)]
        assert ",<" in requirement
