"""A broker with users and certificates of its own, beside the session's."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from slidestat.local.broker import LocalBroker

USER = "alice"
# What would break a configuration that is put together from text.
PASSWORD = 'se"cr\\et; =x'
KEY_PASSWORD = "of-the-key"

_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Secured:
    """A broker's secured addresses by protocol, and the files that its clients need."""

    broker: LocalBroker
    ca_file: Path
    certificate_file: Path
    key_file: Path
    other_ca_file: Path

    def environment(self, protocol: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """The variables of a client that is let in."""
        variables = {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.secured_servers(protocol),
            "KAFKA_SECURITY_PROTOCOL": protocol,
        }
        if protocol.startswith("SASL"):
            variables |= {
                "KAFKA_SASL_MECHANISM": mechanism,
                "KAFKA_SASL_USERNAME": USER,
                "KAFKA_SASL_PASSWORD": PASSWORD,
            }
        if protocol.endswith("SSL"):
            variables |= {"KAFKA_SSL_CA_FILE": str(self.ca_file)}
        if protocol == "SSL":
            variables |= {
                "KAFKA_SSL_CERTIFICATE_FILE": str(self.certificate_file),
                "KAFKA_SSL_KEY_FILE": str(self.key_file),
                "KAFKA_SSL_KEY_PASSWORD": KEY_PASSWORD,
            }
        return variables


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """TLS with certificates on both sides, and users with passwords in the clear and under TLS."""
    folder = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    ca_file = folder / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    other_ca_file = folder / "other-ca.pem"
    trustme.CA().cert_pem.write_to_path(other_ca_file)
    server = authority.issue_cert("127.0.0.1")
    server_file = folder / "server.pem"
    server_file.write_bytes(_key(server, None) + _chain(server))
    client = authority.issue_cert(f"{USER}@example.org")
    certificate_file, key_file = folder / "client.pem", folder / "client-key.pem"
    certificate_file.write_bytes(_chain(client))
    key_file.write_bytes(_key(client, KEY_PASSWORD))

    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    plain = f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{escaped}";'
    scram = f"{_LOGIN}.scram.ScramLoginModule required;"
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server_file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca_file),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        of_listener = f"listener.name.{listener}"
        settings |= {
            f"{of_listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            # A properties file takes each backslash for the start of an escape.
            f"{of_listener}.plain.sasl.jaas.config": plain.replace("\\", "\\\\"),
            f"{of_listener}.scram-sha-256.sasl.jaas.config": scram,
            f"{of_listener}.scram-sha-512.sasl.jaas.config": scram,
        }
    protocols = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
    with LocalBroker(secured_protocols=protocols, secured_settings=settings) as broker:
        make_user(broker.bootstrap_servers)
        yield Secured(broker, ca_file, certificate_file, key_file, other_ca_file)


def _chain(certificate: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in certificate.cert_chain_pems)


def _key(certificate: trustme.LeafCert, password: str | None) -> bytes:
    """The key in PKCS 8, the only form that Kafka's Java takes."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def make_user(bootstrap: str, name: str = USER, password: str = PASSWORD) -> None:
    """Make a user, or give one that there is another password."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        credential = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(mechanism, 4096), password.encode()
        )
        for future in admin.alter_user_scram_credentials([credential]).values():
            future.result(30)


RunSecured = Callable[..., "subprocess.CompletedProcess[str]"]


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without any of Kafka's variables but these."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    root = str(Path(__file__).parents[2] / "app")
    return others | {"PYTHONPATH": root, "COLUMNS": "300"} | dict(variables)


@contextmanager
def secured_worker(
    variables: Mapping[str, str], topology: Path, data: Path, said: Path
) -> "Iterator[subprocess.Popen[bytes]]":
    """A worker in that environment, which tells `said`; killed, if it runs yet when this ends."""
    with said.open("w") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", "slidestat", "run", str(topology), "--data-dir", str(data)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment_of(variables),
        )
    try:
        yield worker
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait()


@pytest.fixture
def run_secured() -> RunSecured:
    """`run_secured(variables, *arguments)` runs `slidestat` in that environment."""

    def run(variables: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "slidestat", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            env=environment_of(variables),
            check=False,
        )

    return run


@pytest.fixture
def secured_topic(secured: Secured, topic_name: str) -> str:
    """A new topic of two partitions."""
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap_servers})
    settings = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(topic_name, 2, 1, config=settings)])[topic_name].result(30)
    return topic_name
