"""What the environment says of security, and what is refused."""

from pathlib import Path

import pytest

from slidestat.errors import SlidestatError
from slidestat.kafka.settings import BrokerSecurity, broker_security, java_settings, tls_context
from tests.security.conftest import PASSWORD, USER, Secured

SASL = {
    "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "KAFKA_SASL_USERNAME": USER,
    "KAFKA_SASL_PASSWORD": PASSWORD,
}


def test_nothing_set() -> None:
    """Without variables, and with empty ones, connections are plain."""
    assert broker_security({}) == BrokerSecurity()
    assert broker_security({"KAFKA_SECURITY_PROTOCOL": "", "KAFKA_SSL_CA_FILE": ""}).protocol == (
        "PLAINTEXT"
    )


def test_a_secret_is_in_no_text() -> None:
    """A password is not in what the settings show of themselves."""
    security = broker_security(SASL)
    assert security.password == PASSWORD
    assert PASSWORD not in repr(security)
    assert PASSWORD not in str(security)


def test_a_password_in_a_file(tmp_path: Path) -> None:
    """As orchestrators mount it: the line feed at its end is no part of it, nor is one that `echo`
    left in a variable, or a byte order mark.
    """
    file = tmp_path / "password"
    for text in (f"{PASSWORD}\n", f"\ufeff{PASSWORD}\r\n"):
        file.write_text(text, "utf-8")
        given = {**SASL, "KAFKA_SASL_PASSWORD": "", "KAFKA_SASL_PASSWORD_FILE": str(file)}
        assert broker_security(given).password == PASSWORD
    assert broker_security({**SASL, "KAFKA_SASL_PASSWORD": f"{PASSWORD}\n"}).password == PASSWORD
    for text in (f" {PASSWORD}", f"{PASSWORD}\nanother"):
        file.write_text(text)
        for changes in (given, {**SASL, "KAFKA_SASL_PASSWORD": text}):
            with pytest.raises(SlidestatError, match="begins with a blank, or has several lines"):
                broker_security(changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"KAFKA_SECURITY_PROTOCOL": "TLS"}, "KAFKA_SECURITY_PROTOCOL is 'TLS'"),
        ({"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT"}, "KAFKA_SASL_USERNAME is set"),
        ({"KAFKA_SECURITY_PROTOCOL": ""}, "KAFKA_SASL_USERNAME is set"),
        ({"KAFKA_SSL_CA_FILE": "x"}, "KAFKA_SSL_CA_FILE is set"),
        ({"KAFKA_SASL_MECHANISM": "GSSAPI"}, "KAFKA_SASL_MECHANISM is 'GSSAPI'"),
        ({"KAFKA_SASL_USERNAME": ""}, "KAFKA_SASL_USERNAME is not set"),
        ({"KAFKA_SASL_PASSWORD": ""}, "KAFKA_SASL_PASSWORD is not set"),
        ({"KAFKA_SASL_PASSWORD_FILE": "x"}, "Both KAFKA_SASL_PASSWORD and"),
        (
            {"KAFKA_SASL_PASSWORD": "", "KAFKA_SASL_PASSWORD_FILE": "/none/such"},
            "/none/such, which cannot be read",
        ),
        (
            {"KAFKA_SASL_PASSWORD": "", "KAFKA_SASL_PASSWORD_FILE": "/dev/null"},
            "/dev/null, which is empty",
        ),
    ],
)
def test_users_that_cannot_be(changes: dict[str, str], named: str) -> None:
    """Each mistake is refused by the name of its variable, and the password is not told."""
    with pytest.raises(SlidestatError) as refusal:
        broker_security({**SASL, **changes})
    assert named in refusal.value.message
    assert PASSWORD not in refusal.value.message + (refusal.value.advice or "")


def test_certificates_that_cannot_be(secured: Secured, tmp_path: Path) -> None:
    """Files that are missing, empty, of another kind, or that do not belong together."""
    right = secured.environment("SSL")
    empty = tmp_path / "empty"
    empty.touch()
    for changes, named in [
        ({"KAFKA_SSL_CA_FILE": "/none/such"}, "/none/such, which has no certificates"),
        ({"KAFKA_SSL_CA_FILE": str(empty)}, "which has no certificates"),
        ({"KAFKA_SSL_CA_FILE": "/dev/null"}, "which has no certificates"),
        ({"KAFKA_SSL_KEY_FILE": ""}, "KAFKA_SSL_CERTIFICATE_FILE is set, and KAFKA_SSL_KEY_FILE"),
        ({"KAFKA_SSL_CERTIFICATE_FILE": ""}, "KAFKA_SSL_KEY_FILE is set, and KAFKA_SSL_CERT"),
        ({"KAFKA_SSL_KEY_PASSWORD": "wrong"}, "cannot be used"),
        ({"KAFKA_SSL_KEY_PASSWORD": ""}, "cannot be used"),
        ({"KAFKA_SSL_CERTIFICATE_FILE": str(secured.ca_file)}, "cannot be used"),
        ({"KAFKA_SSL_KEY_FILE": str(empty)}, "cannot be used"),
    ]:
        with pytest.raises(SlidestatError) as refusal:
            broker_security({**right, **changes})
        assert named in refusal.value.message, refusal.value.message


def test_the_authorities_of_the_machine() -> None:
    """Without a CA file TLS trusts what the machine trusts, and still checks host names."""
    context = tls_context(broker_security({"KAFKA_SECURITY_PROTOCOL": "ssl"}))
    assert context.check_hostname


def test_java_takes_any_password() -> None:
    """A password with quotes, backslashes and semicolons stays one word of Java's login."""
    settings = java_settings(broker_security(SASL))
    assert settings["security.protocol"] == "SASL_PLAINTEXT"
    assert settings["sasl.jaas.config"].endswith(r'password="se\"cr\\et; =x";')
