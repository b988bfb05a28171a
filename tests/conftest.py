"""One Kafka broker for the whole test session, topics on it, and one browser."""

import gc
import os
import signal
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat import redaction
from slidestat.local.broker import LocalBroker
from tests.commands import (  # noqa: F401 - fixtures of all that run commands
    read_topic,
    run_cli,
    write_events,
)
from tests.machine import (  # noqa: F401 - pytest finds its hooks here
    COMPILED,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_terminal_summary,
)

if TYPE_CHECKING:
    from tests.web.browser import Browser

_TESTS = Path(__file__).parent
_DOCKER_PROBE_S = 2
_TOPIC_TIMEOUT_S = 30.0
_FOREVER = str(2**63 - 1)

MakeTopic = Callable[..., str]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Say what runs in one process, where several share the tests: a file's; and all that is in
    Spark's session, which takes long to start and to become quick. The long ones are in two: one
    after the other they would take as long as all other long tests together.
    """
    path = item.path.relative_to(_TESTS)
    group, is_long = path.with_suffix("").as_posix(), item.get_closest_marker("long")
    if "spark" in getattr(item, "fixturenames", ()):
        group = "spark, audits" if is_long and path.parent.name == "audit" else "spark"
    item.add_marker(pytest.mark.xdist_group(group))
    if is_long and "mark.long" not in item.path.read_text("utf-8"):
        raise pytest.UsageError(f"make test-long finds no mark.long in {item.path}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage: each full collection looks at all that is there,
    modules and thousands of tests, and frees none of it. (Frozen for good, it would be hidden from
    hypothesis, which asks the collector for who refers to a generator.)
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to go on where tests are grouped in vain: all would take twice as long, in silence."""
    is_grouped = getattr(session.config.option, "loadgroup", False)
    if is_grouped and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist groups no tests with this pytest (pyproject.toml)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Forget the secrets of a test after it: a password such as "wrong" is cut out of all texts of
    its process, and other tests read them.
    """
    before = set(redaction._forms), redaction._known
    try:
        return (yield)
    finally:
        redaction._forms, redaction._known = before


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note which kernels this process compiled, as no unit has them for these types."""
    compiling = sys.modules.get("slidestat.kernels.compile")
    names = set(compiling.compiled_here) if compiling else set()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["compiled_here"] = sorted(names)
    COMPILED.update(names)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the names from a process of several."""
    COMPILED.update(getattr(node, "workeroutput", {}).get("compiled_here", ()))


@pytest.fixture
def hangups() -> Iterator[None]:
    """The signal of a closed terminal has its effect, also where `nohup` runs the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The broker of this session: the environment's, else Docker's, else a local one."""

    def say(which: str) -> None:
        plugins = request.config.pluginmanager
        reporter, capture = (
            plugins.getplugin("terminalreporter"),
            plugins.getplugin("capturemanager"),
        )
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(f"\nKafka broker of this test session: {which}")

    if given := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        say(f"{given} (KAFKA_BOOTSTRAP_SERVERS)")
        yield given
    elif _docker_answers():
        # only here: it takes a while to import, and most machines have no engine
        from testcontainers.community.kafka import KafkaContainer

        container = (
            KafkaContainer().with_kraft().with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
        )
        with container:
            address = container.get_bootstrap_server()
            say(f"{address} (Docker, {container.image})")
            yield address
    else:
        with LocalBroker() as broker:
            say(f"{broker.bootstrap_servers} (local JVM, log {broker.log_path})")
            yield broker.bootstrap_servers


def _docker_answers() -> bool:
    with warnings.catch_warnings():
        # the client forgets to close its socket where no engine answers; it is collected here
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            client = docker.from_env(timeout=_DOCKER_PROBE_S)
            try:
                return bool(client.ping())
            finally:
                client.close()
        except docker.errors.DockerException:
            return False
        finally:
            gc.collect()


@pytest.fixture(scope="session")
def admin(bootstrap_servers: str) -> AdminClient:
    """An admin client of the session's broker."""
    return AdminClient({"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def topic_name() -> str:
    """A prefix for topic names and consumer groups that no other test uses."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_topic(admin: AdminClient, topic_name: str) -> MakeTopic:
    """`make_topic(name_suffix, partitions, config={})` creates a topic and returns its name."""

    def make(
        name_suffix: str = "", partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        name = f"{topic_name}-{name_suffix}" if name_suffix else topic_name
        # old event times are neither a reason to delete records nor to roll segments
        settings = {"retention.ms": "-1", "segment.ms": _FOREVER, **(config or {})}
        topic = NewTopic(name, partitions, replication_factor=1, config=settings)
        admin.create_topics([topic])[name].result()
        _await_leaders(admin, name, partitions)
        return name

    return make


def _await_leaders(admin: AdminClient, name: str, partitions: int) -> None:
    """Return once the broker's own answer shows a leader for every partition."""
    until = time.monotonic() + _TOPIC_TIMEOUT_S
    while True:
        try:
            found = admin.list_topics(name, timeout=5).topics[name].partitions
        except KafkaException:
            found = {}
        if sum(partition.leader >= 0 for partition in found.values()) == partitions:
            return
        if time.monotonic() > until:
            pytest.fail(f"topic {name} has no leaders after {_TOPIC_TIMEOUT_S:.0f} s")
        time.sleep(0.02)


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """The browser that all tests of pages share; it starts with the first of them."""
    from tests.web.browser import chromium

    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: "Browser") -> "Iterator[Browser]":
    """The session's browser, on an empty page; whatever it complained of fails the test."""
    one_browser.close()
    one_browser.size(1280)
    one_browser.media(prefers_color_scheme="light")
    one_browser.errors()
    yield one_browser
    assert one_browser.errors() == []
