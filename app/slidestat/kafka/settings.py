"""The security settings of the brokers' clients, from the environment.

Variables and files only: a command line can be seen by every process of the machine. A password in
a file, as orchestrators mount secrets, is read when a process starts.
"""

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slidestat.addresses import secret
from slidestat.errors import SlidestatError
from slidestat.redaction import without_user

PROTOCOL = "KAFKA_SECURITY_PROTOCOL"
MECHANISM = "KAFKA_SASL_MECHANISM"
USERNAME = "KAFKA_SASL_USERNAME"
PASSWORD = "KAFKA_SASL_PASSWORD"  # noqa: S105  a variable's name
CA_FILE = "KAFKA_SSL_CA_FILE"
CERTIFICATE_FILE = "KAFKA_SSL_CERTIFICATE_FILE"
KEY_FILE = "KAFKA_SSL_KEY_FILE"
KEY_PASSWORD = "KAFKA_SSL_KEY_PASSWORD"  # noqa: S105  a variable's name

TOKEN_ENDPOINT = "KAFKA_OAUTH_TOKEN_ENDPOINT"  # noqa: S105  a variable's name
CLIENT_ID = "KAFKA_OAUTH_CLIENT_ID"
CLIENT_SECRET = "KAFKA_OAUTH_CLIENT_SECRET"  # noqa: S105  a variable's name
SCOPE = "KAFKA_OAUTH_SCOPE"
EXTENSIONS = "KAFKA_OAUTH_EXTENSIONS"
OAUTH_CA_FILE = "KAFKA_OAUTH_CA_FILE"

REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTH = "OAUTHBEARER"
MSK = "AWS_MSK_IAM"
_OF_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*_OF_PASSWORDS, OAUTH, MSK)

_OF_USERS = (USERNAME, PASSWORD)
_OF_OAUTH = (TOKEN_ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, EXTENSIONS, OAUTH_CA_FILE)
_OF_SASL = (MECHANISM, *_OF_USERS, *_OF_OAUTH)
_OF_TLS = (CA_FILE, CERTIFICATE_FILE, KEY_FILE, KEY_PASSWORD)


@dataclass(frozen=True)
class BrokerSecurity:
    """The settings of a client's connection; no secret is ever in its text.

    `ca_file` None means the certificate authorities that the machine trusts.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    oauth_ca_file: Path | None = None
    region: str | None = None

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def has_oauth(self) -> bool:
        return self.mechanism == OAUTH

    @property
    def has_msk(self) -> bool:
        return self.mechanism == MSK

    @property
    def wire_mechanism(self) -> str | None:
        """The mechanism between clients and brokers; for MSK's IAM it is OAUTHBEARER."""
        return OAUTH if self.has_msk else self.mechanism

    @property
    def user(self) -> str | None:
        """The user name of this client, at the brokers or at the server of tokens."""
        return self.client_id if self.has_oauth else self.username


def broker_security(environment: Mapping[str, str] = os.environ) -> BrokerSecurity:
    """Return the settings of the environment; raises SlidestatError for such as cannot be.

    A password is in its variable, or in the file named by the variable with _FILE appended to its
    name. Files of certificates and keys are PEM; they are read once, so that a wrong one is refused
    here and not in the depths of three clients.
    """
    protocol = environment.get(PROTOCOL, "").upper() or None
    if protocol is not None and protocol not in PROTOCOLS:
        raise SlidestatError(
            f"{PROTOCOL} is {environment[PROTOCOL]!r}, which is no protocol of Kafka's.",
            f"It is one of {', '.join(PROTOCOLS)}.",
        )
    security = BrokerSecurity(protocol or "PLAINTEXT")
    _refuse_what_has_no_effect(environment, security)
    if security.has_sasl:
        security = _with_sasl(environment, security)
    if security.has_tls:
        security = _with_tls(environment, security)
    return security


