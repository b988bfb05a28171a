"""The outputs for one partition, added up batch by batch."""

from dataclasses import dataclass


@dataclass(slots=True)
class PartitionWork:
    """The work of a partition since the process began, in counts and seconds.

    Each record is counted once: as counted, dead or late as its letter has it, passed over, or
    repeated if it had been read before.
    """

    batches: int = 0
    counted: int = 0
    dead: int = 0
    late: int = 0
    passed_over: int = 0
    repeated: int = 0
    emissions: int = 0
    # In batches as a whole, and inside the synopses' kernels.
    processing_s: float = 0.0
    kernel_s: float = 0.0
    # Look-ups of keys' states in memory: found there, and not.
    cache_hits: int = 0
    cache_misses: int = 0
