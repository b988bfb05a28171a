"""The brokers' security settings in the words of Faust."""

import faust
from faust.types.auth import CredentialsT

from slidestat.kafka.settings import BrokerSecurity, tls_context


def faust_credentials(security: BrokerSecurity) -> CredentialsT | None:
    """Return the `broker_credentials` of a Faust app; None for brokers that want none.

    Raises SlidestatError for certificates that cannot be used.
    """
    context = tls_context(security) if security.has_tls else None
    if security.has_sasl:
        return faust.SASLCredentials(
            username=security.username,
            password=security.password,
            mechanism=security.mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context is not None else None
