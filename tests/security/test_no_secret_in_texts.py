"""No secret is in any text: messages, logs, stack traces, command lines, files."""

import io
import json
import logging
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
import typer
from hypothesis import given, settings, strategies as st

from slidestat import redaction
from slidestat.addresses import checked_address, keep_secrets_of, secret as secret_of
from slidestat.admin.alertmanager import _Alertmanager
from slidestat.cli.main import app, main
from slidestat.client import Client
from slidestat.engine.decoding.formats.source_schemas import framed
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client
from slidestat.kafka.schema_registry import SchemaRegistry
from slidestat.kafka.settings import broker_security
from slidestat.log import LogForm, log_event, log_exception, logging_to_stderr
from slidestat.redaction import keep_secret, redacted, without_user
from tests.broker.forked import ForkedProcess
from tests.broker.workers import produce, wait_until
from tests.registry.stand_in import stand_in
from tests.security.conftest import PASSWORD, Secured, environment_of

CANARY = "kanarien-vogel"
# What people have in passwords, and what parsers of addresses stumble over.
RAW = [f"{CANARY}", f"{CANARY}@{CANARY}", f"pa/{CANARY}", f"{CANARY}%25/rd", f"a#{CANARY}:{CANARY}"]
RAW += [f"a?{CANARY}", f"p ss{CANARY}", f"[{CANARY}", f"p%zz{CANARY}", f'"{CANARY}\\', f"ü{CANARY}"]


@pytest.fixture(autouse=True, scope="module")
def other_secrets() -> Iterator[None]:
    """The secrets of these tests are none of others."""
    before = redaction._forms, redaction._known
    redaction._forms = set()
    yield
    redaction._forms, redaction._known = before


def shown(password: str) -> list[str]:
    """What is told of addresses with this password."""
    texts = []

    def check(address: str) -> object:
        return checked_address(address, "schema registry", "http://host:port")

    def ask(address: str) -> object:
        return SchemaRegistry(address).look_up(1)

    for address in (
        *(f"{scheme}://svc:{password}@localhost:1" for scheme in ("https", "HTTP", "ftp", "mock")),
        f"svc:{password}@localhost:1",
        f"https://{password}@localhost:1",
        f"https://svc:{password}@localhost:port",
        f"https://svc:{password}@",
    ):
        texts.append(without_user(address))
        for use in (check, ask, admin_client):
            try:
                texts.append(str(use(address)))
            except SlidestatError as error:
                texts.append(f"{error} {error.message} {error.advice} {error!r}")
    return texts


@pytest.mark.parametrize("password", RAW)
def test_addresses_are_shown_without_users(password: str) -> None:
    """Whatever characters the password has: it is refused, or what a library says is cut."""
    for text in (*shown(password), *shown(quote(password, safe=""))):
        assert CANARY not in text, text


PARTS = [f"{CANARY}{number}" for number in range(4)]
"""None of them may be seen: a tail of a password is one, too."""
BETWEEN = [*"@/:#?[]%\\\"'<>,;&=+~ \tü☃", "%40", "%2f", "%25", "%zz", "://", "?a=", "&sig="]
ADDRESSES = [
    "http://svc:{}@127.0.0.1:1",
    "HTTPS://svc:{}@127.0.0.1:1",
    "http://:{}@127.0.0.1:1",
    "http://{}@127.0.0.1:1",
    "http://{}:@127.0.0.1:1",
    "http://svc:{}@[::1]:1",
    "svc:{}@127.0.0.1:1",
    "http:/svc:{}@127.0.0.1:1",
    "http:svc:{}@127.0.0.1:1",
    "//svc:{}@127.0.0.1:1",
    "  http://svc:{}@127.0.0.1:1\n",
    "http://one:first@127.0.0.1:1,http://svc:{}@127.0.0.1:2",
    "http://svc:{}@127.0.0.1:1, http://two:second@127.0.0.1:2",
    "http://svc:{}@127.0.0.1:port",
    "http://svc:{}@",
    "http://127.0.0.1:1/x?token={}",
    "http://127.0.0.1:1/x?code={}&a=b",
    "http://127.0.0.1:1/#access_token={}",
    "https://127.0.0.1:1/x?sv=1&sig={}",
    "https://127.0.0.1:1/x?X-Amz-Signature={}&a=b",
]
CONTEXT = ssl.create_default_context()
USES: list[Callable[[str], object]] = [
    lambda address: SchemaRegistry(address)._shown,
    admin_client,
    Client,
    lambda address: _Alertmanager(address, CONTEXT, print, has_credentials=False).url,
    lambda address: broker_security(_OAUTH | {"KAFKA_OAUTH_TOKEN_ENDPOINT": address}).protocol,
]
_OAUTH = {
    "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "KAFKA_SASL_MECHANISM": "OAUTHBEARER",
    "KAFKA_OAUTH_CLIENT_ID": "client",
    "KAFKA_OAUTH_CLIENT_SECRET": "its-secret",
}


