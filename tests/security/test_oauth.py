"""Clients that brokers let in by tokens of an OAuth server (client credentials)."""

import asyncio
import base64
import json
import math
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import pytest
import trustme
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from slidestat.errors import SlidestatError
from slidestat.kafka.column_producer import bulk_producer
from slidestat.kafka.connection import require_broker
from slidestat.kafka.fetches.partition_range import PartitionRange, read_range
from slidestat.kafka.oauth import TokenProvider, _life_s
from slidestat.kafka.settings import CarriedSecurity, broker_security, client_config, java_settings
from slidestat.local.broker import LocalBroker
from slidestat.local.java import find_java
from tests.broker.workers import wait_until
from tests.security.conftest import RunSecured, secured_worker

# What breaks a form, a header, a properties file and a login of Java's that are put together.
CLIENT = "svc-stat +1%"
SECRET = 'canary%se"cr\\et&=+;'
AUDIENCE = "kafka"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_JAVA = "org.apache.kafka.common.security.oauthbearer"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class TokenServer:
    """A server of signed tokens; `life_s` of each, what it answers instead, and how many bytes of
    an answer it leaves out may change.
    """

    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    life_s: int = 3600
    fault: tuple[int, bytes] | None = None
    left_out: int = 0
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    address: str = ""

    def key_set(self) -> str:
        numbers = self.key.public_key().public_numbers()
        exponent, modulus = (
            _text(n.to_bytes((n.bit_length() + 7) // 8, "big")) for n in (numbers.e, numbers.n)
        )
        one = {"kty": "RSA", "kid": "k", "use": "sig", "alg": "RS256", "n": modulus, "e": exponent}
        return json.dumps({"keys": [one]})

    def token(self) -> str:
        now = int(time.time())
        claims = {"sub": "stat", "aud": AUDIENCE, "iat": now, "exp": now + self.life_s}
        head = {"alg": "RS256", "kid": "k", "typ": "JWT"}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (head, claims))
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"

    def answer(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, bytes]:
        self.asked.append(dict(form))
        if self.fault is not None:
            return self.fault
        user = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        # Clients differ in whether they encode both before they make the header.
        if (CLIENT, SECRET) not in [(user[0], user[2]), tuple(map(unquote_plus, user[::2]))]:
            said = {"error": "invalid_client", "error_description": "no such client"}
            return 401, json.dumps(said).encode()
        if form.get("grant_type") != ["client_credentials"]:
            return 400, b'{"error": "unsupported_grant_type"}'
        found = {"access_token": self.token(), "expires_in": self.life_s, "token_type": "Bearer"}
        return 200, json.dumps(found).encode()


@contextmanager
def serving(tokens: TokenServer, certificate: trustme.LeafCert | None) -> Iterator[TokenServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, answer = tokens.answer(self.headers["Authorization"], parse_qs(body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer) + tokens.left_out))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    scheme = "http" if certificate is None else "https"
    tokens.address = f"{scheme}://127.0.0.1:{server.server_address[1]}/token"
    try:
        yield tokens
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def variables_of(tokens: TokenServer, **others: str) -> dict[str, str]:
    return {
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_MECHANISM": "OAUTHBEARER",
        "KAFKA_OAUTH_TOKEN_ENDPOINT": tokens.address,
        "KAFKA_OAUTH_CLIENT_ID": CLIENT,
        "KAFKA_OAUTH_CLIENT_SECRET": SECRET,
        "KAFKA_OAUTH_SCOPE": "kafka all",
        "KAFKA_OAUTH_EXTENSIONS": "logicalCluster=lkc-1, identityPoolId=pool-2",
    } | others


# The provider, alone.


def token_of(provider: TokenProvider) -> str:
    return asyncio.run(provider.token())


def security_of(tokens: TokenServer, **others: str) -> CarriedSecurity:
    return CarriedSecurity.of(broker_security(variables_of(tokens, **others)))


def test_a_token_is_fetched_once_and_again_before_it_ends() -> None:
    with serving(TokenServer(), None) as tokens:
        provider = TokenProvider(security_of(tokens))
        first = token_of(provider)
        assert [token_of(provider) for _ in range(5)] == [first] * 5
        assert tokens.asked == [{"grant_type": ["client_credentials"], "scope": ["kafka all"]}]
        assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}
        provider._renewed_at = 0
        tokens.fault = 503, b"away"
        assert token_of(provider) == first, "it is good until its end"
        provider._ends_at = 0
        with pytest.raises(KafkaConnectionError, match="503"):
            token_of(provider)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ((401, b'{"error": "invalid_client"}'), "401 invalid_client"),
        ((500, b"<html>"), "500 Internal Server Error"),
        ((200, b"<html>"), "Expecting value"),
        ((200, b"[]"), "no access_token"),
        ((200, b'{"access_token": 7}'), "no access_token"),
        ((200, b"[" * 90_000), "recursion"),
        ((500, b"[" * 9_000), "500 Internal Server Error"),
    ],
)
def test_a_server_that_gives_no_token(fault: tuple[int, bytes], told: str) -> None:
    with serving(TokenServer(fault=fault), None) as tokens:
        with pytest.raises(KafkaConnectionError, match=told) as error:
            token_of(TokenProvider(security_of(tokens)))
        assert "canary" not in str(error.value)
    with pytest.raises(KafkaConnectionError, match="refused"):
        token_of(TokenProvider(security_of(tokens)))