def tls_context(security: BrokerSecurity) -> ssl.SSLContext:
    """Return Python's TLS context with these files; SlidestatError where they cannot be used."""
    context = trusting(CA_FILE, security.ca_file, "brokers'")
    if security.certificate_file is not None:
        try:
            context.load_cert_chain(
                security.certificate_file, security.key_file, lambda: security.key_password or ""
            )
        except (OSError, ssl.SSLError) as error:
            raise SlidestatError(
                f"The certificate {security.certificate_file} and the key {security.key_file}"
                f" cannot be used: {_reason(error)}.",
                f"{CERTIFICATE_FILE} and {KEY_FILE} are PEM files that belong together;"
                f" an encrypted key needs {KEY_PASSWORD} or {KEY_PASSWORD}_FILE.",
            ) from None
    return context


def _refuse_what_has_no_effect(environment: Mapping[str, str], security: BrokerSecurity) -> None:
    """Refuse settings that have no effect: a password given for a connection that would go without
    it is a mistake, not a detail.
    """
    for needed, names, protocols in (
        (security.has_sasl, _OF_SASL, "SASL_SSL or SASL_PLAINTEXT"),
        (security.has_tls, _OF_TLS, "SSL or SASL_SSL"),
    ):
        if not needed:
            _refuse_unused(environment, names, PROTOCOL, security.protocol, protocols)


def _refuse_unused(
    environment: Mapping[str, str], names: Sequence[str], setting: str, value: str, using: str
) -> None:
    """Refuse each of these variables, which this value of a setting does not use, as `using` do."""
    for name in (name for plain in names for name in (plain, f"{plain}_FILE")):
        if environment.get(name):
            raise SlidestatError(
                f"{name} is set, and {setting} is {value}, which does not use it.",
                f"Set {setting} to {using}, or unset {name}.",
            )


def _with_sasl(environment: Mapping[str, str], security: BrokerSecurity) -> BrokerSecurity:
    mechanism = (environment.get(MECHANISM) or "PLAIN").upper()
    if mechanism not in MECHANISMS:
        raise SlidestatError(
            f"{MECHANISM} is {environment[MECHANISM]!r}, which is not supported.",
            f"It is one of {', '.join(MECHANISMS)}.",
        )
    if mechanism not in _OF_PASSWORDS:
        _refuse_unused(environment, _OF_USERS, MECHANISM, mechanism, " or ".join(_OF_PASSWORDS))
    if mechanism != OAUTH:
        _refuse_unused(environment, _OF_OAUTH, MECHANISM, mechanism, OAUTH)
    if mechanism == OAUTH:
        return _with_oauth(environment, security)
    if mechanism == MSK:
        return _with_msk(environment, security)
    username, password = environment.get(USERNAME), secret(environment, PASSWORD)
    if not username or not password:
        missing = PASSWORD if username else USERNAME
        raise SlidestatError(
            f"{PROTOCOL} is {security.protocol}, and {missing} is not set.",
            f"Set {USERNAME}, and {PASSWORD} or {PASSWORD}_FILE.",
        )
    return replace(security, mechanism=mechanism, username=username, password=password)


def _with_msk(environment: Mapping[str, str], security: BrokerSecurity) -> BrokerSecurity:
    region = next(filter(None, map(environment.get, REGIONS)), "")
    if not re.fullmatch(r"[a-z]+(-[a-z]+)+-\d+", region):
        found = f"{REGIONS[0]} is {region!r}, which is no region" if region else "it is not set"
        raise SlidestatError(
            f"{MECHANISM} is {MSK}, which needs the region of the brokers, and {found}.",
            f"Set {REGIONS[0]} to what the brokers' addresses have before amazonaws.com, such as"
            " eu-west-1.",
        )
    return replace(security, mechanism=MSK, region=region)


