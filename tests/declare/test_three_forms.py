"""Python, TOML and flags: three ways to write one topology."""

import inspect
import json
import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks.harness.examples import example
from slidestat.cli.main import app
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.flag_list import TOPOLOGY_FLAGS, flag_of
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.forms.tables import statistic_of, topology_of
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics import Count, Distinct, Items, Statistic, Sum
from slidestat.declare.topology import Topology

PYTHON = """
from slidestat import Alert, Count, Quantiles, Sum
from slidestat import Topology

topology = Topology(
    name="latency",
    source="requests",
    key_field="user.id",
    time_field="at",
    time_format="iso8601",
    value_field="ms",
    span="1h",
    every="1m",
    windows=("5m", "1h"),
    lateness="5s",
    group="web",
    statistics=(
        Count(),
        Sum(decimals=1, name="total"),
        Quantiles(field="request.bytes", quantiles=(0.5, 0.99), epsilon=0.02),
    ),
    alerts=(
        Alert(name="slow", when="total > 500 and count >= 9", window="5m", for_=3, certain=True),
        Alert(
            name="large",
            when="count > 1",
            window="1h",
            resolve="count = 0",
            labels={"team": "shop", "tier": "2"},
            annotations={"description": "Late: look, and wait"},
            runbook="https://wiki.example.com/large",
        ),
    ),
)
"""

TOML = """
name = "latency"
source = "requests"
key_field = "user.id"
time_field = "at"
time_format = "iso8601"
value_field = "ms"
span = "1h"
every = "1m"
windows = ["5m", "1h"]
lateness = "5s"
group = "web"

[[statistics]]
kind = "count"

[[statistics]]
kind = "sum"
decimals = 1
name = "total"

[[statistics]]
kind = "quantile"
field = "request.bytes"
quantiles = [0.5, 0.99]
epsilon = 0.02

[[alerts]]
name = "slow"
when = "total > 500 and count >= 9"
window = "5m"
for = 3
certain = true

[[alerts]]
name = "large"
when = "count > 1"
window = "1h"
resolve = "count = 0"
labels = { tier = "2", team = "shop" }
annotations = { description = "Late: look, and wait" }
runbook = "https://wiki.example.com/large"
"""

FLAGS = {
    "name": "latency",
    "source": "requests",
    "key_field": "user.id",
    "time_field": "at",
    "time_format": "iso8601",
    "value_field": "ms",
    "span": "1h",
    "every": "1m",
    "windows": ["5m", "1h"],
    "lateness": "5s",
    "group": "web",
    "statistics": [
        "count",
        "sum:decimals=1:name=total",
        "quantile:request.bytes:quantiles=0.5,0.99:epsilon=0.02",
    ],
    "alerts": [
        "slow:total > 500 and count >= 9:window=5m:for=3:certain=true",
        "large:count > 1:window=1h:resolve=count = 0:labels=team=shop, tier=2"
        ":annotations=description='Late: look, and wait':runbook='https://wiki.example.com/large'",
    ],
}

NEEDED = {"name": "t", "source": "s", "span": "1h", "every": "1m"}


def test_the_three_forms_are_one_topology(tmp_path: Path) -> None:
    """What they give is equal, and writes and keeps the same."""
    (tmp_path / "latency.py").write_text(PYTHON)
    (tmp_path / "latency.toml").write_text(TOML)
    topology = load_topology(str(tmp_path / "latency.py"))
    others = (load_topology(str(tmp_path / "latency.toml")), topology_of_flags(FLAGS))
    for other in others:
        assert other == topology
        assert fingerprint_of(other) == fingerprint_of(topology)
        assert other.state_meaning == topology.state_meaning
    assert topology.labels == ("count", "total", "quantile_request.bytes")


def test_the_three_forms_in_the_reference(tmp_path: Path) -> None:
    """Its Python, its TOML and its command line are one topology."""
    page = Path(__file__).parents[2] / "docs" / "declare-a-topology.md"
    reference = page.read_text(encoding="utf-8")
    topologies = []
    for language, suffix in (("python", "py"), ("toml", "toml")):
        fenced = re.findall(rf"^```{language}\n(.*?)^```$", reference, re.MULTILINE | re.DOTALL)
        code = fenced[0]  # What comes after it is about something else.
        file = tmp_path / f"latency.{suffix}"
        file.write_text(code)
        topologies.append(load_topology(str(file)))
    (line,) = re.findall(r"^\$ slidestat run (--(?:.*\\\n)*.*)$", reference, re.MULTILINE)
    words = shlex.split(line.replace("\\\n", " "))
    given: dict[str, Any] = {}
    fields_by_flag = {flag_of(field.name): field.name for field in fields(Topology)}
    for flag, value in zip(words[::2], words[1::2], strict=True):
        field = fields_by_flag[flag]
        if field in ("windows", "statistics"):
            given.setdefault(field, []).append(value)
        else:
            given[field] = value
    assert topologies == [topology_of_flags(given)] * 2


def test_what_is_not_said_is_the_default() -> None:
    """A topology of its needed fields alone is that of Python."""
    assert topology_of(NEEDED) == topology_of_flags(NEEDED) == Topology(**NEEDED)


def test_names_with_dots_are_lists_in_toml() -> None:
    """A path may be an array, as in Python a tuple."""
    table = tomllib.loads('statistics = [{kind = "sum", field = ["http.bytes", "sent"]}]')
    (column,) = topology_of({**NEEDED, **table}).columns.numbers
    assert column.path == ("http.bytes", "sent")


