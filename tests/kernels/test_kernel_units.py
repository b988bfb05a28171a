"""Machine code of kernels: what a process loads does what the source does, whoever compiled it."""

import importlib.resources
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest

from slidestat.errors import SlidestatError
from slidestat.kernels import compile as compile_, units, vectors
from slidestat.kernels.compile import compiled_here
from slidestat.kernels.units import Unit, key_of, packages, unit_of
from slidestat.kernels.vectors import (
    Vector,
    Vectors,
    copied,
    kernels_of,
    same,
    vectors_of,
)
from slidestat.user_files import write_whole
from tests.synopses.plain_python import ROOT, as_plain_python

SOURCES = ROOT / "app"
compiled = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there is no machine code")


def wrong_vectors() -> list[str]:
    """Return the kernels of which a vector does not hold."""
    return [
        f"{package}.{name}"
        for package in packages()
        for name, kernel in kernels_of(package)
        for vector in vectors_of(package)[name]
        if not vector.holds_for(kernel)
    ]


@compiled
def test_machine_code_does_what_plain_python_did() -> None:
    """All kernels, by all vectors; all of their machine code comes from units."""
    before = len(compiled_here)
    assert wrong_vectors() == []
    assert compiled_here[before:] == []


def digest() -> str:
    """Return what `as_plain_python` asks for."""
    return repr(wrong_vectors())


def test_vectors_are_what_plain_python_gives_today() -> None:
    """After a change of a kernel: make vectors."""
    assert as_plain_python("tests.kernels.test_kernel_units") == "[]"


def test_all_rooms_with_kernels_have_vectors() -> None:
    """A package without any would have its kernels compiled by each process."""
    with_kernels = {
        ".".join(path.relative_to(SOURCES).parent.parts)
        for path in SOURCES.glob("slidestat/**/*.py")
        if re.search("^@(borrowing_|unlocked_)?kernel$", path.read_text("utf-8"), re.MULTILINE)
    }
    assert with_kernels == set(packages())


def run(code: str, folder: Path, cache: Path, *flags: str) -> str:
    """Return what Python prints, with modules of `folder`, and kernels kept in `cache`."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SORTED = """
import numba, numpy as np
for i in range({before}):
    @numba.njit
    def other(x): return x + i
    other(1)
from ours.by_{name} import ordered
ordered(np.arange(40.0))
print(next(numba.core.bytecode.FunctionIdentity._unique_ids) >> 32)
"""
BOTH = """
import numpy as np
from ours.by_{first} import ordered as one
from ours.by_{second} import ordered as other
values = np.array([30.0, 10.0, 20.0, 50.0, 40.0] * 8)
found = dict({first}=one(values), {second}=other(values))
ordered = np.sort(values)
print((found["sort"] == ordered).all() and (values[found["argsort"]] == ordered).all())
"""


@compiled
@pytest.mark.parametrize("before", [3, pytest.param(4, marks=pytest.mark.long)])
def test_a_cache_that_two_processes_filled_gives_each_function_its_own_code(
    before: int, tmp_path: Path
) -> None:
    """numba numbers closures by a counter of the process: those of two processes had one name, and
    np.sort's was called for np.argsort's. A user's own kernels are kept by whoever compiles them.
    """
    package = tmp_path / "ours"
    package.mkdir()
    (package / "__init__.py").touch()
    numbers = {}
    for name in ("sort", "argsort"):
        (package / f"by_{name}.py").write_text(
            "import numpy as np\n"
            "from slidestat.kernels.compile import kernel\n"
            "@kernel\n"
            f"def ordered(values): return np.{name}(values)\n"
        )
    for name, others in (("sort", before), ("argsort", 0)):
        numbers[name] = run(SORTED.format(before=others, name=name), tmp_path, tmp_path / name)
        subprocess.run(["cp", "-a", f"{tmp_path / name}/.", f"{tmp_path / 'both'}"], check=True)
    for first, second in itertools.permutations(numbers):
        code = BOTH.format(first=first, second=second)
        assert run(code, tmp_path, tmp_path / "both") == "True", first
    assert numbers["sort"] != numbers["argsort"], "two processes number from the same start"


@compiled
def test_an_edited_constant_of_a_module_without_a_package_is_compiled_anew(tmp_path: Path) -> None:
    """numba's cache looks at neither constants nor callees; the module beside is one's callee."""
    (tmp_path / "by_hand.py").write_text(
        "from slidestat.kernels.compile import kernel\n"
        "from by_hand_too import other\n"
        "@kernel\n"
        "def value(): return other()\n"
    )
    for constant in ("1.5", "2.5"):
        (tmp_path / "by_hand_too.py").write_text(
            "from slidestat.kernels.compile import kernel\n"
            "@kernel\n"
            f"def other(): return {constant}\n"
        )
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        code = "from by_hand import value; print(value())"
        assert run(code, tmp_path, tmp_path / "cache") == constant


FORKED = """
import os
from numba.core.bytecode import FunctionIdentity
import slidestat.kernels.compile
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, str(next(FunctionIdentity._unique_ids)).encode())
    os._exit(0)