def _with_oauth(environment: Mapping[str, str], security: BrokerSecurity) -> BrokerSecurity:
    needed = {name: environment.get(name) for name in (TOKEN_ENDPOINT, CLIENT_ID)}
    needed[CLIENT_SECRET] = secret(environment, CLIENT_SECRET)
    for name, value in needed.items():
        if not value:
            raise SlidestatError(
                f"{MECHANISM} is {OAUTH}, and {name} is not set.",
                f"Set {TOKEN_ENDPOINT}, {CLIENT_ID}, and {CLIENT_SECRET} or {CLIENT_SECRET}_FILE.",
            )
    endpoint = needed[TOKEN_ENDPOINT] or ""
    if not re.fullmatch(r"https?://[^\s/@]+(/[^\s@]*)?", endpoint):
        raise SlidestatError(
            f"{TOKEN_ENDPOINT} is {without_user(endpoint)!r}, "
            + ("with a user in it." if "@" in endpoint else "which is no address of a server."),
            'Write it as "https://HOST/PATH"; the client and its secret have variables of their'
            f" own, {CLIENT_ID} and {CLIENT_SECRET}.",
        )
    without_user(endpoint)  # Its parameters are kept secret.
    authority = file_of(environment, OAUTH_CA_FILE)
    trusting(OAUTH_CA_FILE, authority, "server's")
    return replace(
        security,
        mechanism=OAUTH,
        token_endpoint=endpoint,
        client_id=needed[CLIENT_ID],
        client_secret=needed[CLIENT_SECRET],
        scope=environment.get(SCOPE) or None,
        extensions=_extensions(environment.get(EXTENSIONS) or ""),
        oauth_ca_file=authority,
    )


