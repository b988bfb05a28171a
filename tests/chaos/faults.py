"""What can go wrong under a group of workers, and a random series of it."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import IO

from slidestat.local.broker import LocalBroker
from tests.broker.workers import Stage, Worker
from tests.chaos.network import Network
from tests.chaos.small_disk import OnSmallDisk

# Longer than a worker's session time-out: the group has given its partitions away when it wakes.
FREEZE_S = 14.0
# So soon a worker that is given events has written states.
NO_ROOM_S = 60.0


class Group:
    """Workers of one topology that are killed, frozen and started again; the first `spared` ones
    are frozen alone.
    """

    def __init__(
        self,
        stage: Stage,
        size: int,
        chance: random.Random,
        cleanup: ExitStack,
        spared: int = 0,
    ) -> None:
        self._spared = spared
        self._stage = stage
        self._chance = chance
        self._cleanup = cleanup
        self._slots = [self._start(slot) for slot in range(size)]

    @property
    def workers(self) -> list[Worker]:
        return self._slots

    def kill(self) -> str:
        """SIGKILL; started again at once, now and then with its folder lost."""
        slot = self._chance.randrange(self._spared, len(self._slots))
        worker = self._slots[slot]
        worker.kill()
        lost = self._chance.random() < 0.4
        if lost:
            shutil.rmtree(worker.data_dir, ignore_errors=True)
        self._slots[slot] = self._start(slot)
        return f"worker {slot} killed{' and its folder lost' if lost else ''}"

    def freeze(self) -> str:
        """SIGSTOP for longer than the session time-out."""
        slot = self._chance.randrange(len(self._slots))
        os.kill(self._slots[slot].pid, signal.SIGSTOP)
        time.sleep(FREEZE_S)
        os.kill(self._slots[slot].pid, signal.SIGCONT)
        return f"worker {slot} frozen for {FREEZE_S:.0f} s"

    def fill_disk(self) -> str:
        """One of them gets a disk of its own, which is full soon after: it ends, and says what to
        do; then it is started again where there is room.
        """
        slot = self._chance.randrange(self._spared, len(self._slots))
        self._slots[slot].kill()
        disks: list[OnSmallDisk] = []

        def on_small_disk(arguments: Sequence[str], output: IO[bytes]) -> OnSmallDisk:
            disks.append(OnSmallDisk(arguments, output))
            return disks[0]

        with self._stage.worker(f"w{slot}-small", start=on_small_disk) as worker:
            worker.await_ready()
            time.sleep(self._chance.uniform(2.0, 8.0))
            disks[0].fill()
            assert worker.await_end(NO_ROOM_S) == 2, worker.said()
            assert "There is no room for tables" in worker.said(), worker.said()
            assert "Make room, and start the worker again" in worker.said()
            assert "Traceback" not in worker.said(), worker.said()
        self._slots[slot] = self._start(slot)
        return f"worker {slot} on a full disk"

    def start_ended(self) -> list[str]:
        """Start again those that ended by themselves, as whoever supervises them does; what they
        said.
        """
        said = []
        for slot, worker in enumerate(self._slots):
            if not worker.is_running():
                said.append(f"worker {slot} ended: {worker.said()[-400:]}")
                self._slots[slot] = self._start(slot)
        return said

    def _start(self, slot: int) -> Worker:
        return self._cleanup.enter_context(self._stage.worker(f"w{slot}"))


def series(
    group: Group, broker: LocalBroker, network: Network, rounds: int, chance: random.Random
) -> list[Callable[[], str]]:
    """`rounds` times the same faults, each time in another order."""

    def restart_broker() -> str:
        broker.restart()
        return "broker restarted"

    def kill_broker() -> str:
        broker.kill()
        broker.restart()
        return "broker killed and restarted"

    def reset() -> str:
        network.reset()
        return "connections reset"

    faults: list[Callable[[], str]] = []
    for of_broker in (restart_broker, kill_broker) * ((rounds + 1) // 2):
        one = [group.kill, group.kill, group.freeze, reset, reset, of_broker]
        chance.shuffle(one)
        faults += one
    return faults[: 6 * rounds]