def test_a_byte_order_mark_and_any_line_ends_are_taken(tmp_path: Path) -> None:
    """Editors of other systems write them."""
    file = tmp_path / "a.toml"
    file.write_bytes(b"\xef\xbb\xbf" + TOML.replace("\n", "\r\n").encode())
    assert load_topology(str(file)) == topology_of_flags(FLAGS)


def defaults(kind: type[Statistic]) -> dict[str, Any]:
    known = {f.name: getattr(example(kind), f.name) for f in fields(kind)}
    return {name: value for name, value in known.items() if value != ""}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_statistic_can_be_written_in_each_form(kind: type[Statistic]) -> None:
    """Its parameters as Python has them are the same statistic in a table and in a flag."""
    values = defaults(kind)
    if "field" in inspect.signature(kind).parameters:
        values["field"] = "a.b"
    wanted = kind(**values)
    in_toml = json.loads(json.dumps(values))  # tuples are arrays
    assert statistic_of(kind.kind, in_toml) == wanted

    def text(value: object) -> str:
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

    flags = [f"{name}={text(value)}" for name, value in values.items()]
    flag = ":".join([kind.kind, *flags])
    assert topology_of_flags({**NEEDED, "statistics": [flag]}).statistics == (wanted,)
    if "field" in values:
        others = [flag for flag in flags if not flag.startswith("field=")]
        short = topology_of_flags({**NEEDED, "statistics": [":".join([kind.kind, "a.b", *others])]})
        assert short.statistics == (wanted,)


def test_distinct_items_by_a_field_in_each_form() -> None:
    """The field may be a path, and be written as other paths are."""
    wanted = Distinct(field="user", by="geo.country")
    flags = topology_of_flags({**NEEDED, "statistics": ["distinct:user:by=geo.country"]})
    table = {"kind": "distinct", "field": "user", "by": "geo.country"}
    assert (
        flags.statistics == topology_of({**NEEDED, "statistics": [table]}).statistics == (wanted,)
    )
    listed = topology_of({**NEEDED, "statistics": [{**table, "by": ["geo", "country"]}]})
    assert flags.labels == listed.labels == ("distinct_user_by_geo.country",)
    assert flags.runners == listed.runners


def test_conditions_in_each_form() -> None:
    """They may have the signs that flags are cut at, in quotes."""
    where = "path = 'a:b=c' and \"x:y\" >= 5"
    wanted = (Count(name="some", where=where, epsilon=0.1), Sum(field="a", name="s", where="b"))
    flags = [f"count:name=some:where={where}:epsilon=0.1", "sum:a:name=s:where=b"]
    given = {**NEEDED, "where": "status <> 404", "statistics": flags}
    in_toml = f"""
where = "status <> 404"
[[statistics]]
kind = "count"
name = "some"
epsilon = 0.1
where = {json.dumps(where)}
[[statistics]]
kind = "sum"
field = "a"
name = "s"
where = "b"
"""
    topology = Topology(**NEEDED, where="status <> 404", statistics=wanted)
    assert topology_of_flags(given) == topology
    assert topology_of({**NEEDED, **tomllib.loads(in_toml)}) == topology


def test_lists_in_flags_may_have_spaces() -> None:
    """No key or item has the one behind a comma: an alert on it would fire for ever."""
    alert = "silent:count = 0"
    for comma in (",", ", "):
        flags = {
            "statistics": [f"items:field=i:items=a{comma}b", "count"],
            "expected": f"a{comma}b c",
        }
        topology = topology_of_flags({**NEEDED, "span": "2h", "alerts": [alert], **flags})
        assert topology.expected == ("a", "b c")
        assert topology.statistics[0] == Items(field="i", items=("a", "b"))
        publish = topology_of_flags({**NEEDED, "publish": f"a{comma}b c"}).publish
        assert publish == ("a", "b c")


def test_computed_fields_in_each_form() -> None:
    """A list, also of one."""
    texts = ("a || ':' || b as who", "took / 1000 as s")
    topology = Topology(**NEEDED, key_field="who", value_field="s", computed=texts)
    own = {"key_field": "who", "value_field": "s"}
    in_toml = f"computed = {json.dumps(texts)}"
    assert topology_of_flags({**NEEDED, **own, "computed": list(texts)}) == topology
    assert topology_of({**NEEDED, **own, **tomllib.loads(in_toml)}) == topology
    assert flag_of("computed") == "--computed"


def test_derived_figures_in_each_form() -> None:
    """A list, also of one; without one, declarations are what they were before there were any."""
    texts = ("sum / count as average", "average * 2 as double")
    statistics = (Count(), Sum())
    topology = Topology(**NEEDED, statistics=statistics, derived=texts)
    in_toml = f"derived = {json.dumps(texts)}\n" + "".join(
        f"[[statistics]]\nkind = '{it.kind}'\n" for it in statistics
    )
    flags = {**NEEDED, "statistics": ["count", "sum"], "derived": list(texts)}
    assert topology_of_flags(flags) == topology
    assert topology_of({**NEEDED, **tomllib.loads(in_toml)}) == topology
    assert fingerprint_of(topology) != fingerprint_of(Topology(**NEEDED, statistics=statistics))
    assert topology.state_meaning == Topology(**NEEDED, statistics=statistics).state_meaning


def test_every_field_of_a_topology_has_a_flag() -> None:
    """None can be set in a file alone."""
    command = typer.main.get_command(app).commands["run"]
    flags = {option.name: option.opts for option in command.params}
    names = {field.name for field in fields(Topology)}
    assert set(TOPOLOGY_FLAGS) == names
    for name in names:
        assert flags[name] == [flag_of(name)]
