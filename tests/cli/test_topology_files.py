"""Topologies are found by name or by path, and an invalid file is told by file and line."""

import ast
import json
import sys
from pathlib import Path

import msgspec
import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.files import list_topologies, load_topology
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission

TOPOLOGY = 'Topology(name="mine", source="mine", span="1h", every="1m")'
NUMBERS = {2: "two", 3: "three", 4: "four", 6: "six", 10: "ten", 14: "fourteen", 18: "eighteen"}
IMPORT = "from slidestat import Topology\n"


# These are tried in tests/testing/test_flights_global.py.
OF_MANY_PARTIES = {"flights_global", "flights_parties"}


@pytest.mark.parametrize("name", sorted({*list_topologies()} - OF_MANY_PARTIES))
def test_shipped_topologies(name: str) -> None:
    """A shipped topology loads, bears its file's name, and its example is what it really does."""
    topology = load_topology(name)
    assert topology.name == topology.source == name
    source = Path(__file__).parents[2] / "topologies" / f"{name}.py"
    document = ast.get_docstring(ast.parse(source.read_text())) or ""
    for needed in (topology.output_topic, topology.late_topic, topology.dead_letter_topic):
        assert needed in document
    decoder = json.JSONDecoder()
    event, _ = decoder.raw_decode(document, document.index("{", document.index("\nIn:")))
    record, _ = decoder.raw_decode(document, document.index("{", document.index("\nOut,")))
    shown = msgspec.convert(record, Emission)
    driver = TopologyDriver(topology)
    driver.send(event)
    driver.advance_to(shown.window_end_ms)
    assert driver.dead_letters == []
    (emission,) = driver.emissions
    assert msgspec.structs.replace(emission, figures=shown.figures) == shown
    places = [emission.figures.index(figure) for figure in shown.figures]
    assert places == sorted(places)
    count = f"{NUMBERS[len(shown.figures)]} of its {NUMBERS[len(emission.figures)]} figures"
    assert count in document


def test_what_ships() -> None:
    """The names are those of the files."""
    assert list_topologies() == [
        "events",
        "flights",
        "flights_global",
        "flights_parties",
        "landings",
        "web",
    ]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """A path loads the variable `topology`, also beside others."""
    file = tmp_path / "mine.py"
    file.write_text(f"{IMPORT}topology = {TOPOLOGY}\nother = {TOPOLOGY}\n")
    assert load_topology(str(file)).name == "mine"


@pytest.mark.parametrize(
    ("content", "message", "advice"),
    [
        ("x = 1\n", "defines no topology", "topology = Topology"),
        (f"{IMPORT}mine = {TOPOLOGY}\n", "defines the topology as `mine`", "Rename"),
        (f"{IMPORT}a = {TOPOLOGY}\nb = {TOPOLOGY}\n", "the topologies a, b", "one topology"),
        ("\n\nx = (\n", r"mine\.py, line 3: '\(' was never closed", "syntax"),
        ("x = 1\nimport nosuchmodule\n", "line 2: ModuleNotFoundError", "Fix the file"),
        ("def f():\n    1 / 0\nf()\n", "line 2: ZeroDivisionError", "Fix the file"),
        ("import sys\nsys.exit(0)\n", "line 2: it ends the program", "Remove that"),
        (f"{IMPORT}{TOPOLOGY.replace('every', 'evry')}\n", "line 2: TypeError", "mean every?"),
        (f"{IMPORT}{TOPOLOGY.replace('mine', 'a b')}\n", r"mine\.py: name is 'a b'", "letters"),
    ],
)
def test_invalid_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str, advice: str
) -> None:
    """Each error says the file, the line where it has one, and what to do."""
    (tmp_path / "mine.py").write_text(content)
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "mine.py"), "mine.py"):
        with pytest.raises(SlidestatError, match=message) as raised:
            load_topology(path)
        assert advice in raised.value.advice


def test_what_a_file_prints_is_not_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON for scripts stays JSON: it is on standard error."""
    file = tmp_path / "mine.py"
    file.write_text(f"{IMPORT}topology = {TOPOLOGY}\nprint('hello')\n")
    load_topology(str(file))
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "hello\n")


def test_names_and_paths_that_are_not_there() -> None:
    """An unknown name is told with those there are, a missing file with its path."""
    with pytest.raises(SlidestatError, match="no topology 'nosuch'") as raised:
        load_topology("nosuch")
    assert "events, flights, flights_global, flights_parties, landings, web" in raised.value.advice
    with pytest.raises(SlidestatError, match=r"no file nosuch\.py"):
        load_topology("nosuch.py")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    """As of events: it is there, and no topology."""
    (tmp_path / "events.csv").write_text("key,time,value\n")
    with pytest.raises(SlidestatError, match=r"events\.csv is no topology: the file of one ends"):
        load_topology(str(tmp_path / "events.csv"))


@pytest.mark.parametrize("name", ["mine", "mine.tml"])
def test_a_file_whose_ending_is_missing_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `slidestat run requests` behind `slidestat init requests`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(SlidestatError, match="no topology") as raised:
        load_topology(name)
    assert raised.value.advice.startswith("Did you mean mine.toml? Name one of")


def test_a_file_imports_what_has_no_file(tmp_path: Path) -> None:
    """Some extension modules name none, such as those that pandas and numba bring."""
    file = tmp_path / "mine.py"
    file.write_text(
        IMPORT + "import sys\nfrom types import ModuleType\n"
        'sys.modules["without_file"] = ModuleType("without_file")\n'
        'topology = Topology(name="mine", source="mine", span="1h", every="1m")\n'
    )
    try:
        assert load_topology(str(file)).name == "mine"
    finally:
        del sys.modules["without_file"]


def test_a_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    """Two files in two folders each get their own, and Python's path is as it was."""
    path = list(sys.path)
    for name in ("one", "two"):
        folder = tmp_path / name
        (folder / "parts").mkdir(parents=True)
        (folder / "common.py").write_text(f'from parts.spans import SPAN\nNAME = "{name}"\n')
        (folder / "parts" / "__init__.py").touch()
        (folder / "parts" / "spans.py").write_text(f'SPAN = "{len(name)}h"\n')
        (folder / "mine.py").write_text(
            IMPORT + "from common import NAME, SPAN\n"
            'topology = Topology(name=NAME, source="mine", span=SPAN, every="1m")\n'
        )
        assert load_topology(str(folder / "mine.py")).name == name
    assert sys.path == path
    assert not {"common", "parts", "parts.spans"} & set(sys.modules)
