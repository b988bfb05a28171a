"""The same settings in the words of each client: librdkafka's, and those of Kafka's Java clients.

Faust's are in `app/slidestat/faust/worker/credentials.py`.
"""

from slidestat.kafka.settings import BrokerSecurity, broker_security

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_config(bootstrap: str) -> dict[str, str | int | float | bool]:
    """Return the address and security of a librdkafka client, from the environment.

    librdkafka writes each refused connection to standard error by itself; errors that matter reach
    the user as exceptions and delivery reports, so its own log is off. Raises SlidestatError for
    settings that cannot be.
    """
    security = broker_security()
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "client.id": "slidestat",
        "log_level": 0,
        "security.protocol": security.protocol,
    }
    optional = {
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password,
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.key_file,
        "ssl.key.password": security.key_password,
    }
    return settings | {name: str(value) for name, value in optional.items() if value is not None}


def java_settings(security: BrokerSecurity) -> dict[str, str]:
    """Return the same settings for Kafka's Java clients, which Spark's connector uses.

    Secrets are among the values: hand them over in memory, and keep them out of logs. Certificates
    go as text, since Java wants a certificate and its key in one.
    """
    settings = {"security.protocol": security.protocol}
    if security.mechanism is not None:
        settings["sasl.mechanism"] = security.mechanism
        settings["sasl.jaas.config"] = (
            f"{_LOGIN_MODULES[security.mechanism]} required"
            f" username={_quoted(security.username or '')}"
            f" password={_quoted(security.password or '')};"
        )
    if security.ca_file is not None:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.certificates"] = security.ca_file.read_text("ascii")
    if security.certificate_file is not None and security.key_file is not None:
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.certificate.chain"] = security.certificate_file.read_text("ascii")
        settings["ssl.keystore.key"] = security.key_file.read_text("ascii")
        if security.key_password is not None:
            settings["ssl.key.password"] = security.key_password
    return settings


def _quoted(text: str) -> str:
    """Return a string in the syntax of Java's login configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
