"""The headers that the record of an alert's change has of its own."""

from slidestat.declare.declared import Declared
from slidestat.engine.emissions.output_records import AlertRecord
from slidestat.schemas.alert import cloud_event_headers
from slidestat.schemas.sequence import decode_alert_change
from slidestat.text import iso_time


def headers_of_alert(alert: AlertRecord, topology: Declared) -> list[tuple[str, bytes]]:
    """Return the headers of a change of an alert; none without `alert_headers`."""
    if not topology.alert_headers:
        return []
    return cloud_event_headers(
        topology.name,
        decode_alert_change(alert.value).state,
        alert.key,
        alert.value,
        None if topology.is_sequence else iso_time(alert.timestamp),
    )
