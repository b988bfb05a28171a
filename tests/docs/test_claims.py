"""What documents claim, held to the code: figures, limits, and what is not promised."""

import re
import tomllib
from dataclasses import replace
from typing import get_args, get_type_hints

import pytest
from typer.main import get_command

from slidestat import AgeOfLast, SlidestatError
from slidestat.cli.main import app
from slidestat.declare.kinds import KINDS
from slidestat.engine import waiting
from slidestat.engine.ticks.ticker import Limits
from slidestat.faust import restore
from slidestat.faust.partitions import durable_states
from slidestat.kafka.connection import MAX_MESSAGE_BYTES
from slidestat.schemas.event import MAX_KEY_LENGTH
from slidestat.spark.sql import aggregates
from slidestat.synopses import DistinctParameters
from slidestat.synopses.value_quantiles import bands
from tests.docs.markdown import DOCUMENTS, ROOT
from tests.engine.stages import WHOLE

MIB = 2**20
# The docstrings that documents are made of, too.
SOURCES = sorted((ROOT / "app" / "slidestat").rglob("*.py"))


def text_of(name: str) -> str:
    """Return a document's text with single spaces, as lines may break anywhere."""
    return re.sub(r"\s+", " ", (ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize(
    "untrue",
    [
        # Theorem 3.1 of Datar et al. is for deterministic algorithms.
        r"\b[Aa]ny algorithm\b",
        # A call decodes and encodes a whole state, of a wave too.
        "no single event may be slow",
        # The papers do not speak of landmarks.
        r"(Datar|Gibbons|Arasu)[^.]{0,80}section[^.]{0,40}landmark",
        # Alerts are evaluated at ticks, also at those without an emission.
        r"is resolved at emissions",
        r"asked at each of its emissions",
        # Its bounds are 9.9999 and 10.1011.
        r"a burn rate of 10 or more",
        # Clients, attached topologies and jobs on Spark have public names, too.
        r"Whatever is in neither is private",
    ],
)
def test_untrue_sentences_are_gone(untrue: str) -> None:
    """From all documents and from the code."""
    found = [
        path.name
        for path in [*DOCUMENTS, *SOURCES]
        if re.search(untrue, re.sub(r"\s+", " ", path.read_text("utf-8")))
    ]
    assert found == []


def test_modules_that_the_code_and_its_cards_name_are_there() -> None:
    """A file by its name, and in a card also the module in front of a name's point."""
    package = ROOT / "app" / "slidestat"
    cards = [*package.glob("synopses/**/*.md")]
    files = {path.name for path in (ROOT / "app").rglob("*.py*")} | {"random.py", "slidestat.py"}
    missing = []
    for path in [*SOURCES, *cards]:
        text = path.read_text("utf-8")
        named = re.findall(r"(?<![\w.'\"{*<-])(?:\w+/)*([a-z_]\w*\.py)\b", text)
        if path in cards:
            named += [f"{name}.py" for name in re.findall(r"`([a-z]\w*)\.(?!py`)[a-z]\w*`", text)]
        missing += [f"{path.name}: {name}" for name in named if name not in files]
    assert missing == []


def test_sql_aggregates_without_bounds_are_named() -> None:
    """They return a number; the limits name each of them, and Spark's page leads with bounds."""
    numbers = set()
    for name in dir(aggregates):
        if name.startswith("basic_"):
            (answer,) = get_args(get_type_hints(getattr(aggregates, name))["return"])
            if answer == aggregates.Figure:
                numbers.add(name)
    limits = text_of("docs/limits.md")
    (sentence,) = re.findall(r"The SQL aggregates (.+?) return an estimate without bounds", limits)
    assert set(re.findall(r"`(\w+)`", sentence)) == numbers
    page = text_of("docs/spark.md")
    assert "without `_bounds`, such as `basic_count(v, t, k)`, returns the estimate alone" in page
    assert all(f"`{name}_bounds(v, t, k" in page for name in numbers)


def test_of_windows_of_events_all_but_ages_is_published() -> None:
    """As many-parties, papers and limits say of the paper's first scenario."""
    of_parties = [it for it in WHOLE.values() if it.span_length.of_events]
    published = {statistic.kind for it in of_parties for statistic in it.statistics}
    can_be = {kind for kind, it in KINDS.items() if it.can_be_united and not it.needs_time}
    assert published == can_be - {"age_of_last"}
    one = of_parties[0]
    with pytest.raises(SlidestatError, match="age_of_last counts back"):
        replace(one, statistics=(AgeOfLast(),))
    with pytest.raises(SlidestatError, match="with forget_after"):
        replace(one, forget_after="7d")
    assert "`age_of_last` is refused, as is `forget_after`" in text_of("docs/many-parties.md")
    assert "no `age_of_last`, and its topology no `forget_after`" in text_of("docs/limits.md")
    assert "3.4, scenario 1 |" in text_of("docs/papers.md")


def test_unions_are_for_the_statistics_that_have_one() -> None:
    """The sentence below the table of many-parties names those that have none."""
    page = text_of("docs/many-parties.md")
    (sentence,) = re.findall(r"((?:`\w+`[, and]+)+`\w+`) have no union here", page)
    lone = {kind for kind, statistic in KINDS.items() if not statistic.can_be_united}
    assert set(re.findall(r"`(\w+)`", sentence)) == lone


def test_a_wave_at_a_64th_holds_what_the_page_says() -> None:
    """Beside the bound of theorem 4, which is for an epsilon of 1/64."""
    capacity = DistinctParameters(1 / 64, 0.01, 1_024, 1).capacity
    assert f"At 1/64 a wave holds up to {capacity:,} items" in text_of("docs/many-parties.md")


def test_neighbouring_bins_share_their_cells() -> None:
    """As the theory says of quantiles by value."""
    assert bands.WIDTH == 8
    assert "Eight neighbouring bins share one list of cells" in text_of("docs/theory.md")


def test_limits_are_those_of_the_code() -> None:
    """Sizes and memory, as the code has them."""
    page, limits = text_of("docs/limits.md"), Limits()
    for claim in (
        f"1 to {MAX_KEY_LENGTH} characters",
        f"{MAX_MESSAGE_BYTES // MIB} MiB minus 8 KiB",
        f"the {limits.cached_keys:,} states that were touched last",
        f"up to {limits.waiting_events:,} events, or {limits.waiting_bytes // MIB} MiB",
        f"up to {waiting._MEMORY_BYTES // MIB} MiB more",
        f"up to {limits.kept_emissions:,} emissions",
        f"at most {durable_states._UNWRITTEN_BYTES // MIB} MiB",
        f"{restore._CACHE_BYTES // MIB} MiB for all partitions",
        f"of which {restore._UNWRITTEN_BYTES // MIB} MiB are not in files yet",
    ):
        assert claim in page


def test_the_first_screen_of_the_readme_says_what_it_is() -> None:
    """For whom, what it is not, on what it rests; then how to install it, with each extra."""
    screen, rest = (ROOT / "README.md").read_text("utf-8").split("## Install\n")
    install = rest.split("\n## ")[0]
    assert len(screen.splitlines()) < 40
    for word in ("Faust", "approximate", "one topic", "joins", "](docs/live-page.png)"):
        assert word in screen
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in install
    assert f"dist/slidestat-{project['version']}-*.whl" in install


def test_each_variable_is_documented() -> None:
    """A variable of slidestat's own that the code has is in a guide, for those who set it."""
    of_code = {
        name
        for path in SOURCES
        for name in re.findall(r'"(SLIDESTAT_[A-Z_]+)"', path.read_text("utf-8"))
    }
    guides = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    assert "SLIDESTAT_CACHE_DIR" in of_code
    assert {name for name in of_code if f"`{name}`" not in guides} == set()


def test_each_option_is_documented() -> None:
    """An option that only `--help` knows is one that nobody finds."""
    guides = "".join(path.read_text("utf-8") for path in DOCUMENTS)
    unknown, left = [], [get_command(app)]
    while left:
        command = left.pop()
        if hasattr(command, "commands"):  # its own options are Typer's
            left += command.commands.values()
            continue
        options = [name for it in command.params for name in it.opts if name.startswith("--")]
        unknown += [f"{command.name} {name}" for name in options if name not in guides]
    assert unknown == []
