"""Norms of how much came of each item, as a topology tells them."""

from collections import Counter
from random import Random

import pytest

from slidestat import Norm, SlidestatError, Topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from tests.audit.test_audit_key import Partition
from tests.engine.memory import SOURCE
from tests.engine.model import Record
from tests.engine.streams import START_MS

NEEDED = {"name": "t", "source": SOURCE, "span": "1s", "every": "100ms"}
WEIGHED = (
    Norm(field="item", weight="bytes", p=1.0, name="all"),
    Norm(field="item", weight="bytes", p=2.0, epsilon=0.5, delta=0.01, seed=4),
    Norm(field="item", epsilon=0.5, delta=0.01, seed=4),
)


def test_norms_of_weights_hold_and_are_audited() -> None:
    """The norm of the sums of rounded weights by item, of events that have both fields; the sum of
    the weights for p = 1.
    """
    random, rows, records = Random(3), [], []
    for i in range(400):
        time, item = START_MS + 5 * i, f"item-{int(random.paretovariate(0.7)) % 50}"
        weight = random.choice([1, 1.5, 2.5, 2048, 7, round(random.uniform(1, 90), 2)])
        lacks = random.random() < 0.1
        fields = f'"key": "a", "time": {time}, "item": "{item}"'
        fields += "" if lacks else f', "bytes": {weight}'
        records.append(Record(i, b"a", f"{{{fields}}}".encode(), time))
        rows.append((time, item, None if lacks else max(1, round(weight))))
    asked = Topology(**NEEDED, statistics=WEIGHED)
    assert asked.labels == ("all", "norm_item_of_bytes", "norm_item")
    partition = Partition(asked, records)
    assert len(partition.emissions["a"]) >= 20
    for end, emission in partition.emissions["a"].items():
        inside = [row for row in rows if end - 1_000 <= row[0] < end]
        weighed, counted = Counter[str](), Counter(item for _, item, _ in inside)
        for _, item, weight in inside:
            weighed[item] += weight or 0
        exact = (
            sum(weighed.values()),
            sum(n * n for n in weighed.values()) ** 0.5,
            sum(n * n for n in counted.values()) ** 0.5,
        )
        for figure, right in zip(emission.figures, exact, strict=True):
            assert figure.estimate is not None
            assert figure.lower - 1e-9 * right <= right <= figure.upper + 1e-9 * right
            assert abs(figure.estimate - right) <= figure.relative_error * right + 1e-9 * right
    for finding in partition.audit("a"):
        assert not finding.violation, finding


@pytest.mark.parametrize("weight", ["0.99", "2048.5", "-1", '"1"'])
def test_weights_that_are_none_make_dead_letters(weight: str) -> None:
    """Below 1, too large for a window that is full of them, texts."""
    record = b'{"key": "a", "time": %d, "item": "x", "bytes": %s}' % (START_MS, weight.encode())
    partition = Partition(Topology(**NEEDED, statistics=WEIGHED), [Record(0, b"a", record, 0)])
    assert partition.keys == {}


def test_weights_in_each_form() -> None:
    """As Python, as TOML's tables and as flags; without one, the meaning is what it was."""
    wanted = Topology(**NEEDED, statistics=(Norm(field="item", weight="http.bytes", p=1.5),))
    table = {"kind": "norm", "field": "item", "weight": "http.bytes", "p": 1.5}
    assert topology_of({**NEEDED, "statistics": [table]}) == wanted
    flag = "norm:item:weight=http.bytes:p=1.5"
    assert topology_of_flags({**NEEDED, "statistics": [flag]}) == wanted
    plain = Topology(**NEEDED, statistics=(Norm(field="item"),))
    told = "norm, p 2.0, epsilon 0.3, delta 0.05, seed 0, of item"
    assert plain.state_meaning["statistics"] == told
    with pytest.raises(SlidestatError, match="the weight of norm"):
        Norm(weight="kafka:key")
