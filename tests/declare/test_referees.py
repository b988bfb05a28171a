"""A referee in TOML is the one in Python, and what is wrong with it is told with the field."""

import re
from pathlib import Path

import pytest

from slidestat.declare.forms.files import load_declaration, load_topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.kinds import KINDS
from slidestat.declare.referee import Referee
from slidestat.declare.statistics.runner import UnitedRunner
from slidestat.errors import SlidestatError

PARTIES = """
name = "requests_parties"
source = "requests"
span = "1h"
every = "10s"
publish = "partition"
"""


def write(folder: Path, text: str, name: str = "global.toml") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_a_referee_in_toml_is_that_in_python(tmp_path: Path) -> None:
    """Its topology is a file beside it, or one that ships."""
    parties = load_topology(write(tmp_path, PARTIES, "requests.toml"))
    found = load_declaration(
        write(tmp_path, 'of = "requests.toml"\npatience = "1m"\nwindows = ["5m"]\n')
    )
    assert found == Referee(of=parties, patience="1m", windows=("5m",))
    shipped = load_declaration(write(tmp_path, 'of = "flights_parties"\npatience = "1d"\n'))
    assert shipped == Referee(of=load_topology("flights_parties"), patience="1d")


@pytest.mark.parametrize(
    ("toml", "flag", "publish"),
    [
        ('"partition"', "partition", "partition"),
        ('["a", "b"]', "a,b", ("a", "b")),
        ('["partition"]', None, ("partition",)),
    ],
)
def test_what_is_published_in_toml_and_flags(
    tmp_path: Path, toml: str, flag: str | None, publish: str | tuple[str, ...]
) -> None:
    """Whole partitions, or keys, with commas between them in a flag."""
    found = load_topology(write(tmp_path, PARTIES.replace('"partition"', toml), "requests.toml"))
    assert found.publish == publish
    if flag is not None:
        needed = {"name": "requests_parties", "source": "requests", "span": "1h", "every": "10s"}
        assert topology_of_flags({**needed, "publish": flag}) == found


def test_a_referee_in_python_may_load_its_topology(tmp_path: Path) -> None:
    """Also where both files have classes of their own."""
    write(tmp_path, PARTIES, "requests.toml")
    file = write(
        tmp_path,
        "from dataclasses import dataclass\n"
        "from slidestat.declare.referee import Referee\n"
        "from slidestat.declare.forms.files import load_topology\n"
        f"parties = load_topology({str(tmp_path / 'requests.toml')!r})\n"
        "@dataclass\n"
        "class Patience:\n"
        "    text: str\n"
        "topology = Referee(of=parties, patience=Patience('1m').text)\n",
        "shares.py",
    )
    assert isinstance(load_declaration(file), Referee)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('of = "requests.toml"\n', "patience is missing"),
        ('of = 3\npatience = "1m"\n', "of is 3"),
        ('of = "nowhere.toml"\npatience = "1m"\n', "There is no file"),
        ('of = "flights"\npatience = "1m"\n', "of is no topology that publishes"),
        ('of = "requests.toml"\npatience = "1m"\nspan = "1h"\n', "span is no field of a referee"),
        ('of = "requests.toml"\npatience = "long"\n', "patience is 'long'"),
        (
            'of = "requests.toml"\npatience = "1m"\nhaving = "count > 1"\n',
            "having is no field of a referee: an answer without a party may be the newest record",
        ),
    ],
)
def test_errors_are_told(tmp_path: Path, text: str, said: str) -> None:
    """With the file and the field."""
    write(tmp_path, PARTIES, "requests.toml")
    with pytest.raises(SlidestatError, match=re.escape(said)) as raised:
        load_declaration(write(tmp_path, text))
    assert "global.toml" in str(raised.value)


def test_the_declarations_that_are_shown_work(tmp_path: Path) -> None:
    """The TOML of docs/many-parties.md, as it stands there."""
    text = (Path(__file__).parents[2] / "docs" / "many-parties.md").read_text()
    for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        name = re.match(r"# (\S+)\n", block)
        assert name
        write(tmp_path, block, name[1])
    referee = load_declaration(str(tmp_path / "global.toml"))
    assert isinstance(referee, Referee)
    assert referee.of.labels == ("count", "quantile", "distinct_user", "distinct_user_by_path")


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_united_has_a_union(kind: str) -> None:
    """And nothing else has: a topology that publishes is refused for it beforehand."""
    statistic = KINDS[kind](**({"items": ("a",)} if kind == "items" else {}))
    runner = statistic.runner(60_000, ("value",))
    assert isinstance(runner, UnitedRunner) == statistic.can_be_united
