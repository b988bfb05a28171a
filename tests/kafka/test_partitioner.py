"""Keys are placed where Kafka's clients place them."""

from random import Random

import pytest
from aiokafka.partitioner import DefaultPartitioner

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.kafka.partitioner import partitions_of


@pytest.mark.parametrize("partitions", [1, 2, 7, 100])
def test_a_key_lies_where_a_client_would_send_it(partitions: int) -> None:
    """Keys of any length and any bytes, as aiokafka places them; none of None."""
    chance = Random(partitions)
    keys = [chance.randbytes(chance.randrange(40)) for _ in range(3_000)]
    place, numbers = DefaultPartitioner(), list(range(partitions))
    wanted = [int(place(key, numbers, numbers)) for key in keys]
    found = partitions_of(BinaryColumn.of([None, *keys]), partitions)
    assert found.tolist() == [0, *wanted]