def _extensions(text: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of "name=value,name=value", as brokers take them (RFC 7628, section 3.1)."""
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, _, value in pairs:
        if not re.fullmatch(r"[A-Za-z]+", name) or not value.isprintable() or not value:
            raise SlidestatError(
                f"{EXTENSIONS} has {name!r}, which is no extension.",
                'Write it as "name=value,name=value"; names are letters.',
            )
    return tuple((name, value) for name, _, value in pairs)


def trusting(variable: str, path: Path | None, signer: str) -> ssl.SSLContext:
    """Return a context that trusts the authority in a file, or those that the machine trusts."""
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise SlidestatError(
            f"{variable} names {path}, which has no certificates: {_reason(error)}.",
            f"Give a PEM file with the certificates of the authority that signed the {signer}.",
        ) from None


def _with_tls(environment: Mapping[str, str], security: BrokerSecurity) -> BrokerSecurity:
    certificate, key = file_of(environment, CERTIFICATE_FILE), file_of(environment, KEY_FILE)
    if (certificate is None) != (key is None):
        present, missing = (
            (CERTIFICATE_FILE, KEY_FILE) if key is None else (KEY_FILE, CERTIFICATE_FILE)
        )
        raise SlidestatError(
            f"{present} is set, and {missing} is not.", "A client's certificate goes with its key."
        )
    secured = replace(
        security,
        ca_file=file_of(environment, CA_FILE),
        certificate_file=certificate,
        key_file=key,
        key_password=secret(environment, KEY_PASSWORD),
    )
    tls_context(secured)
    return secured


def file_of(environment: Mapping[str, str], name: str) -> Path | None:
    path = environment.get(name)
    return Path(path) if path else None


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    if isinstance(error, ssl.SSLError):
        return error.reason.lower().replace("_", " ") if error.reason else "no PEM"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


# The same settings in the words of each client: librdkafka's, and those of Kafka's Java clients.
#
# Faust's are in `app/slidestat/faust/worker/app.py`.

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


_OAUTH_JAVA = "org.apache.kafka.common.security.oauthbearer"
_MSK_JAVA = "software.amazon.msk.auth.iam"


def client_config(bootstrap: str) -> dict[str, Any]:
    """Return the address and security of a librdkafka client, from the environment.

    librdkafka writes each refused connection to standard error by itself; errors that matter reach
    the user as exceptions and delivery reports, so its own log is off. Raises SlidestatError for
    settings that cannot be.
    """
    security = broker_security()
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "client.id": "slidestat",
        "log_level": 0,
        # A broker may make a topic that was deleted anew, as a producer asks for it, with one
        # partition and its own settings; ours are made with theirs.
        "allow.auto.create.topics": "false",
        "security.protocol": security.protocol,
    }
    optional = {
        "sasl.mechanism": security.wire_mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password,
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.key_file,
        "ssl.key.password": security.key_password,
    }
    if security.has_oauth:
        extensions = ",".join(f"{name}={value}" for name, value in security.extensions)
        optional |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.token_endpoint,
            "sasl.oauthbearer.client.id": security.client_id,
            "sasl.oauthbearer.client.secret": security.client_secret,
            "sasl.oauthbearer.scope": security.scope,
            "sasl.oauthbearer.extensions": extensions or None,
            "https.ca.location": security.oauth_ca_file,
        }
    if security.region is not None:
        # A client waits 10 s for a token: what keeps it from having one is raised here.
        from slidestat.kafka.msk import msk_signer

        signer = msk_signer(security.region)
        signer.token()
        settings["oauth_cb"] = lambda _: signer.token()
    return settings | {name: str(value) for name, value in optional.items() if value is not None}


def java_settings(security: BrokerSecurity) -> dict[str, str]:
    """Return the same settings for Kafka's Java clients, which Spark's connector uses.

    Secrets are among the values: hand them over in memory, and keep them out of logs. Certificates
    go as text, since Java wants a certificate and its key in one.
    """
    settings = {"security.protocol": security.protocol}
    if security.has_oauth:
        settings |= _java_oauth(security)
    elif security.has_msk:
        # Spark must have aws-msk-iam-auth, of which these classes are.
        settings |= {
            "sasl.mechanism": MSK,
            "sasl.jaas.config": f"{_MSK_JAVA}.IAMLoginModule required;",
            "sasl.client.callback.handler.class": f"{_MSK_JAVA}.IAMClientCallbackHandler",
        }
    elif security.mechanism is not None:
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


def _java_oauth(security: BrokerSecurity) -> dict[str, str]:
    options = {"clientId": security.client_id or "", "clientSecret": security.client_secret or ""}
    if security.scope:
        options["scope"] = security.scope
    options |= {f"extension_{name}": value for name, value in security.extensions}
    if security.oauth_ca_file is not None:
        # The text, as an executor may not have the file.
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = " ".join(
            security.oauth_ca_file.read_text("ascii").split("\n")
        )
    login = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return {
        "sasl.mechanism": OAUTH,
        "sasl.oauthbearer.token.endpoint.url": security.token_endpoint or "",
        "sasl.oauthbearer.header.urlencode": "true",
        "sasl.login.callback.handler.class": f"{_OAUTH_JAVA}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f"{_OAUTH_JAVA}.OAuthBearerLoginModule required {login};",
    }


def _quoted(text: str) -> str:
    """Return a string in the syntax of Java's login configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# The brokers' security settings with what their files hold, for a process on another machine.

_FILES = ("ca_file", "certificate_file", "key_file", "oauth_ca_file")


@dataclass(frozen=True)
class CarriedSecurity:
    """The security settings with the contents of certificates and keys, for other machines; printed
    without any secret.
    """

    settings: BrokerSecurity
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, settings: BrokerSecurity) -> "CarriedSecurity":
        """Read the files that the settings name."""
        paths = {name: getattr(settings, name) for name in _FILES}
        contents = {name: path.read_bytes() for name, path in paths.items() if path is not None}
        return cls(settings, contents)

    def tls_context(self) -> ssl.SSLContext | None:
        """Make Python's TLS context, None for connections without TLS. Python reads a certificate
        and its key from files alone: they are there for a moment, for this user.
        """
        if not self.settings.has_tls:
            return None
        with TemporaryDirectory(prefix="slidestat-tls-") as folder:
            paths: dict[str, Any] = {}
            for name, content in self.contents.items():
                paths[name] = Path(folder) / name
                paths[name].write_bytes(content)
            return tls_context(replace(self.settings, **paths))