os.wait()
print(int(os.read(reader, 100)) == next(FunctionIdentity._unique_ids))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
def test_forked_processes_give_their_functions_other_numbers(tmp_path: Path) -> None:
    """Both keep what they compile: with the same numbers two functions could have one name."""
    assert run(FORKED, tmp_path, tmp_path / "cache") == "False"


EVERYTHING = """
import inspect
from slidestat import Topology, TopologyDriver
from slidestat.declare.kinds import KINDS
from slidestat.kernels.compile import compiled_here
GIVEN = {"edges": (0.5, 3.25), "thresholds": (1.0,), "items": ("i1", "none")}
made = []
for kind, of_kind in KINDS.items():
    names = inspect.signature(of_kind).parameters
    needed = {name: GIVEN[name] for name in names if name in GIVEN}
    made.append(of_kind(**needed))
    if "field" in names and kind in {"top", "distinct", "lean_distinct", "items", "norm"}:
        made.append(of_kind(**needed, field="item", name=f"{kind}_of_items"))
    if "weight" in names:
        made.append(of_kind(**needed, field="item", weight="value", name=f"{kind}_by_weight"))
LISTS = {"top", "items", "item_counts", "sample"}
ALONE = {"norm", "sample", "landmark_count", "landmark_sum"}
numbers = [one for one in made if one.kind not in LISTS]
parted = [one for one in made if one.kind not in ALONE]
for statistics, fields in (
    (made, {}),
    (made, {"emit": "events", "where": "value >= 3 and item <> 'i5'"}),
    (made, {"idle": "5m", "forget_after": "2h"}),
    (parted, {"publish": "partition"}),
    (numbers, {"output_shape": "rows"}),
):
    topology = Topology(
        name="t", source="s", span="1h", every="10m", windows=("10m", "1h"), lateness="1m",
        statistics=tuple(statistics), **fields
    )
    driver = TopologyDriver(topology)
    for number in (1, 3, 5_000):
        driver.send(*(
            {"key": f"k{i % 7}", "time": 1_764_000_000_000 + i * 977, "value": 1 + i % 91 / 4,
             "item": f"i{i % 53}"}
            for i in range(number)
        ))
    driver.close_windows()
    assert not driver.dead_letters, driver.dead_letters[0]
print(compiled_here)
"""


@compiled
def test_no_statistic_compiles_what_no_unit_has() -> None:
    """Each kind, over numbers, items and weights, in a process that has compiled nothing before."""
    assert run(EVERYTHING, ROOT, units.cache_folder().parent) == "[]"


SMALL = ["sampling", "quantiles", "moments", "distinct"]
CHECK = """
from slidestat.kernels.compile import compiled_here
from slidestat.kernels.vectors import kernels_of, vectors_of
for package in {packages}:
    package = f"slidestat.synopses.{{package}}"
    for name, kernel in kernels_of(package):
        for vector in vectors_of(package)[name]:
            assert vector.holds_for(kernel), name
assert not compiled_here
"""


