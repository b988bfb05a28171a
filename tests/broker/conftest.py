"""Stages for real workers: a topology of its own for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slidestat.local.broker import LocalBroker
from tests.broker.workers import Stage

BODY = (
    'span="10m", every="20s", windows=("1m", "10m"),\n'
    "    statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)),\n"
)

MakeStage = Callable[..., Stage]


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    """A broker that a test may kill."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def make_stage(
    bootstrap_servers: str,
    tmp_path: Path,
    topic_name: str,
    make_topic: Callable[..., str],
) -> MakeStage:
    """`make_stage(partitions=2, body=BODY, name="t", source=None, config={})`: a topology of this
    test over a topic that exists; a new one unless `source` is given.
    """

    def make(
        partitions: int = 2,
        body: str = BODY,
        name: str = "t",
        source: str | None = None,
        config: dict[str, str] | None = None,
    ) -> Stage:
        source = source or make_topic(f"{name}-source", partitions, config)
        return Stage(bootstrap_servers, tmp_path, f"{topic_name}-{name}", source, body)

    return make