@given(st.lists(st.sampled_from(BETWEEN), max_size=3), st.sampled_from(ADDRESSES), st.booleans())
@settings(deadline=None)
def test_no_part_of_a_secret_in_an_address_is_shown(
    between: list[str], address: str, is_escaped: bool
) -> None:
    """Whatever it is made of, wherever the address has it and whoever reads it: neither in what is
    said at once, nor in what a library says of it later.
    """
    secret = PARTS[0] + "".join(map("".join, zip(between, PARTS[1:], strict=False)))
    secret = quote(secret, safe="") if is_escaped else secret
    whole = address.format(secret)
    texts = [without_user(whole)]
    for use in USES:
        try:
            texts.append(str(use(whole)))
        except SlidestatError as error:
            texts.append(f"{error} {error!r}")
    for text in texts:
        assert CANARY not in text, text
    redaction._forms.clear()
    keep_secrets_of({"HTTPS_PROXY": address.format(PARTS[0] + PARTS[1])})
    assert CANARY not in redacted(f"a library: {PARTS[0] + PARTS[1]!r}") or "port" in address


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs"]), min_size=6))
def test_a_secret_is_cut_in_each_of_its_forms(secret: str) -> None:
    """As it is, escaped for an address, as a literal of Python's, Java's or JSON's."""
    redaction._forms.clear()
    keep_secret(secret)
    forms = [secret, quote(secret), quote(secret, safe=""), repr(secret), json.dumps(secret)]
    forms += [re.sub("%..", lambda found: found[0].lower(), quote(secret, safe=""))]
    forms += [ascii(secret), repr(secret.encode())[1:], escape(secret)]
    for form in forms:
        assert secret not in redacted(f"A library said: {form}, and more.")
        assert form.strip("\"'") not in redacted(f"A library said: {form}, and more.")


@pytest.mark.parametrize(
    "text",
    [
        f"https://svc:{CANARY}@localhost:8081 is away",
        f"GET http://{CANARY}@host/subjects",
        f'org.apache.kafka.ScramLoginModule required username="a" password="{CANARY}";',
        f'password="a\\"{CANARY}"; more',
        f"sasl.password={CANARY}, sasl.username=alice",
        f"ssl.key.password = {CANARY}".replace(" = ", "="),
        f"basic.auth.user.info=alice:{CANARY}",
        f"fs.s3a.secret.key={CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"Authorization: Basic {CANARY}==",
        f"it sent Basic {CANARY}",
        f"it sent Bearer authentication-{CANARY}",
        f"amqp://a:{CANARY}@one,amqp://a:{CANARY}@two",
        f"sc://host:15002/;token={CANARY};user_id=a",
        f"https://svc:pa/{CANARY}@localhost is away",
        f"svc:{CANARY}@localhost:8081 is away",
        f"s3a:/key:{CANARY}/{CANARY}@bucket/x",
        f"abfss://c@a.dfs.core.windows.net/x?sv=2020&sig={CANARY}%2F,{CANARY}",
        f"https://b.s3.amazonaws.com/k?X-Amz-Credential={CANARY}/x&X-Amz-Signature={CANARY}",
        f"fs.azure.account.key.acc.dfs.core.windows.net={CANARY}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={CANARY}==",
        f"{{'sasl.password': '{CANARY}', 'ssl.key.password': '{CANARY}'}}",
        f'{{"client_secret": "{CANARY}\\"{CANARY}"}}',
        f"Proxy-Authorization: ApiKey {CANARY}",
        f"api-key={CANARY}",
        f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{CANARY}\n-----END ENCRYPTED PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_cut(text: str) -> None:
    """Whether it was read by us or not."""
    assert CANARY not in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "The topology 'shop' has no key 'https://medium.com/@user'.",
        "The key 'a:b@c' is in several places.",
        "at 12:30:00 of requests/3, offset 7",
        "Set KAFKA_SASL_PASSWORD or KAFKA_SASL_PASSWORD_FILE.",
        "Send the header `Authorization: Bearer TOKEN`.",
        "Start one with `slidestat broker`, or see http://host:8080/@user.",
        "windows=[(1, 2)], top_k: token, sign=+1, key=a, passes=3",
        "The registry asks for Basic authentication, and no Basic credentials came.",
        "verify failed: Basic Constraints of CA cert not marked critical (_ssl.c:1000)",
        "Basic counting needs a window; Bearer authentication is not offered.",
    ],
)
def test_other_texts_stay(text: str) -> None:
    """Keys and advice look much like addresses and settings."""
    assert redacted(text) == text