@compiled
@pytest.mark.parametrize(
    "decorator", ["from slidestat.kernels.compile import kernel", "kernel = numba.njit(cache=True)"]
)
def test_a_kernel_that_calls_one_of_ours_is_loaded_by_a_process_that_has_loaded_none(
    decorator: str, tmp_path: Path
) -> None:
    """As docs/your-own-synopsis.md has it, and as numba's cache keeps it. Ours was kept as a name
    without code: the second start of a worker ended with a segmentation fault.
    """
    (tmp_path / "by_hand.py").write_text(
        "import numba\n"
        "from slidestat.synopses.core.wire import zigzag\n"
        f"{decorator}\n"
        "@kernel\n"
        "def two_more(value): return zigzag(value) + 2\n"
    )
    code = (
        "from by_hand import two_more; print(two_more(-5), sum(two_more.stats.cache_hits.values()))"
    )
    package = "slidestat.synopses.core"
    assert unit_of(package)
    name = f"{package}-{key_of(package)}"
    write_whole(tmp_path / "cache/kernels" / name, (units.cache_folder() / name).read_bytes())
    assert run(code, tmp_path, tmp_path / "cache") == "11 0"
    (tmp_path / "cache/kernels" / name).unlink()
    assert run(code, tmp_path, tmp_path / "cache") == "11 1"


def kernel_of(source: str, **names: object) -> object:
    """Return the kernel `one` of a user's module with this source, as numba has it."""
    module: dict[str, object] = {"__name__": "own.module", "numba": numba, **names}
    exec(source, module)  # noqa: S102 - ours
    return module["one"]


CALLS = "@numba.njit\ndef one(value): return callee(value) * factor"


@compiled
def test_a_kernel_of_another_package_is_kept_under_all_that_it_reaches() -> None:
    """numba's cache looks at none of it, and gave one process what another had compiled: callees of
    other packages, ours as well; what a module read from a file or a variable when it started; and
    types. Two processes that kept one each for other types at once mixed them up.
    """
    (callee, same_callee, other) = (
        kernel_of(f"@numba.njit\ndef one(value): return value + {more}") for more in (1, 1, 2)
    )
    integers, floats = (numba.int64,), (numba.float64,)
    place = units.place_of(kernel_of(CALLS, callee=callee, factor=2), integers)
    assert place is not None
    again = kernel_of(CALLS, callee=same_callee, factor=2)
    assert units.place_of(again, integers) == place
    assert units.place_of(again, floats) != place
    for called, factor in ((other, 2), (callee, 3), (callee, 2.0)):
        changed = kernel_of(CALLS, callee=called, factor=factor)
        assert units.place_of(changed, integers) not in (place, None)


@compiled
def test_a_kernel_that_reaches_what_has_no_key_is_not_kept() -> None:
    """A list or an object may hold anything, and numba's `overload` gives a plain function code."""
    for callee in ([1], object(), lambda value: value):
        kernel = kernel_of(CALLS, callee=callee, factor=2)
        assert units.place_of(kernel, (numba.int64,)) is None
    call = kernel_of("@numba.njit\ndef one(call): return call(1)")
    assert units.place_of(call, (numba.typeof(call),)) is None


@compiled
def test_a_kernel_is_kept_under_what_neither_code_nor_a_name_tells() -> None:
    """Fields of named tuples and of records, types of variables, and those that arguments are cast
    to: after an edit of one, what had been kept before it went on.
    """
    by_name = kernel_of("@numba.njit\ndef one(point): return point.x")
    points = [
        namedtuple("Point", fields, module="own.module")(1.0, 2.0) for fields in ("x y", "y x")
    ]
    of_fields = [units.place_of(by_name, (numba.typeof(point),)) for point in points]
    decorators = (
        "numba.njit",
        "numba.njit(locals={'value': numba.float32})",
        "numba.njit('float32(float32)')",
        "numba.njit('float64(float64)')",
    )
    callees = (kernel_of(f"@{one}\ndef one(value): return value + 1") for one in decorators)
    of_callees = [
        units.place_of(kernel_of(CALLS, callee=callee, factor=2), (numba.float64,))
        for callee in callees
    ]
    callee = kernel_of("@numba.njit\ndef one(value): return value + 1")
    records = (np.zeros(1, [(first, "f8"), (second, "f8")]) for first, second in ("xy", "yx"))
    of_records = [
        units.place_of(kernel_of(CALLS, callee=callee, factor=record), (numba.float64,))
        for record in records
    ]
    by_global = [
        units.place_of(
            kernel_of("@numba.njit\ndef one(value): return value + factor.x", factor=point),
            (numba.float64,),
        )
        for point in points
    ]
    for places in (of_fields, of_callees, of_records, by_global):
        assert None not in places
        assert len({*places}) == len(places)