def test_an_answer_that_breaks_off() -> None:
    """The token that there is serves until its end."""
    with serving(TokenServer(), None) as tokens:
        provider = TokenProvider(security_of(tokens))
        first = token_of(provider)
        provider._renewed_at, tokens.left_out = 0, 9
        assert token_of(provider) == first
        provider._ends_at = 0
        with pytest.raises(KafkaConnectionError, match="9 more expected"):
            token_of(provider)


def test_the_life_of_a_token_is_its_own_where_the_answer_has_none() -> None:
    tokens = TokenServer(life_s=100)
    for found, least, most in [
        ({"access_token": tokens.token()}, 98, 101),
        ({"access_token": tokens.token(), "expires_in": "50"}, 50, 50),
        ({"access_token": "opaque"}, 0, 0),
    ]:
        tokens.fault = 200, json.dumps(found).encode()
        with serving(tokens, None):
            provider = TokenProvider(security_of(tokens))
            before = time.monotonic()
            token_of(provider)
            assert least - 1 <= provider._ends_at - before <= most + 5


@pytest.mark.parametrize(
    "given",
    [None, True, "", "soon", "9" * 5_000, "1e999", 10**400, math.inf, -math.inf, math.nan, [50]],
    ids=lambda it: str(it)[:9],
)
def test_a_life_that_is_no_number(given: object) -> None:
    """Or has no end: the token's own is taken."""
    token = TokenServer(life_s=1_000).token()
    assert 900 < _life_s({"expires_in": given}, token) <= 1_000
    assert _life_s({"expires_in": given}, "opaque") == 0


@pytest.mark.parametrize(("given", "life_s"), [(49.5, 49.5), ("49.5", 49.5), (0, 0), (-50, -50)])
def test_a_life_that_is_any_number(given: object, life_s: float) -> None:
    assert _life_s({"expires_in": given}, "opaque") == life_s


@pytest.mark.parametrize(
    "claims",
    [b'{"exp":1e999}', b'{"exp":%d}' % 10**400, b'{"exp":null}', b"[]", b"\xff", b"[" * 90_000],
    ids=lambda it: str(it)[:9],
)
def test_a_token_that_says_nothing_of_its_life(claims: bytes) -> None:
    assert _life_s({}, f"head.{_text(claims)}.sign") == 0


