"""The memory of a worker that starts behind a backlog, and then gets a burst of new keys.

    python -m benchmarks.size.backlog [events] [new keys]

Ten million events of the workload `sums` are on a broker before its worker starts; when they are
committed, 500,000 keys that were never seen come once each, as fast as a producer sends them. Told
is the most memory that the worker's process was seen with, in each tenth of the backlog and in the
burst: what is bounded does not grow with what waits, and above 1.5 GiB the exit code is 2. Every
emission is looked for and compared as in `benchmarks.speed.throughput`. Memory is the resident set,
looked at five times a second.
"""

import os
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.check import check_output
from benchmarks.harness.command import typed
from benchmarks.harness.measure import GroupOffsets, SubjectProcess, memory_verdict
from benchmarks.harness.progress import Progress
from benchmarks.harness.results import machine
from benchmarks.harness.systems import OURS, SYSTEMS
from benchmarks.harness.workload import Workload, send
from slidestat.admin.topics import create_topology_topics
from slidestat.local.broker import LocalBroker

_CASE = CaseName.SUMS
_PARTITIONS = 2
_PARTS = 10
_PATIENCE_S = 300.0
MOST_MEMORY = 3 * 2**29


def _draw(events: int, new_keys: int) -> Workload:
    """The backlog, then each new key once, a tenth of a millisecond apart."""
    case = CASES[_CASE]
    drawn = case.draw(events, case.keys, _PARTITIONS)
    new = np.arange(new_keys)
    return replace(
        drawn,
        key_count=case.keys + new_keys,
        keys=np.concatenate((drawn.keys, case.keys + new)),
        times=np.concatenate((drawn.times, drawn.times[-1] + new // 10)),
        cents=np.concatenate((drawn.cents, 1 + new % 10_000)),
    )


def main(events: int, new_keys: int) -> int:
    """Run it once, on a broker of its own; the exit code: 2 above `MOST_MEMORY`."""
    print(machine(), flush=True)
    every = CASES[_CASE].every
    workload = _draw(events, new_keys)
    peaks: dict[str, int] = {}
    with (
        tempfile.TemporaryDirectory(prefix="slidestat-backlog-") as name,
        LocalBroker(Path(name) / "broker") as broker,
    ):
        bootstrap, folder = broker.bootstrap_servers, Path(name)
        topology = make_topology(_CASE, "backlog", "backlog", every)
        create_topology_topics(bootstrap, topology, _PARTITIONS)
        send(workload.part(0, events), bootstrap, topology.source)
        progress = Progress.create(folder / "progress")
        command = [*SYSTEMS[OURS].command(), bootstrap, topology.source, topology.name]
        command += [str(folder / "progress"), str(folder / "worker"), str(_PARTITIONS)]
        command += [every, _CASE]
        (folder / "worker").mkdir()
        group = GroupOffsets(bootstrap, topology.source, topology.application_id, _PARTITIONS)
        with closing(group), SubjectProcess(command, folder / "worker.log") as process:
            process.wait_for(progress.read, 1, _PATIENCE_S)
            start = time.monotonic()
            for part in range(1, _PARTS + 1):
                process.peak_rss = 0
                process.wait_for(group.committed, events * part // _PARTS, _PATIENCE_S)
                what = f"backlog, {part} of {_PARTS}"
                peaks[what] = _say(what, process, start)
            process.peak_rss = 0
            send(workload.part(events, events + new_keys), bootstrap, topology.source)
            process.wait_for(group.committed, events + new_keys, _PATIENCE_S)
            what = f"{new_keys:,} new keys"
            peaks[what] = _say(what, process, start)
        check = check_output(workload, topology, bootstrap)
        print(f"{check.records:,} emissions, all there; {check.figures:,} figures checked")
    return memory_verdict(peaks, MOST_MEMORY)


def _say(what: str, process: SubjectProcess, start: float) -> int:
    peak = max(process.peak_rss, process.rss())
    print(
        f"{what}: at {time.monotonic() - start:.1f} s, peak {peak / 2**20:,.0f} MiB,"
        f" load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return peak


if __name__ == "__main__":
    sys.exit(main(*typed(__doc__, events=10_000_000, new_keys=500_000)))