IN_PARALLEL = """
import numba
from slidestat.kernels.compile import kernel
@numba.njit(parallel=True)
def callee(size):
    total = 0
    for i in numba.prange(size):
        total += i
    return total
@kernel
def one(size): return callee(size)
"""


@compiled
def test_a_kernel_that_calls_what_is_parallel_is_compiled_by_each_process(tmp_path: Path) -> None:
    """Its machine code calls threads of numba, which a process that only loads it has not started:
    it would end without a word.
    """
    (tmp_path / "by_hand.py").write_text(IN_PARALLEL)
    for _ in range(2):
        code = "from by_hand import one; print(one(10), sum(one.stats.cache_hits.values()))"
        assert run(code, tmp_path, tmp_path / "cache") == "45 0"


@compiled
def test_a_kernel_in_the_file_of_a_topology_is_compiled_by_each_process(tmp_path: Path) -> None:
    """No other process can import the module that its machine code names."""
    file = tmp_path / "declared.py"
    file.write_text(
        "from slidestat.kernels.compile import kernel\n@kernel\ndef one(value): return value + 1\n"
    )
    code = (
        "from pathlib import Path; from slidestat.declare.forms.files import _run;"
        f" print(_run(Path({str(file)!r}))['one'](1))"
    )
    for _ in range(2):
        assert run(code, tmp_path, tmp_path / "cache") == "2"


@compiled
def test_a_damaged_kernel_of_another_package_is_compiled_anew(tmp_path: Path) -> None:
    """As a process was killed, or a disk was full. Who keeps one removes what is a month old."""
    old = tmp_path / "cache/kernels/own/0123"
    write_whole(old, b"")
    os.utime(old, (0, 0))
    (tmp_path / "by_hand.py").write_text(
        "from slidestat.kernels.compile import kernel\n@kernel\ndef one(value): return value + 1\n"
    )
    code = "from by_hand import one; print(one(1), sum(one.stats.cache_hits.values()))"
    assert run(code, tmp_path, tmp_path / "cache") == "2 0"
    (path,) = (tmp_path / "cache/kernels/own").iterdir()
    for damaged in (b"", path.read_bytes()[:-1]):
        path.write_bytes(damaged)
        assert run(code, tmp_path, tmp_path / "cache") == "2 0"
    assert run(code, tmp_path, tmp_path / "cache") == "2 1"


