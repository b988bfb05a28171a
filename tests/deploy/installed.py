"""The project's wheel, installed with an extra alone into a new environment, without a registry.

Its dependencies are those of the locks, which `make setup` has installed: wheels are made of them
again. So no registry can fail, and PySpark, which has no wheel, is not built anew.
"""

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import IO

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
UV = Path(sys.executable).with_name("uv")
_NOT_OF_A_WHEEL = {"INSTALLER", "REQUESTED", "direct_url.json", "RECORD"}


def build_wheel(folder: Path, root: Path = ROOT, *, kernels: bool = False) -> Path:
    """Build the wheel of the project at `root` by what is installed here; with machine code of its
    `kernels`, which `make kernels` has made.
    """
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    variables = os.environ | {"SLIDESTAT_KERNELS": str(int(kernels))}
    subprocess.run(build, cwd=root, env=variables, check=True, capture_output=True)
    (wheel,) = folder.glob("slidestat-*.whl")
    return wheel


def dependencies(extra: str) -> dict[str, Distribution]:
    """Return what the project needs with an extra, by name, as it is installed here."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    _follow("slidestat", extra, found, seen)
    return found


def _follow(name: str, extra: str, found: dict[str, Distribution], seen: set[object]) -> None:
    if (name, extra) in seen:
        return
    seen.add((name, extra))
    for requirement in _requirements(name, extra, found):
        needed = canonicalize_name(requirement.name)
        for each in ("", *requirement.extras):
            _follow(needed, each, found, seen)


def _requirements(name: str, extra: str, found: dict[str, Distribution]) -> Iterable[Requirement]:
    if name == "slidestat":
        extras = PROJECT["optional-dependencies"]
        texts = [*PROJECT["dependencies"], *(extras[extra] if extra else ())]
    else:
        texts = found.setdefault(name, distribution(name)).requires or []
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def wheel_of(installed: Distribution, folder: Path) -> None:
    """Make a wheel of what is installed, unless it is there, without packing its files."""
    (info,) = {
        file.parts[0]
        for file in installed.files or ()
        if file.match("*.dist-info/WHEEL") and len(file.parts) == 2
    }
    text = installed.read_text("WHEEL") or ""
    tags = [line.split()[1].split("-") for line in text.splitlines() if line.startswith("Tag:")]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    path = folder / f"{info.removesuffix('.dist-info')}-{tag}.whl"
    if path.exists():
        return
    with zipfile.ZipFile(path, "w") as wheel:
        names = []
        for file in installed.files or ():
            is_of_the_installation = str(file.parent) == info and file.name in _NOT_OF_A_WHEEL
            if ".." in file.parts or file.suffix == ".pyc" or is_of_the_installation:
                continue
            wheel.write(installed.locate_file(file), str(file))
            names.append(str(file))
        record = f"{info}/RECORD"
        wheel.writestr(record, "".join(f'"{name}",,\n' for name in [*names, record]))


class Environment:
    """A new environment with the wheel and an extra; its kernels are kept in `cache`, which it does
    not share with the checkout.
    """

    def __init__(self, folder: Path, wheel: Path, extra: str, cache: Path) -> None:
        self.folder, self.cache = folder / (extra or "core"), cache
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "SLIDESTAT", "NUMBA", "KAFKA", "SCHEMA_REGISTRY"))
        }
        self._variables["XDG_CACHE_HOME"] = str(cache)
        wheels = folder / "wheels"
        wheels.mkdir(exist_ok=True)
        for needed in dependencies(extra).values():
            wheel_of(needed, wheels)
        shared = ["--quiet", "--offline", "--no-config", "--cache-dir", str(folder / "uv")]
        subprocess.run([UV, "venv", *shared, "--python", sys.executable, self.folder], check=True)
        what = (
            f"slidestat[{extra}] @ {wheel.as_uri()}" if extra else f"slidestat @ {wheel.as_uri()}"
        )
        install = [UV, "pip", "install", *shared, "--python", self.folder, "--no-index"]
        install += ["--find-links", wheels, "--link-mode", "hardlink", what]
        subprocess.run(install, check=True)

    def run(
        self, *arguments: object, code: int = 0, folder: Path | None = None, timeout: float = 240
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program of the environment, away from the checkout; AssertionError, with all that
        it said, unless it ends with `code`.
        """
        program, *rest = map(str, arguments)
        done = subprocess.run(
            [str(self.folder / "bin" / program), *rest],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=self._variables,
            cwd=folder or self.folder,
        )
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def start(self, arguments: Iterable[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
        """Start `slidestat ARGUMENTS...`."""
        return subprocess.Popen(
            [str(self.folder / "bin" / "slidestat"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=self._variables,
            cwd=self.folder,
        )