def test_a_tenant_of_a_header_stays() -> None:
    """It is in names of topics, too. A short key is cut, by the name of its header."""
    redaction._forms.clear()
    keep_secrets_of({"OTEL_EXPORTER_OTLP_HEADERS": "x-scope-orgid=shop, api-key=s3cret"})
    assert redacted("shop-orders: s3cret") == "shop-orders: ***"


def test_a_secret_of_bytes_that_are_no_text() -> None:
    """As in a variable in Latin-1: no command ends in a stack trace for it, and none shows it."""
    redaction._forms.clear()
    password = os.fsdecode(f"{CANARY}\xfc{CANARY}".encode("latin-1"))
    name = "KAFKA_SASL_PASSWORD"
    keep_secrets_of({name: password, "https_proxy": f"http://svc:{password}@proxy:1"})
    for form in (password, f"{CANARY}%FC{CANARY}", repr(os.fsencode(password))):
        assert CANARY not in redacted(f"a library: {form}")
    with pytest.raises(SlidestatError, match="KAFKA_SASL_PASSWORD has bytes that are no UTF-8"):
        secret_of({name: password}, name)


@pytest.mark.parametrize(
    "part",
    [*"[a:@&", "a:", "://", "://a:", "a:b@", "?x-amz-", "x-amz-a", "account.key.", "secret"],
)
def test_long_texts_are_soon_read(part: str) -> None:
    """Whatever they are of: nobody can make a worker spend its time by a name or a key."""
    redaction._forms.clear()
    text = part * (50_000 // len(part)) + "@"
    before = time.process_time()
    redacted(text)
    assert time.process_time() - before < 3


@pytest.mark.parametrize("form", list(LogForm))
def test_a_log_has_no_secret(form: LogForm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in its events and their fields, nor in warnings of libraries and their traces."""
    secret = "of-this-log"
    keep_secret(secret)
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    factory = logging.getLogRecordFactory()
    library = logging.StreamHandler(written)
    logging.getLogger("library").addHandler(library)
    try:
        with logging_to_stderr(form):
            log_event("silent", f"at {secret}", address=f"http://a:{secret}@b", one=[secret])
            try:
                raise ValueError(secret)
            except ValueError:
                log_exception("stopped")
                logging.getLogger("library").exception("%s", {"password": secret})
    finally:
        logging.getLogger("library").removeHandler(library)
        logging.setLogRecordFactory(factory)
    assert "ValueError: ***" in written.getvalue()
    assert secret not in written.getvalue()


TOPOLOGY = """
name = "{name}"
source = "{source}"
source_format = "avro"
span = "1h"
every = "1m"
[[statistics]]
kind = "count"
"""

VARIABLES = {
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "KAFKA_SASL_USERNAME": "alice",
    "KAFKA_SASL_PASSWORD": f"{CANARY}-1",
    "SLIDESTAT_WEB_TOKEN": f"{CANARY}-2",
    "SCHEMA_REGISTRY_URL": f"http://alice:{CANARY}-3@127.0.0.1:1",
}
BROKEN = {
    "KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
    "SLIDESTAT_WEB_TOKEN": f"{CANARY} 2",
    "SCHEMA_REGISTRY_URL": f"alice:{CANARY}@3/@127.0.0.1:1",
    "KAFKA_BOOTSTRAP_SERVERS": f"sasl://alice:{CANARY}@127.0.0.1:1",
}
COMMANDS = [
    ("init", "src", "--yes"),
    ("run", "FILE"),
    ("run", "FILE", "--workers", "2"),
    ("run", "FILE", "--log", "json"),
    ("replay", "FILE"),
    ("watch", "FILE", "--once"),
    ("doctor", "FILE"),
    ("topics", "list"),
    ("topics", "create", "--topology", "FILE"),
    ("topology", "show", "FILE"),
    ("topology", "show", "FILE", "--json"),
    ("dlq", "show", "FILE"),
    ("produce", "FILE", "--topic", "src"),
    ("query", "FILE", "a", "--url", f"http://alice:{CANARY}@127.0.0.1:1"),
    ("query", "FILE", "a", "--url", f"alice:{CANARY}@127.0.0.1:1"),
    ("query", "FILE", "a", "--url", "http://127.0.0.1:1"),
    ("alertmanager", "FILE", "--url", f"http://alice:{CANARY}/@127.0.0.1:1"),
    ("alertmanager", "FILE", "--url", f"http://alice:{CANARY}@127.0.0.1:1"),
]


BUGS = """
import logging, sys, threading
from slidestat.cli import main
from slidestat.cli.main import app

class Away:
    def __del__(self): raise ValueError(VALUES)

@app.command()
def bug():
    logging.getLogger("library").warning("it is %s", VALUES)
    thread = threading.Thread(target=lambda: 1 / 0 if not VALUES else [][VALUES])
    thread.start()
    thread.join()
    Away()
    raise LookupError(VALUES)

import os
VALUES = " ".join(value for name, value in os.environ.items() if "kanarien" in value)
sys.argv = ["slidestat", "bug"]
main.main()
"""


def test_no_bug_tells_a_secret_of_any_variable() -> None:
    """Neither its trace, nor that of a thread or of a destructor, nor a library's warning: whether
    the command reads the variable or not.
    """
    ours = {f"{name}_PASSWORD": f"{CANARY}-{name}" for name in ("KAFKA_SASL", "SCHEMA_REGISTRY")}
    ours |= {
        "KAFKA_SSL_KEY_PASSWORD": f"{CANARY} with blanks \n",
        "KAFKA_OAUTH_CLIENT_SECRET": f'"{CANARY}\\',
        "KAFKA_OAUTH_TOKEN_ENDPOINT": f"https://host/token?code={CANARY}-of-azure",
        "ALERTMANAGER_TOKEN": f"{CANARY}-token",
        "SLIDESTAT_WEB_VIEW_TOKEN": f"{CANARY}-view",
        "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={CANARY}-otlp,x=Bearer%20{CANARY}%2F",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://{CANARY}-user@collector:4318",
        "AWS_SESSION_TOKEN": f"{CANARY}/aws+token==",
        "AWS_SECRET_ACCESS_KEY": f"{CANARY}/aws",
        "https_proxy": f"svc:{CANARY}/proxy@proxy:3128",
        "SCHEMA_REGISTRY_URL": f"https://a:{CANARY}%40@one,https://{CANARY}-two:@two:8081",
    }
    ended = subprocess.run(
        [sys.executable, "-c", BUGS],
        env=environment_of(ours),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stderr.count("Traceback") == 3
    assert "it is" in ended.stderr
    assert "LookupError" in ended.stderr
    assert CANARY not in ended.stdout + ended.stderr


def parameters(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each parameter of each command that ends by itself, and the command's words."""
    for name, one in getattr(command, "commands", {}).items():
        yield from parameters(one, (*path, name))
    if not hasattr(command, "commands") and path[0] not in ("broker", "demo"):
        yield from ((path, (command, parameter)) for parameter in command.params)


def arguments(command: Any, given: Any, value: str, file: Path) -> list[str]:
    """A command line with `value` for one parameter, and something for those that it must have."""
    usual = {"url": "http://127.0.0.1:1", "topology": str(file)}
    found = []
    for parameter in command.params:
        if parameter is given or parameter.required:
            text = value if parameter is given else usual.get(parameter.name, "x")
            option = parameter.opts[-1]
            found += [option, text] if option.startswith("-") else [text]
    return found


ANYWHERE = [
    f"http://svc:{CANARY}@{CANARY}@127.0.0.1:1/x?token={CANARY}&sig={CANARY}",
    f"svc:{CANARY}/{CANARY}@127.0.0.1:1",
    f"s3a://key:{CANARY}/{CANARY}@bucket/x?X-Amz-Signature={CANARY}",
]


@pytest.mark.parametrize(
    "value", [ANYWHERE[0], *(pytest.param(one, marks=pytest.mark.long) for one in ANYWHERE[1:])]
)
def test_no_parameter_of_any_command_tells_a_secret(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether it is one that takes an address, or the place of another one: also what the library
    says that reads command lines.
    """

    def no_spark(*_: object, **__: object) -> None:
        raise SlidestatError("Spark is not started here.")

    file = tmp_path / "t.toml"
    file.write_text(TOPOLOGY.format(name="t", source="src"))
    monkeypatch.setattr("slidestat.kafka.connection.require_broker.__defaults__", (0.1,))
    monkeypatch.setattr("slidestat.spark.session._started", no_spark)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    count = 0
    for path, (command, given_one) in parameters(typer.main.get_command(app)):
        if getattr(given_one, "is_flag", False):
            continue
        line = [*path, *arguments(command, given_one, value, file)]
        monkeypatch.setattr(sys, "argv", ["slidestat", *line])
        with pytest.raises(SystemExit):
            main()
        told = "".join(capfd.readouterr())
        assert CANARY not in told, (line, told)
        assert "Traceback" not in told, (line, told)
        count += 1
    assert count > 150


@pytest.mark.parametrize("changes", [pytest.param({}, marks=pytest.mark.long), BROKEN])
def test_no_command_tells_a_secret(
    changes: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command, with every setting that has a secret: where none answers, and where settings
    cannot be.
    """
    file = tmp_path / "t.toml"
    file.write_text(TOPOLOGY.format(name="t", source="src"))
    monkeypatch.chdir(tmp_path)
    for name in os.environ.keys() - (environment := environment_of(VARIABLES | changes)).keys():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    started = []
    for number, command in enumerate(COMMANDS):
        arguments = [str(file) if argument == "FILE" else argument for argument in command]
        with (tmp_path / f"{number}.told").open("wb") as output:
            # A process of each, without the second that each would import the same for.
            started.append(ForkedProcess(arguments, output))
    for number, (command, process) in enumerate(zip(COMMANDS, started, strict=True)):
        process.wait(120)
        told = (tmp_path / f"{number}.told").read_text()
        assert CANARY not in told, (command, told)
        assert "Traceback" not in told, (command, told)
        assert told, command


def command_lines() -> dict[int, str]:
    """Those of all processes, by number."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = (folder / "cmdline").read_text(errors="replace")
            except OSError:
                continue
    return found


def files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


@pytest.mark.parametrize(
    ("status", "said", "advice"),
    [
        (401, "knows no such user and password", "@ of a user or password as %40, / as %2F"),
        (403, "forbids this user what is asked", "Ask for the right to read schemas"),
        (404, "is no schema registry", "with its path if it has one"),
        (500, "in the backend", "Look at its log"),
    ],
)
def test_what_is_wrong_with_a_registry_is_told_apart(status: int, said: str, advice: str) -> None:
    """A user that it does not know, one that may not, another server, and one that fails."""
    with stand_in() as registry:
        registry.fail = status
        why = SchemaRegistry(registry.url.replace("//", "//svc:a%40b@")).look_up(1)
    assert why is not None
    assert said in why
    assert advice in why


def test_a_registry_of_a_private_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said names the variable that helps, and it does."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with stand_in() as registry:
        registry.schemas.append({"schema": '"long"'})
        registry.socket = context.wrap_socket(registry.socket, server_side=True)
        address = registry.url.replace("http://", "https://svc:a%40b@")
        why = SchemaRegistry(address).look_up(1)
        assert why is not None
        assert "is not trusted" in why
        assert "name its PEM file in SCHEMA_REGISTRY_CA_FILE" in why
        monkeypatch.setenv("SCHEMA_REGISTRY_CA_FILE", str(tmp_path / "ca.pem"))
        assert SchemaRegistry(address).look_up(1) is None


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("name", "by a name that is in its certificate"),
        ("expired", "Have the certificate renewed"),
        ("plain", "write http:// if that is right"),
        ("mutual", "asks for a certificate of its clients"),
    ],
)
def test_what_is_wrong_with_tls_has_its_own_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, said: str
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    until = datetime(2020, 1, 1, tzinfo=UTC) if trouble == "expired" else None
    name = "registry.example.org" if trouble == "name" else "127.0.0.1"
    authority.issue_cert(name, not_after=until).configure_cert(context)
    if trouble == "mutual":
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
    with stand_in() as registry:
        if trouble != "plain":
            registry.socket = context.wrap_socket(registry.socket, server_side=True)
        why = SchemaRegistry(registry.url.replace("http://", "https://")).look_up(1)
    assert why is not None
    assert said in why


def test_certificates_that_cannot_be_read_are_an_error_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").write_text("no certificate\n")
    for name in ("missing.pem", "empty.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / name))
        with pytest.raises(SlidestatError, match="SSL_CERT_FILE or SSL_CERT_DIR") as caught:
            SchemaRegistry("https://svc:secret-word@registry:8081")
        assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("status", [401, pytest.param(500, marks=pytest.mark.long)])
def test_no_worker_tells_a_secret(
    secured: Secured, secured_topic: str, tmp_path: Path, status: int
) -> None:
    """Workers of a parent, before a broker with users and a registry that does not let them in:
    neither the log nor a command line of a child nor the data have a password.
    """
    file = tmp_path / "t.toml"
    file.write_text(TOPOLOGY.format(name=f"t{secured_topic[-8:]}", source=secured_topic))
    data, log = tmp_path / "data", tmp_path / "log"
    variables = secured.environment("SASL_SSL") | {"SLIDESTAT_WEB_TOKEN": f"{CANARY}-token"}
    with stand_in() as registry, log.open("w") as out:
        registry.fail = status
        address = registry.url.replace("//", f"//svc:{CANARY}%40{CANARY}@")
        produce(secured.broker.bootstrap_servers, secured_topic, [(None, framed(7, b""))] * 3, 0)
        command = ["run", str(file), "--data-dir", str(data), "--workers", "1"]
        parent = subprocess.Popen(
            [sys.executable, "-m", "slidestat", *command, "--schema-registry", address],
            env=environment_of(variables),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            wait_until(lambda: "wait for schema 7" in log.read_text(), "a schema", 120)
            lines = command_lines()
        finally:
            parent.terminate()
            parent.wait(60)
    own = {number for number, line in lines.items() if str(data) in line} - {parent.pid}
    assert own, "the worker's process"
    for number in own:
        assert CANARY not in lines[number]
        assert PASSWORD not in lines[number]
    told = log.read_text()
    advice = {401: "%40", 500: "Look at its log"}[status]
    assert advice in re.search(r"wait for schema 7.*", told)[0]  # type: ignore[index]
    for path, content in (*files(data), (log, told.encode())):
        for secret in (CANARY, PASSWORD, json.dumps(PASSWORD)[1:-1]):
            assert secret.encode() not in content, path
    assert os.environ.get("SCHEMA_REGISTRY_URL") is None
