"""The protocol's model keeps its promises, and each of its guards is needed for one of them.

Quint's simulator takes random steps: it finds faults, and proves nothing. Its model checkers cannot
be had from a registry. `make model` installs it for these tests.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "protocol.qnt"
QUINT = Path(__file__).parents[2] / "build" / "quint" / "node_modules" / ".bin" / "quint"
# Each of 25 steps.
SAMPLES = os.environ.get("MODEL_SAMPLES", "4000")
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(not QUINT.exists(), reason="make model installs Quint"),
]

AT_LEAST_ONCE, EXACTLY_ONCE = "false", "true"
# A guard taken out, and the promise that does not hold then.
GUARDS = {
    # A restore leaves out what an older epoch has written behind a newer one.
    "epochs": (AT_LEAST_ONCE, "counted"),
    # An owner's first record is a fence.
    "fence": (AT_LEAST_ONCE, "counted"),
    # Exactly once, brokers refuse that of a worker that was frozen while it took over.
    "fence in transaction": (EXACTLY_ONCE, "once"),
    # Outputs are acknowledged before states are written, and states before the checkpoint.
    "outputs first": (AT_LEAST_ONCE, "emitted"),
    "states first": (AT_LEAST_ONCE, "counted"),
    # What a state has by its offset is passed over.
    "offsets": (AT_LEAST_ONCE, "same_bytes"),
    # C is the least offset of what is not durable.
    "c": (AT_LEAST_ONCE, "counted"),
    # Nothing up to P is emitted again.
    "p": (EXACTLY_ONCE, "once"),
    # The next owner's transactional id fences the one before.
    "transaction fence": (EXACTLY_ONCE, "once"),
}


def quint(
    folder: Path, command: str, *options: str, exactly_once: str, without: str, more: str = ""
) -> str:
    """What a command of Quint says of the model, with `more` declared beside it."""
    file = folder / "checked.qnt"
    instance = f'import protocol(EXACTLY_ONCE = {exactly_once}, WITHOUT = "{without}").*'
    file.write_text(f"{MODEL.read_text('utf-8')}module checked {{ {instance}\n{more} }}", "utf-8")
    done = subprocess.run(
        [QUINT, command, "--backend", "typescript", "--main", "checked", file, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def broken(folder: Path, exactly_once: str, without: str) -> str:
    """The promise that was found broken, "" for none."""
    promises = ("counted", "same_bytes", "emitted", "once", "fenced")
    said = quint(
        *(folder, "run", "--max-steps", "25", "--max-samples", SAMPLES, "--seed", "1"),
        *("--verbosity", "2", "--invariants", *promises),
        exactly_once=exactly_once,
        without=without,
    )
    assert "[ok]" in said or "[violation]" in said, said
    found = re.search("\u274c ([a-z_]+)", said)
    assert (found is not None) == ("[violation]" in said), said
    return found[1] if found else ""


@pytest.mark.parametrize("exactly_once", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_promises_are_kept(tmp_path: Path, exactly_once: str) -> None:
    """Whatever the order of two workers' steps, zombies among them."""
    assert broken(tmp_path, exactly_once, "") == ""


@pytest.mark.parametrize("guard", GUARDS)
def test_each_guard_is_needed(tmp_path: Path, guard: str) -> None:
    """Without it a promise is broken."""
    exactly_once, promise = GUARDS[guard]
    assert broken(tmp_path, exactly_once, guard) == promise


@pytest.mark.parametrize(("without", "said"), [("", "1 passing"), ("p stays", "1 failed")])
def test_p_stays_while_reading_goes_back(tmp_path: Path, without: str, said: str) -> None:
    """P does not go back with it. Random steps hardly ever come to the scene where that matters."""
    scene = "run scene = reading_goes_back.expect(once)"
    found = quint(
        *(tmp_path, "test", "--match", "scene"),
        exactly_once=EXACTLY_ONCE,
        without=without,
        more=scene,
    )
    assert said in found