def test_an_authority_of_its_own(tmp_path: Path) -> None:
    authority = trustme.CA()
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)
    with serving(TokenServer(), authority.issue_cert("127.0.0.1")) as tokens:
        assert token_of(TokenProvider(security_of(tokens, KAFKA_OAUTH_CA_FILE=str(file))))
        with pytest.raises(KafkaConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            token_of(TokenProvider(security_of(tokens)))


# The settings.


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"KAFKA_OAUTH_CLIENT_SECRET": ""}, "KAFKA_OAUTH_CLIENT_SECRET is not set"),
        ({"KAFKA_OAUTH_TOKEN_ENDPOINT": ""}, "KAFKA_OAUTH_TOKEN_ENDPOINT is not set"),
        ({"KAFKA_OAUTH_TOKEN_ENDPOINT": "login.example.org"}, "no address of a server"),
        ({"KAFKA_OAUTH_TOKEN_ENDPOINT": "https://u:canary@h/t"}, "with a user in it"),
        ({"KAFKA_SASL_PASSWORD": "x-password"}, "KAFKA_SASL_PASSWORD is set"),
        ({"KAFKA_SASL_MECHANISM": "PLAIN"}, "KAFKA_OAUTH_TOKEN_ENDPOINT is set"),
        ({"KAFKA_SECURITY_PROTOCOL": "SSL"}, "is set, and KAFKA_SECURITY_PROTOCOL is SSL"),
        ({"KAFKA_OAUTH_EXTENSIONS": "logicalCluster"}, "no extension"),
        ({"KAFKA_OAUTH_CA_FILE": "/nowhere.pem"}, "no certificates"),
    ],
)
def test_settings_that_cannot_be(changed: dict[str, str], told: str) -> None:
    with pytest.raises(SlidestatError) as error:
        security_of(TokenServer(address="https://login.example.org/token"), **changed)
    assert told in str(error.value)
    assert "canary" not in f"{error.value} {error.value.advice}"


# Real clients.


@dataclass(frozen=True)
class Guarded:
    """A broker that takes tokens, and the server of these; sessions end with their tokens."""

    broker: LocalBroker
    tokens: TokenServer

    def variables(self, **others: str) -> dict[str, str]:
        address = self.broker.secured_servers("SASL_PLAINTEXT")
        return variables_of(self.tokens, KAFKA_BOOTSTRAP_SERVERS=address) | others


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with serving(TokenServer(), None) as tokens, pytest.MonkeyPatch.context() as patch:
        keys = tmp_path_factory.mktemp("oauth") / "keys.json"
        keys.write_text(tokens.key_set())
        patch.setenv("JDK_JAVA_OPTIONS", f"-D{_ALLOWED}={keys.as_uri()}")
        of = "listener.name.sasl_plaintext"
        settings = {
            f"{of}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{of}.oauthbearer.connections.max.reauth.ms": "3600000",
            f"{of}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{of}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{of}.oauthbearer.sasl.server.callback.handler.class": f"{_JAVA}."
            "OAuthBearerValidatorCallbackHandler",
            f"{of}.oauthbearer.sasl.jaas.config": f"{_JAVA}.OAuthBearerLoginModule required;",
        }
        protocols = ("SASL_PLAINTEXT",)
        with LocalBroker(secured_protocols=protocols, secured_settings=settings) as broker:
            yield Guarded(broker, tokens)


def test_a_worker_outlives_its_tokens(
    guarded: Guarded, topic_name: str, run_secured: RunSecured, tmp_path: Path
) -> None:
    """Every client is let in, also when the first token has ended and sessions were closed."""
    admin = AdminClient({"bootstrap.servers": guarded.broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(30)
    topology = tmp_path / "t.toml"
    topology.write_text(
        f'name = "{topic_name}"\nsource = "{topic_name}"\nspan = "1h"\nevery = "1m"\n'
        '[[statistics]]\nkind = "count"\n'
    )
    listed = run_secured(guarded.variables(), "topics", "list")
    assert topic_name in listed.stdout, listed.stderr

    producer = Producer({"bootstrap.servers": guarded.broker.bootstrap_servers, "log_level": 0})

    def produce(first: int) -> None:
        for i in range(first, first + 200):
            event = {"key": "k", "time": 1_700_000_000_000 + 1_000 * i, "value": 1}
            producer.produce(topic_name, json.dumps(event).encode())
        producer.flush()

    guarded.tokens.life_s = 6
    said = tmp_path / "said"
    with secured_worker(guarded.variables(), topology, tmp_path / "data", said) as worker:

        def counts(least: int) -> bool:
            assert worker.poll() is None, said.read_text()
            watch = "watch", str(topology), "--once", "--json", "--from-beginning"
            return run_secured(guarded.variables(), *watch).stdout.count("\n") >= least

        produce(0)
        wait_until(lambda: counts(3), "emissions", 120)
        asked = len(guarded.tokens.asked)
        time.sleep(12)
        produce(200)
        wait_until(lambda: counts(6), "emissions of later tokens", 120)
        assert len(guarded.tokens.asked) > asked
        worker.terminate()
        assert worker.wait(30) == 0, said.read_text()
    guarded.tokens.life_s = 3600
    assert "canary" not in said.read_text()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"KAFKA_OAUTH_CLIENT_ID": "somebody"}, "no such client"),
        ({"KAFKA_OAUTH_TOKEN_ENDPOINT": "http://127.0.0.1:9/token"}, "127.0.0.1:9"),
    ],
)
def test_whom_the_broker_does_not_let_in(
    guarded: Guarded, run_secured: RunSecured, changed: dict[str, str], told: str
) -> None:
    run = run_secured(guarded.variables(**changed), "topics", "list")
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stderr.startswith("error: No token for the client "), run.stderr
    assert told in run.stderr, run.stderr
    assert "server of tokens" in run.stderr
    assert run.stderr.count("\n") == 2
    assert "canary" not in run.stderr


