"""What can go wrong under a group of workers, and a random series of it."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack

from slidestat.local.broker import LocalBroker
from tests.broker.workers import Stage, Worker
from tests.chaos.network import Network

# Longer than a worker's session time-out: the group has given its partitions away when it wakes.
FREEZE_S = 14.0


class Group:
    """Workers of one topology that are killed, frozen and started again."""

    def __init__(self, stage: Stage, size: int, chance: random.Random, cleanup: ExitStack) -> None:
        self._stage = stage
        self._chance = chance
        self._cleanup = cleanup
        self._slots = [self._start(slot) for slot in range(size)]

    @property
    def workers(self) -> list[Worker]:
        return self._slots

    def kill(self) -> str:
        """SIGKILL; started again at once, now and then with its folder lost."""
        slot = self._chance.randrange(len(self._slots))
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
