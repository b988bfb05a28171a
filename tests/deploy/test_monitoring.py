"""Grafana dashboard and alert rules: they ask only for metrics and labels that there are."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from slidestat import Slo
from slidestat.repartition.moved_from import Behind
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, Held, get, serving, serving_of

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
FIGURES = "/topologies/orders/metrics?key=a&window=5m"
RANKING = "/topologies/orders/ranking/metrics?by=count_1h"

# Grafana puts these in; and labels that Prometheus gives by itself.
VARIABLES = {"$__rate_interval": "1m"}
VARIABLES |= dict.fromkeys(("$topology", "$key", "$statistic", "$window"), ".*")
SCRAPED = {"instance", "job"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels(dashboard: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    return found


def expressions() -> Iterator[str]:
    """All that is asked of Prometheus."""
    for rule in rules():
        yield rule["expr"]
    for panel in chain.from_iterable(map(panels, DASHBOARDS)):
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield expression


def selectors(node: Any) -> Iterator[Any]:
    """The metrics that a parsed expression selects."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for part in ("lhs", "rhs", "expr", "vector_selector", "args", "param"):
        child = getattr(node, part, None)
        for each in child if isinstance(child, list) else [child]:
            if each is not None:
                yield from selectors(each)


@pytest.mark.asyncio
async def test_every_metric_that_is_asked_for_exists() -> None:
    """Each expression is PromQL, and what it selects is what a worker that has read, refused and
    emitted records tells, with its labels and their values.
    """
    objective = Slo(name="up", good="value < 5", objective=0.9, alerts=[])
    async with serving_of(replace(TOPOLOGY, slos=[objective]), {0: []}) as [worker]:
        held = worker.live.held
        assert isinstance(held, Held)
        times = (START_MS, START_MS + 61_000, START_MS)
        records = [Record(i, None, encode("a", time, 1), 0) for i, time in enumerate(times)]
        held.take(0, [*records, Record(3, None, b"no json", 0)])
        held.flush()
        held.moves = {"orders-eu": Behind(3, START_MS)}
        answers = [
            await get(worker.url, path)
            for path in ("/metrics", FIGURES, f"{FIGURES}&rank=1", RANKING)
        ]
        text = "".join(answer.body.decode() for answer in answers)
    told: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for label, value in sample.labels.items():
                told.setdefault(sample.name, {}).setdefault(label, set()).add(value)
            told.setdefault(sample.name, {})
    asked = list(expressions())
    assert len(asked) > 25
    for expression in asked:
        found = list(selectors(promql_parser.parse(expression)))
        assert found, expression
        for selector in found:
            assert selector.name in told, (selector.name, expression)
            for matcher in selector.matchers.matchers:
                values = told[selector.name][matcher.name]
                is_there = any(re.fullmatch(matcher.value, value) for value in values)
                assert is_there or matcher.value == ".*", (expression, values)
        for grouping in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            labels = set().union(*(told[selector.name] for selector in found)) | SCRAPED
            assert {label.strip() for label in grouping.split(",")} <= labels, expression


@pytest.mark.asyncio
async def test_all_of_a_variable_has_every_figure() -> None:
    """Also derived ones, which have no window: Grafana lists no empty value of a label."""
    objective = Slo(name="up", good="value < 5", objective=0.9, alerts=[])
    events = [Record(i, None, encode("a", START_MS + 1_000 * i, 1), 0) for i in range(2)]
    async with serving_of(replace(TOPOLOGY, slos=[objective]), {0: events}) as [worker]:
        answer = await get(worker.url, FIGURES)
    families = text_string_to_metric_families(answer.body.decode())
    (figures,) = [family for family in families if family.name == "slidestat_figure"]
    told = [sample.labels for sample in figures.samples]
    assert {labels["window"] for labels in told} == {"5m", ""}
    dashboard = json.loads((DEPLOY / "grafana" / "figures.json").read_text(encoding="utf-8"))
    chosen = {}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            values = {labels[variable["name"]] for labels in told} - {""}
            chosen[variable["name"]] = variable.get("allValue", "|".join(map(re.escape, values)))
    assert {"key", "statistic", "window"} < set(chosen)
    for labels in told:
        for name, value in chosen.items():
            assert re.fullmatch(value, labels[name]), (name, labels)


