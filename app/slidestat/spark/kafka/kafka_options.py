"""How Spark's Kafka source reaches the brokers: by the same settings as every other client."""

from slidestat.kafka.clients import java_settings
from slidestat.kafka.settings import broker_security

# After each poll Spark asks where the partition begins and ends, and drops what was fetched beyond
# it: so a poll brings all of a fetch, where Kafka's default is 500 records. A fetch is an object a
# record until it is read through: one of 4 MiB outlives the collections that are cheap.
_FETCHED = {"max.poll.records": "100000", "max.partition.fetch.bytes": str(2**20)}


def kafka_options(bootstrap: str) -> dict[str, str]:
    """Return the options of a reader of committed records; raises SlidestatError for settings that
    are not possible.

    A plan shows options: those with secrets are redacted by the session.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        **_FETCHED,
        **java_settings(broker_security()),
    }
    return {f"kafka.{name}": value for name, value in settings.items()}
