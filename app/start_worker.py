"""Start a worker: check what it needs, make what is missing, and run it."""

import sys
from collections.abc import Sequence
from pathlib import Path

from app.client.connection import require_broker
from app.client.footprint_text import footprint_line
from app.client.options import LOOPBACK
from app.client.worker_topics import prepare_topics
from app.streaming.data_folder import data_folder
from app.streaming.output_codec import JsonCodec
from app.streaming.referee import Referee
from app.streaming.referee_answers import RefereeAnswers
from app.streaming.topology import Topology, require_one_worker
from app.web.address import listen
from app.web.announcement import announced


def start_worker(
    topologies: Sequence[Topology | Referee],
    bootstrap: str,
    data_dir: Path | None = None,
    registry: str = "",
    web_host: str = LOOPBACK,
    web_port: int | None = None,
) -> None:
    """Run a worker of `topologies`, which share a group and a source, until SIGINT or SIGTERM.

    The source topic must exist; the topics that are written are made with its partition count.
    `data_dir` None takes a folder of the user's that no other worker holds; `registry` is the
    schema registry of an output in Avro; `web_port` None the first port that is free from 6066 on.
    Raises SlidestatError for what the user can mend.
    """
    require_one_worker(topologies)
    address = listen(web_host, web_port)
    for topology in topologies:
        partitions = prepare_topics(bootstrap, topology)
    cluster_id = str(require_broker(bootstrap).cluster_id)

    with data_folder(data_dir, topologies[0].application_id, cluster_id) as folder:
        for topology in topologies:
            # Measuring loads every kernel: better now than in the group, which takes a worker that
            # is silent for too long for dead.
            _tell(
                f"{topology.name}: loading kernels; the first time they are compiled, for a minute"
            )
            if isinstance(topology, Referee):
                RefereeAnswers(topology, 0, JsonCodec()).warm()
            else:
                _tell(footprint_line(topology))

        # Faust takes a second to import.
        from app.streaming.worker import run_worker
        from app.web.server import QueryServer

        _tell(f"{topologies[0].group_name}: answers at {address.url}")
        with announced(folder, address):
            run_worker(topologies, bootstrap, folder, partitions, QueryServer(address), registry)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
