"""Start a worker: check what it needs, make what is missing, and run it."""

import sys
from pathlib import Path

from app.client.connection import require_broker, require_topic
from app.client.options import LOOPBACK
from app.client.topics import create_topic, create_topology_topics
from app.streaming.data_folder import data_folder
from app.streaming.topology import Topology
from app.web.address import listen
from app.web.announcement import announced


def start_worker(
    topology: Topology,
    bootstrap: str,
    data_dir: Path | None = None,
    web_host: str = LOOPBACK,
    web_port: int | None = None,
) -> None:
    """Run a worker of `topology` until SIGINT or SIGTERM.

    The source topic must exist; output and letter topics are made with its partition count.
    `data_dir` None takes a folder of the user's that no other worker holds, `web_port` None the
    first port that is free from 6066 on. Raises SlidestatError for what the user can mend.
    """
    address = listen(web_host, web_port)
    create = f"slidestat topics create {topology.source} --partitions 4"
    partitions = require_topic(bootstrap, topology.source, create)
    create_topology_topics(bootstrap, topology, partitions)
    # Faust would make it with a single replica, whatever the cluster's default.
    create_topic(bootstrap, topology.changelog_topic, partitions, {"cleanup.policy": "compact"})
    cluster_id = str(require_broker(bootstrap).cluster_id)

    # Faust takes a second to import.
    from app.streaming.worker import run_worker
    from app.web.server import QueryServer

    with (
        data_folder(data_dir, topology.application_id, cluster_id) as folder,
        announced(folder, address),
    ):
        print(f"{topology.name}: answers at {address.url}", file=sys.stderr, flush=True)
        run_worker(topology, bootstrap, folder, partitions, QueryServer(address))
