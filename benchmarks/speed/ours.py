"""slidestat's worker on a benchmark's topology, everything on.

    python -m benchmarks.speed.ours BOOTSTRAP TOPIC NAME PROGRESS_FILE DATA_DIR PARTITIONS EVERY \
        CASE

The worker is the one that users run. It is told apart only by two things: its kernels are loaded
before it starts, as part of the start-up that no subject is charged for; and it says how many
events it has taken up, so that the ruler knows when the first batch came. When they are counted the
ruler sees for itself, from the group's committed offsets.
"""

from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.harness.cases import CaseName, make_topology
from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress
from benchmarks.speed.real_rate import WORKLOADS
from slidestat.admin.worker_topics import prepare_topics
from slidestat.declare.topology import Topology
from slidestat.engine.keys.stored_keys import NoStates
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.faust.partitions.batch_steps import BatchSteps
from slidestat.faust.worker.resources import limit_arenas
from slidestat.faust.worker.run import run_worker
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.live.batch_traces import BatchTrace
from slidestat.options import CHECKPOINT_INTERVAL_S, LOOPBACK
from slidestat.web.address import listen
from slidestat.web.answers.history import OutputHistory
from slidestat.web.server import QueryServer


def load_kernels(topology: Topology) -> None:
    """Call every kernel once, with what it is called with in a worker."""
    times = (1_700_000_000_000, 1_700_000_000_000 + topology.span_length.length)
    values = [b'{"key":"a","time":%d,"value":1.25}' % time for time in times]
    batch = RecordBatch(
        topology.source, 0, np.arange(2, dtype=np.int64), [b"a", b"a"], values, times, 0
    )
    PartitionProcessor(topology, topology.source, 0, NoStates()).process(batch)


def note_events_taken_up(progress: Progress) -> None:
    """Have each batch write how many events have been taken up, itself included."""
    process = BatchSteps.process
    taken = 0

    def process_and_note(
        steps: BatchSteps, batch: RecordBatch, trace: BatchTrace | None = None
    ) -> Awaitable[bool]:
        nonlocal taken
        taken += len(batch)
        progress.write(taken)
        return process(steps, batch, trace)

    BatchSteps.process = process_and_note  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    _bootstrap, _topic, _name, _file, _data_dir, _partitions, _every, _case = typed(
        __doc__, *OF_A_SYSTEM, "every", "case"
    )
    _held = WORKLOADS.get(_case)
    # Where the last commit is waited for it must not wait for its turn.
    _interval_s = 1.0 if _held is None else CHECKPOINT_INTERVAL_S
    _topology = (
        make_topology(CaseName(_case), _topic, _name, _every)
        if _held is None
        else replace(_held.topology, source=_topic, name=_name)
    )
    limit_arenas()
    load_kernels(_topology)
    note_events_taken_up(Progress(Path(_file)))
    _web = QueryServer(listen(LOOPBACK, 0), OutputHistory(_bootstrap, ""))
    print(f"answers at {_web.address.url}", flush=True)
    prepare_topics(_bootstrap, _topology)
    run_worker(
        WorkerSettings(
            topologies=[_topology],
            bootstrap_servers=_bootstrap,
            data_dir=Path(_data_dir),
            partitions=int(_partitions),
            web=_web,
            checkpoint_interval_s=_interval_s,
        )
    )
