"""The lock files: two installations are the same, and nothing in them names a machine."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCKS = ["requirements.lock", "requirements-dev.lock"]
# What installs the others, and builds those that have no wheel; installed before them.
BUILD_LOCK = "requirements-build.lock"
PEERS = [
    f"benchmarks/peers/requirements-{name}.lock" for name in ("bytewax", "pathway", "plots", "quix")
]


def locked(name: str, python: str = "3.11") -> dict[str, Version]:
    """The version of each package that a lock file has for a release line of Python."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line.rstrip(" \\")) for line in lines if re.match(r"[a-z0-9]", line)]
    versions: dict[str, Version] = {}
    for pin in pins:
        if not is_for(pin, python):
            continue
        (specifier,) = pin.specifier
        assert specifier.operator == "=="
        assert pin.name not in versions, f"{pin.name} is locked twice"
        versions[pin.name] = Version(specifier.version)
    return versions


def is_for(requirement: Requirement, python: str) -> bool:
    if requirement.marker is None:
        return True
    return requirement.marker.evaluate(
        {"python_version": python, "python_full_version": f"{python}.0"}
    )


def declared(name: str, python: str) -> list[Requirement]:
    """What pyproject.toml asks for on a release line of Python, as far as this lock file must cover
    it.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = project["project"]["dependencies"] + extras["worker"] + extras["local"]
    wanted = wanted + extras["avro"] + extras["protobuf"] + extras["msk"] + extras["otlp"]
    if name == "requirements-dev.lock":
        wanted = wanted + extras["spark"] + extras["mcp"]
        wanted = wanted + project["dependency-groups"]["dev"] + project["build-system"]["requires"]
    found = [Requirement(text) for text in wanted]
    own = project["project"]["name"]
    return [it for it in found if it.name != own and is_for(it, python)]


@pytest.mark.parametrize("python", ["3.11", "3.14"])
@pytest.mark.parametrize("name", LOCKS)
def test_lock_satisfies_what_the_project_declares(name: str, python: str) -> None:
    """Nobody changed pyproject.toml without `make lock`: for the oldest Python and the newest."""
    versions = locked(name, python)
    for requirement in declared(name, python):
        version = versions.get(requirement.name.lower())
        assert version is not None, f"{requirement.name} is not locked: run make lock"
        assert version in requirement.specifier, f"{requirement} is stale: run make lock"


@pytest.mark.parametrize("name", [*LOCKS, BUILD_LOCK])
def test_locked_versions_are_final(name: str) -> None:
    """No pre-release and no development version is locked."""
    assert [pin for pin in locked(name).items() if pin[1].is_prerelease] == []


@pytest.mark.parametrize("name", [*LOCKS, BUILD_LOCK, *PEERS])
def test_lock_names_no_registry_and_hashes_every_file(name: str) -> None:
    """Any mirror may serve the files: the lock has no address, and a SHA-256 for each of them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*-(?!-hash)", text, re.MULTILINE)
    for package in re.split(r"\n(?=[a-z0-9])", text)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", package), package


def test_what_builds_is_locked() -> None:
    """The build lock has what pyproject.toml asks for it, and nothing is built by anything else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    versions = locked(BUILD_LOCK)
    wanted = [Requirement(text) for text in project["dependency-groups"]["build"]]
    assert {requirement.name for requirement in wanted} == versions.keys()
    assert all(versions[requirement.name] in requirement.specifier for requirement in wanted)


def test_both_locks_agree() -> None:
    """What is tested is what users get: the development lock only adds to the runtime lock. What
    was installed first stays.
    """
    runtime, development = (locked(name) for name in LOCKS)
    assert runtime.items() <= development.items()
    assert locked(BUILD_LOCK).items() <= development.items()
