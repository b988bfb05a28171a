"""The alerts of a key, for answers to queries."""

from collections.abc import Iterable

from slidestat.declare.alerts import Alert
from slidestat.engine.alerts.standing import alert_id, decode_standings
from slidestat.schemas.alert import Certainty
from slidestat.schemas.query import KeyAlert


def key_alerts(
    alerts: Iterable[Alert], standings: bytes, key_alert: type[KeyAlert]
) -> list[KeyAlert]:
    """Return those of the declared alerts that fire or are pending, in their order; `key_alert` is
    the struct of the version that is answered in.

    `standings` are of the key's state; raises SlidestatError for bytes that are none.
    """
    stored = decode_standings(standings)
    return [
        key_alert(
            alert.name,
            "firing" if standing.is_firing else "pending",
            Certainty.CERTAIN if standing.is_certain else Certainty.LIKELY,
            standing.since,
        )
        for alert in alerts
        if (standing := stored.get(alert_id(alert.name))) is not None
    ]
