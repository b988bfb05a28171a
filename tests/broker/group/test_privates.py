"""The privates of Faust, aiokafka and aiohttp that a worker replaces or reads: each is named here.

They are why these have an upper bound in pyproject.toml. A release that moves one fails here,
and not in the middle of a rebalance.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import faust
import pytest
from aiohttp.web import SockSite
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.fetcher import Fetcher, FetchResult, PartitionRecords
from aiokafka.consumer.group_coordinator import GroupCoordinator
from faust.assignor.partition_assignor import PartitionAssignor
from faust.stores.rocksdb import Store
from faust.tables import Table
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.web.drivers.aiohttp import Web

ROOM = Path(__file__).parents[3] / "app" / "slidestat"
WEB = [ROOM / "web" / "server.py", ROOM / "web" / "server.py"]
FILES = [*sorted((ROOM / "faust").rglob("*.py")), *WEB]

PRIVATES: dict[type, set[str]] = {
    AIOKafkaClient: {"_metadata_update", "_sync_task"},
    AIOKafkaConsumer: {"_client", "_coordinator", "_fetcher", "_isolation_level", "_subscription"},
    ClusterMetadata: {"_broker_partitions", "_listeners", "_partitions"},
    Fetcher: {"_fetch_max_wait_ms", "_fetch_min_bytes", "_fetch_task", "_records"},
    GroupCoordinator: {"_coordination_task", "_push_error_to_user"},
    FetchResult: {"_partition_records", "_topic_partition", "_update_position"},
    PartitionRecords: {"_consumer_record", "_records"},
    AIOKafkaConsumerThread: {"_create_worker_consumer", "_ensure_consumer", "_fetch_records"},
    Consumer: {
        "_acked",
        "_acked_index",
        "_add_gap",
        "_buffered_partitions",
        "_commit_offsets",
        "_committed_offset",
        "_filter_tps_with_pending_acks",
        "_get_active_partitions",
        "_getmany",
        "_new_consumer_thread",
        "_new_offset",
        "_thread",
        "_to_message",
        "_wait_next_records",
    },
    faust.App: {
        "_new_transport",
        "_new_web",
        "_on_partitions_assigned",
        "_on_partitions_revoked",
        "_wait_for_table_recovery_completed",
    },
    faust.Worker: {"_schedule_shutdown"},
    PartitionAssignor: {"_get_copartitioned_groups", "_perform_assignment"},
    Recovery: {"_build_highwaters", "_build_offsets", "_generation_id", "_wait"},
    SockSite: {"_backlog", "_runner", "_server", "_sock"},
    Store: {"_db_for_partition", "_open_for_partition"},
    Table: {"_data"},
    TableManager: {"_changelogs", "_recovery"},
    Web: {"_create_site"},
}
NAMED = set().union(*PRIVATES.values())
EACH = [(owner, name) for owner, names in PRIVATES.items() for name in sorted(names)]


@pytest.mark.parametrize(("owner", "name"), EACH, ids=lambda one: getattr(one, "__name__", one))
def test_it_is_still_there(owner: type, name: str) -> None:
    """As a method, or as an attribute that the class or one of its bases sets."""
    sets_it = any(
        f"self.{name}" in inspect.getsource(base)
        for base in owner.__mro__
        if base.__module__.split(".")[0] in ("aiohttp", "faust", "aiokafka", "mode")
    )
    assert hasattr(owner, name) or sets_it


def used(tree: ast.AST) -> Iterator[str]:
    """The private names that a file reads of others, and those that its subclasses replace."""
    own = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if node.attr not in own or ast.unparse(node.value) == "super()":
                yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            name = node.args[1]
            if isinstance(name, ast.Constant) and is_private(str(name.value)):
                yield str(name.value)


def is_private(name: str) -> bool:
    """Whether a name is somebody's own; librdkafka's codes, _ALL_BROKERS_DOWN, are not."""
    return name.startswith("_") and not name.startswith("__") and not name.isupper()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_one_is_named(path: Path) -> None:
    """Nothing private of others is used that is not in the list above."""
    ours = {"_exit"}  # os._exit, which is public
    assert set(used(ast.parse(path.read_text(encoding="utf-8")))) - ours - NAMED == set()