def test_signed_tokens_let_all_clients_in(
    guarded: Guarded, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Amazon MSK's: here they are signed as this broker wants them. Whom it does not know is
    told what to check.
    """
    for name, value in guarded.variables(KAFKA_SASL_MECHANISM="AWS_MSK_IAM").items():
        if not name.startswith("KAFKA_OAUTH"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    address = guarded.variables()["KAFKA_BOOTSTRAP_SERVERS"]
    admin = AdminClient({"bootstrap.servers": guarded.broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(30)
    signed = SimpleNamespace(token=lambda: (guarded.tokens.token(), time.time() + 300))
    with monkeypatch.context() as patch:
        for module in ("msk", "oauth"):
            patch.setattr(f"slidestat.kafka.{module}.msk_signer", lambda _: signed)
        assert topic_name in require_broker(address).topics
        producer = bulk_producer(address)
        producer.produce(topic_name, 0, b"k", b"v", 0)
        asyncio.run(producer.flush())
        wanted = PartitionRange(topic_name, 0, 0, 1)
        (columns,) = read_range(address, CarriedSecurity.of(broker_security()), wanted, 10)
        assert list(columns.values) == [b"v"]
        signed.token = lambda: ("aHR0cHM6Ly9rYWZrYS5l", time.time() + 300)
        with pytest.raises(SlidestatError, match="AWS's identity of this process is not let in"):
            require_broker(address)


def test_a_client_of_javas_is_let_in(guarded: Guarded, tmp_path: Path) -> None:
    """The settings that Spark gets, in Kafka's own command."""
    security = broker_security(guarded.variables())
    lines = [
        f"{name}={value}".replace("\\", "\\\\") for name, value in java_settings(security).items()
    ]
    config = tmp_path / "client.properties"
    config.write_text("\n".join(lines))
    jars = os.pathsep.join(map(str, guarded.broker._classpath))
    run = subprocess.run(
        [
            *(find_java().executable, "-cp", jars, f"-D{_ALLOWED}={guarded.tokens.address}"),
            *("kafka.admin.ConfigCommand", "--command-config", config),
            *("--bootstrap-server", guarded.variables()["KAFKA_BOOTSTRAP_SERVERS"]),
            *("--describe", "--entity-type", "brokers", "--entity-name", "1"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Dynamic configs for broker 1" in run.stdout, run.stdout + run.stderr


def test_another_mechanism_than_the_listener_has(guarded: Guarded, run_secured: RunSecured) -> None:
    variables = {
        "KAFKA_BOOTSTRAP_SERVERS": guarded.variables()["KAFKA_BOOTSTRAP_SERVERS"],
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_USERNAME": "alice",
        "KAFKA_SASL_PASSWORD": "canary",
    }
    run = run_secured(variables, "topics", "list")
    assert run.returncode == 2, run.stdout + run.stderr
    assert "does not offer PLAIN" in run.stderr, run.stderr


def test_the_settings_of_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables_of(TokenServer(address="https://h/t")).items():
        monkeypatch.setenv(name, value)
    config = client_config("h:1")
    assert config["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1,identityPoolId=pool-2"
    assert config["sasl.oauthbearer.client.secret"] == SECRET
    assert "https.ca.location" not in config