@compiled
def test_units_are_made_and_loaded_without_asserts_as_well(tmp_path: Path) -> None:
    """Code of `python -O` has a key of its own: the process that makes a unit must be asked for it
    with the same flag, or each start would compile, alone and in vain.
    """
    code = """
    from slidestat.kernels.compile import compiled_here
    from slidestat.synopses.core.wire import zigzag
    print(zigzag(-5), compiled_here)
    """
    assert run(code, tmp_path, tmp_path / "cache", "-O") == "9 []"


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("CPU_NAME", "haswell", ("haswell", "")),
        ("CPU_FEATURES", "-avx2", (llvm.get_host_cpu_name(), "-avx2")),
        ("ENABLE_AVX", 0, ("x86-64-v2", "")),
    ],
)
def test_numba_s_settings_of_the_processor_are_those_of_units(
    setting: str, value: object, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who keeps instructions from being used has a reason."""
    if platform.machine() != "x86_64":
        pytest.skip("these are settings for x86-64")
    monkeypatch.setattr(numba.config, setting, value)
    assert units.processor.__wrapped__() == expected


@compiled
@pytest.mark.long
@pytest.mark.timeout(900)
def test_units_made_by_many_processes_in_many_orders_are_loaded_in_many_orders(
    tmp_path: Path,
) -> None:
    """An empty cache, four processes at once, each in another order; then loaded in others."""
    orders = list(itertools.permutations(SMALL))
    with ThreadPoolExecutor(4) as pool:
        codes = [CHECK.format(packages=list(order)) for order in orders[::6]]
        list(pool.map(lambda code: run(code, tmp_path, tmp_path / "cache"), codes))
        # Each unit was made once, by whoever came first.
        made = [
            one.name
            for one in (tmp_path / "cache/kernels").glob("slidestat*")
            if one.suffix != ".lock"
        ]
        assert len(made) == len(SMALL)
        codes = [CHECK.format(packages=list(order)) for order in orders[::3]]
        list(pool.map(lambda code: run(code, tmp_path, tmp_path / "cache"), codes))


# A unit that is not what it should be.


@compiled
def test_a_damaged_unit_is_refused() -> None:
    """One byte altered, the end missing, or the name of a unit for another processor."""
    path = (
        units.cache_folder()
        / f"slidestat.synopses.quantiles-{key_of('slidestat.synopses.quantiles')}"
    )
    assert unit_of("slidestat.synopses.quantiles")
    data = path.read_bytes()
    for wrong in (b"", data[:-1], data[:90], data[:70] + bytes([data[70] ^ 1]) + data[71:]):
        with pytest.raises(ValueError, match="no unit"):
            Unit(wrong, path.name)
    with pytest.raises(ValueError, match="no unit"):
        Unit(data, f"{path.name[:-1]}x")


@compiled
def test_a_damaged_unit_of_a_wheel_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The one that is kept serves, and a worker's log has the reason."""
    package = "slidestat.synopses.quantiles"
    assert unit_of(package)
    name = f"{package}-{key_of(package)}"
    (tmp_path / units.SHIPPED).mkdir()
    (tmp_path / units.SHIPPED / name).write_bytes(b"cut off")
    monkeypatch.setattr(
        units, "files", lambda of: tmp_path if of == "slidestat" else importlib.resources.files(of)
    )
    assert unit_of.__wrapped__(package) is not None
    (record,) = caplog.records
    assert f"that came with {package} cannot be used: no unit" in vars(record)["text"]


@compiled
def test_a_folder_for_a_wheel_gets_whole_units_of_these_sources_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel takes the folder as it is: what lies there of older sources would be in it, and what
    was cut off in the user's folder would be refused by each process.
    """
    package = "slidestat.kafka"
    assert unit_of(package)
    name = f"{package}-{key_of(package)}"
    whole = (units.cache_folder() / name).read_bytes()
    kept, folder = tmp_path / "kept", tmp_path / "wheel"
    monkeypatch.setattr(units, "cache_folder", lambda: kept)
    monkeypatch.setattr(units, "packages", lambda: [package])
    write_whole(kept / name, whole)
    write_whole(folder / f"{package}-of-older-sources", whole)
    write_whole(folder / "notes", b"of a user")
    units.build_all(folder)
    assert {path.name for path in folder.iterdir()} == {name, "notes"}
    assert (folder / name).read_bytes() == whole
    for damaged in (kept, folder):
        write_whole(damaged / name, whole[:-1])
    monkeypatch.setattr(
        units, "_build_in_a_process", lambda where, *_, **__: write_whole(where / name, whole)
    )
    units.build_all(folder)
    assert (folder / name).read_bytes() == whole


@compiled
def test_a_module_in_the_users_folder_is_none_of_the_builders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's random.py may be anything; a worker does not look at it either."""
    (tmp_path / "random.py").write_text("raise SystemExit('a module of the user was imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [tmp_path, *filter(None, sys.path)])  # A Path is no place.
    units._build_in_a_process(tmp_path / "units", "slidestat.kafka")
    (path,) = (tmp_path / "units").iterdir()
    assert Unit(path.read_bytes(), path.name)


@compiled
def test_a_builder_that_fails_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line, and no trace on the terminal; each process compiles for itself then."""
    program = tmp_path / "no-python"
    program.write_text("#!/bin/sh\necho a trace >&2; echo the disk is full >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert units._made("slidestat.kafka", tmp_path / "unit") is None
    # Other tests' processes may have left a level at which more is logged.
    (record,) = (one for one in caplog.records if one.levelname == "WARNING")
    assert vars(record)["text"] == (
        "The kernels of slidestat.kafka are compiled by this process alone:"
        " the process that should compile them ended: the disk is full"
    )


def test_a_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each process compiles for itself then, at each start: a user would only find it slow."""
    (tmp_path / "kernels").write_text("a file")
    monkeypatch.setattr(units, "cache_folder", lambda: tmp_path / "kernels" / "in it")
    units._is_writable.cache_clear()
    try:
        for package in ("slidestat.kafka", "slidestat.synopses.core"):
            assert units._made(package, tmp_path / package) is None
    finally:
        units._is_writable.cache_clear()
    (record,) = (one for one in caplog.records if one.levelname == "WARNING")
    text = vars(record)["text"]
    assert text.startswith("Kernels are compiled by this process alone, as by each that starts: ")
    assert "in it cannot be written (Not a directory). Name a folder that this user" in text


def test_other_users_of_a_folder_read_its_units_and_wait_for_its_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a user whose files are otherwise private."""
    package, modes = "slidestat.kafka", []
    name = units._file_of(package)
    monkeypatch.setattr(units, "build", lambda names: [(names[0], b"unit")])
    monkeypatch.setattr(units, "kept", lambda path: path.read_bytes())
    monkeypatch.setattr(sys, "argv", ["main", str(tmp_path), package])

    def built(*_: object, **__: object) -> None:
        modes.append((tmp_path / f"{name}.lock").stat().st_mode & 0o777)
        units.main()

    monkeypatch.setattr(units, "_build_in_a_process", built)
    before = os.umask(0o077)
    try:
        assert units._made(package, tmp_path / name) == b"unit"  # type: ignore[comparison-overlap]
    finally:
        os.umask(before)
    assert modes == [0o666]
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o644


@compiled
def test_machine_code_that_does_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a vector, when a process loads it; what to do is told without a trace."""
    package = "slidestat.synopses.core"
    (vector, *others) = vectors_of(package)["wire.zigzag"]
    wrong = Vector(vector.arguments, vector.result + 1, vector.after)
    changed = {**vectors_of(package), "wire.zigzag": [*others, wrong]}
    monkeypatch.setattr(compile_, "vectors_of", lambda _: changed)
    kernel = dict(kernels_of(package))["wire.zigzag"]
    signature = tuple(map(numba.typeof, vector.arguments))
    with pytest.raises(SlidestatError, match=r"wire.zigzag does not do what its source") as refused:
        kernel._cache.load_overload(signature, None)
    assert refused.value.advice.startswith(f"Delete {units.cache_folder()} ")
    # A wheel's units would be loaded again, whatever is deleted elsewhere.
    write_whole(tmp_path / units.SHIPPED / f"{package}-{key_of(package)}", b"")
    monkeypatch.setattr(
        units, "files", lambda of: tmp_path if of == "slidestat" else importlib.resources.files(of)
    )
    assert f"Delete {tmp_path / units.SHIPPED} " in compile_.wrong_code(package, "one").advice


@compiled
def test_what_no_process_has_used_for_a_month_is_removed_when_a_unit_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units of other versions, locks of killed processes, users' kernels; nothing of anybody else,
    and nothing that a process loads now and then.
    """
    package = "slidestat.kafka"
    assert unit_of(package)
    name = f"{package}-{key_of(package)}"
    whole = (units.cache_folder() / name).read_bytes()
    old, used = f"{package}-0f0f", f"{package}-f0f0"
    of_user = "own/0123"
    for path in (old, used, f"{old}.lock", f"{old}.17.new", of_user, "notes", f"{used}.nbi"):
        write_whole(tmp_path / path, whole)
        os.utime(tmp_path / path, (0, 0))
    write_whole(tmp_path / used, units._packed(used, units._body(whole, name)))
    os.utime(tmp_path / used, (0, 0))
    units.kept(tmp_path / used)
    monkeypatch.setattr(
        units, "_build_in_a_process", lambda where, *_, **__: write_whole(where / name, whole)
    )
    assert units._made(package, tmp_path / name)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {name, used, "notes"}


# Keys.


def test_a_key_is_of_code_and_constants_of_callees_too() -> None:
    """An altered constant of a module that a kernel's callee reads alters the key."""
    from slidestat.synopses.core import wire

    package = "slidestat.synopses.core"
    before = key_of(package)
    assert key_of(package) == before
    block = wire._BLOCK
    try:
        wire._BLOCK = block + 1
        assert key_of(package) != before
    finally:
        wire._BLOCK = block
    assert key_of(package) == before


def of_ours(function: Callable[..., object]) -> Any:
    """Return a function as one of this distribution: of others, plain ones have no key."""
    function.__module__ = "slidestat.kernel"
    return function


def parts_of(function: object) -> list[bytes]:
    """Return what goes into a key for a function."""
    return list(units._parts(function, frozenset(), {}))


def test_a_key_is_of_what_a_name_means_where_all_meanings_are_in_it_already() -> None:
    """Two callees, each called elsewhere in the package as well, change places."""

    def one() -> int:
        return 1

    def other() -> int:
        return 2

    def caller(first: Callable[[], int], second: Callable[[], int]) -> Callable[[], int]:
        def both() -> int:
            return first() - second()

        return both

    def kernels(*pair: Callable[[], int]) -> tuple[Callable[[], int], ...]:
        return tuple(map(of_ours, (one, other, caller(*pair))))

    assert parts_of(kernels(one, other)) == parts_of(kernels(one, other))
    assert parts_of(kernels(one, other)) != parts_of(kernels(other, one))


def test_a_key_is_of_default_values() -> None:
    """A callee takes them where its caller names none."""

    def scaled(value: float, factor: float = 2.5) -> float:
        return value * factor

    before = parts_of(of_ours(scaled))
    scaled.__defaults__ = (3.5,)
    assert parts_of(scaled) != before


def test_a_key_is_refused_where_it_would_not_be_of_all_that_is_used() -> None:
    """Machine code has the values of a list, the fields of our classes: a key has neither."""
    factors = [2.5]

    def scaled(value: float) -> float:
        return value * factors[0]

    def tried(value: int) -> Vector:
        return Vector((value,), None, ())

    for function in (scaled, tried):
        with pytest.raises(TypeError, match=r"units\.py has no key for a (list|type)"):
            parts_of(of_ours(function))


def test_a_key_is_of_the_modules_of_functions() -> None:
    """Machine code names them: a unit that was made before one was renamed cannot be loaded."""

    def plain() -> int:
        return 1

    before = parts_of(of_ours(plain))
    plain.__module__ = "slidestat.renamed"
    assert parts_of(plain) != before


def test_the_first_constant_of_code_is_in_its_key_unless_it_is_the_docstring() -> None:
    """Python 3.14 keeps no place for a docstring that there is not; comprehensions never did."""

    def plain(values: list[float]) -> list[float]:
        return [value * 2.5 for value in values]

    def parts(code: CodeType) -> list[bytes]:
        return list(units._code(code))

    code = plain.__code__
    of_2_5, of_3_5 = (code.replace(co_consts=(number, None)) for number in (2.5, 3.5))
    assert parts(of_2_5) != parts(of_3_5)
    texts = ("A docstring.", "Another.")
    flags = code.co_flags | units._HAS_DOCSTRING
    one, other = (code.replace(co_consts=(text, 2.5), co_flags=flags) for text in texts)
    assert parts(one) == parts(other)
    one, other = (code.replace(co_consts=(text, 2.5), co_name="<listcomp>") for text in texts)
    assert parts(one) != parts(other)


# Vectors as bytes.


def test_vectors_read_back_as_they_were_written() -> None:
    """All that arguments can be."""
    read_only = np.arange(3, dtype=np.uint8)
    read_only.flags.writeable = False
    values = (
        *(1, -(2**63), True, None, "text", b"bytes", 0.1, float("inf"), float("nan"), -0.0),
        *(
            np.arange(6.0).reshape(2, 3),
            np.arange(6)[::2],
            np.array(np.arange(6).reshape(2, 3), order="F"),
        ),
        *(np.empty(0), read_only, np.int64(3), (1, (np.zeros(2, bool),))),
    )
    data = Vectors({"one.kernel": [Vector(values, values, values)]}).to_bytes()
    (vector,) = Vectors.from_bytes(data)["one.kernel"]
    assert vector.types == Vector(values, None, ()).types
    for read in (vector.arguments, vector.result, vector.after, copied(values)):
        assert same(read, values)


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, -0.0), (1, 1.0), (1, True), (np.zeros(1), np.zeros(2)), (np.zeros(1), -np.zeros(1))],
)
def test_what_differs_in_a_bit_is_not_the_same(one: object, other: object) -> None:
    """Signs of zeros, kinds of numbers and shapes count."""
    assert same(one, one)
    assert not same(one, other)


def test_a_part_that_was_never_filled_is_not_compared() -> None:
    """The rest is."""
    filled = np.array([True, False, True])
    partial = vectors.Partial(np.array([1, 2, 3]), filled)
    (vector,) = Vectors.from_bytes(Vectors({"one.kernel": [Vector((), partial, ())]}).to_bytes())[
        "one.kernel"
    ]
    assert same(np.array([1, 9, 3]), vector.result)
    assert not same(np.array([1, 2, 4]), vector.result)
    assert not same(np.array([1, 2]), vector.result)