def test_an_invalid_expression_is_no_promql() -> None:
    """The parser is one that refuses."""
    for invalid in ("sum(rate(x[5m])", "rate(x)", "x ==", "sum by (a (x)"):
        with pytest.raises(ValueError, match=r"."):
            promql_parser.parse(invalid)


def test_alerts_say_what_is_wrong_and_what_to_do() -> None:
    """Every rule has a name of its own, a delay, a severity and two sentences; labels in them are
    those that are left after the aggregation.
    """
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        kept = re.search(r"sum by \(([^)]*)\)", rule["expr"])
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        if kept:
            assert used <= {label.strip() for label in kept[1].split(",")}, rule["alert"]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_laid_out(dashboard: Path) -> None:
    """Panels have ids and places of their own, a title, a description, and the data source that is
    chosen above.
    """
    places = set()
    for panel in panels(dashboard):
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in places, panel["title"]
                places.add((x, y))
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"]
            assert panel["datasource"]["uid"] == "${datasource}"
    ids = [panel["id"] for panel in panels(dashboard)]
    assert len(set(ids)) == len(ids)


OF_SEQUENCES = {"slidestat_figure_window_end_seq"}


@pytest.mark.asyncio
async def test_every_metric_is_described() -> None:
    """The table of metrics has each that a worker tells, and no other."""
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`(slidestat_\w+)`", text))
    async with serving({0: ["a"]}) as [worker]:
        answers = [
            await get(worker.url, path)
            for path in ("/metrics", FIGURES, f"{FIGURES}&rank=1", RANKING)
        ]
        names = {
            family.name + ("_total" if family.type == "counter" else "")
            for answer in answers
            for family in text_string_to_metric_families(answer.body.decode())
            if family.name.startswith("slidestat")
        }
    assert described - OF_SEQUENCES == names


@pytest.mark.asyncio
async def test_the_scrape_configuration_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sends, and where it asks by default, is what a worker with a token answers to."""
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yml").read_text())
    job, figures = scrape["scrape_configs"]
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "s3cret-Token==")
    async with serving({0: ["a"]}) as [worker]:
        shown = {"Authorization": f"{job['authorization']['type']} s3cret-Token=="}
        path = job.get("metrics_path", "/metrics")
        assert (await get(worker.url, path, headers=shown)).status == 200
        assert (await get(worker.url, path)).status == 401
        path = figures["metrics_path"].replace("/web/", "/orders/")
        query = urlencode(figures["params"], doseq=True)
        assert (await get(worker.url, f"{path}?{query}", headers=shown)).status == 200
        assert (await get(worker.url, f"{path}?{query}")).status == 401


RECIPE = re.compile(r"^\| [^|]+ \| `(/topologies/flights/[^`]+)` \| `([^`]+)` \|$", re.MULTILINE)


@pytest.mark.asyncio
async def test_the_recipe_without_prometheus_asks_for_what_there_is() -> None:
    """Each address is answered, and the answer has all names that its rows are made of."""
    recipe = RECIPE.findall((DEPLOY / "README.md").read_text(encoding="utf-8"))
    assert len(recipe) == 4
    events = [Record(i, None, encode("a", START_MS + 60_000 * i, 1), 0) for i in range(10)]
    async with serving_of(TOPOLOGY, {0: events}) as [worker]:
        for path, rows in recipe:
            asked = path.replace("flights", "orders").replace("${key:percentencode}", "a")
            asked = asked.replace("1d", "1h").replace("window=7d", "window=5m")
            assert "${" not in asked
            answer = await get(worker.url, asked)
            assert answer.status == 200, answer.body
            names = set(
                re.findall(r"[a-z_]+(?!\w*\")", re.sub(r'"[^"]*"|\$\w+|function', "", rows))
            )
            assert names - {"and"} <= set(re.findall(r'"([a-z_]+)":', answer.body.decode())), rows
            assert rows.split(".")[0].split(",")[0].rpartition("(")[2] in json.loads(answer.body)
