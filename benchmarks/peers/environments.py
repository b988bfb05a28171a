"""Virtual environments of peers, each from a lock with hashes: their needs are not the product's.

python -m benchmarks.peers.environments     # make those that are missing; instant when none is
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.command import typed

_FOLDER = Path(__file__).parent
_ROOT = _FOLDER.parents[1] / ".venv-peers"
_LOG_END = 300


class UnavailableError(Exception):
    """A peer cannot run on this machine; the text says why."""


def environment_python(name: str) -> Path:
    """The Python of a peer's environment, which is made if it is not there or its lock has changed.

    Raises UnavailableError with the end of what the installation said.
    """
    lock = _FOLDER / f"requirements-{name}.lock"
    folder = _ROOT / name
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"making the environment of {name}", file=sys.stderr, flush=True)
    # --only-binary: what would have to be compiled here is not what its users run.
    install = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [*install, "--require-hashes", "-r", str(lock)],
    ):
        done = subprocess.run(  # noqa: S603 - our own commands
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())[-_LOG_END:]
            raise UnavailableError(f"its packages cannot be installed: {said}")
    stamp.write_text(digest)
    return python


if __name__ == "__main__":
    typed(__doc__)
    for _lock in sorted(_FOLDER.glob("requirements-*.lock")):
        environment_python(_lock.stem.removeprefix("requirements-"))
