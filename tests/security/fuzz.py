"""Fuzz the decoders of decoders.py with inputs that follow coverage: `make fuzz`.

Kernels run as plain Python: so the fuzzer sees which branches they take, and numpy checks bounds.
Then compiled kernels with bounds checks read the inputs that it kept, each of which reaches
something new. An input that a decoder neither reads nor refuses is printed, and kept in build/fuzz;
so is one that takes a minute, or 3 GiB. The next run begins with what this one has kept.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "build" / "fuzz"
_KEPT_ONLY = "--kept-only"
# A machine may have other work: what hangs takes longer.
_LIMITS = ("-timeout=60", "-rss_limit_mb=3072", "-max_len=4096", "-verbosity=0")


def _kept(name: str) -> Path:
    return _FOLDER / name.replace(" ", "-")


def _fuzz(names: list[str], seconds: int) -> list[str]:
    """Fuzz each decoder in a process of its own; return the names of those with faults."""
    import atheris  # It is installed for this command alone.

    with atheris.instrument_imports(include=["slidestat"]):
        from tests.security.decoders import DECODERS

    faulty = []
    for name in names or list(DECODERS):
        print(f"--- {name}", flush=True)
        child = os.fork()
        if child:
            if os.waitpid(child, 0)[1]:
                faulty.append(name)
            continue
        read, seeds, refusals = DECODERS[name]
        folder = _kept(name)
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (folder / f"seed-{number}").write_bytes(seed)

        def once(data: bytes) -> None:
            with suppress(refusals):  # noqa: B023  # A child has one decoder.
                read(data)  # noqa: B023

        each = max(1, seconds // len(names or DECODERS))
        artifacts = f"-artifact_prefix={_FOLDER}/found-{folder.name}-"
        atheris.Setup(
            [sys.argv[0], str(folder), f"-max_total_time={each}", artifacts, *_LIMITS], once
        )
        atheris.Fuzz()
    return faulty


def _read_kept(names: list[str]) -> list[str]:
    """Read what was kept; return the names of the decoders with faults."""
    from tests.security.decoders import DECODERS

    faulty = []
    for name in names or list(DECODERS):
        for file in sorted(_kept(name).iterdir()):
            try:
                DECODERS[name].read(file.read_bytes())
            except DECODERS[name].refusals:
                pass
            except Exception as error:  # noqa: BLE001
                print(f"{name}: {file}: {error!r}", flush=True)
                faulty.append(name)
    return faulty


if __name__ == "__main__":
    how, *names = sys.argv[1:]
    faulty = _read_kept(names) if how == _KEPT_ONLY else _fuzz(names, int(how))
    print(f"faults in: {', '.join(dict.fromkeys(faulty))}" if faulty else "nothing was found")
    sys.exit(bool(faulty))
