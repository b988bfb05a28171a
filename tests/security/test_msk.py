"""Tokens for Amazon MSK: signed with made-up credentials, and what keeps one from being signed."""

import asyncio
import base64
import sys
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from aiokafka.errors import KafkaConnectionError

from slidestat.errors import SlidestatError
from slidestat.kafka.msk import MskSigner, msk_signer
from slidestat.kafka.oauth import token_provider
from slidestat.kafka.settings import CarriedSecurity, broker_security, client_config, java_settings
from slidestat.redaction import redacted

MSK = {
    "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "KAFKA_SASL_MECHANISM": "AWS_MSK_IAM",
    "AWS_REGION": "eu-west-1",
}


class NoProfileError(Exception):
    """As botocore raises."""


@pytest.fixture
def signing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A signer that gives these in turn, or raises them, in the place of AWS's."""
    answers: list[Any] = []

    def generate(region: str) -> tuple[str, int]:
        assert region == "eu-west-1"
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, 0

    package = "aws_msk_iam_sasl_signer"
    provider: Any = ModuleType(f"{package}.MSKAuthTokenProvider")
    provider.generate_auth_token = generate
    errors: Any = ModuleType("botocore.exceptions")
    errors.BotoCoreError = NoProfileError
    monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setitem(sys.modules, provider.__name__, provider)
    monkeypatch.setitem(sys.modules, "botocore", ModuleType("botocore"))
    monkeypatch.setitem(sys.modules, "botocore.exceptions", errors)
    for name, value in MSK.items():
        monkeypatch.setenv(name, value)
    msk_signer.cache_clear()
    yield answers
    msk_signer.cache_clear()


def test_a_token_is_signed_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an address with the action and the region, and has no secret in it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLEEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-of-the-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-session")
    token, ends_at = MskSigner("eu-west-1").token()
    signed = urlparse(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    found = parse_qs(signed.query)
    assert signed.netloc == "kafka.eu-west-1.amazonaws.com"
    assert found["Action"] == ["kafka-cluster:Connect"]
    assert found["X-Amz-Credential"][0].startswith("AKIAEXAMPLEEXAMPLE/")
    assert int(found["X-Amz-Expires"][0]) > ends_at - time.time() > 200
    assert "canary" not in signed.geturl()
    assert token not in redacted(f"refused: {token}")
    assert "canary" not in redacted("it was canary-of-the-key")


def test_a_token_is_shared_for_a_moment_and_never_kept(
    signing: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that renews its own gets one that ends later, or it would ask again at once."""
    now = [1_800_000_000.0]
    monkeypatch.setattr("slidestat.kafka.msk.time", SimpleNamespace(time=lambda: now[0]))
    signing += ["first", "second"]
    signer = MskSigner("eu-west-1")
    assert signer.token() == signer.token() == ("first", now[0] + 300)
    now[0] += 240
    assert signer.token() == ("second", now[0] + 300)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AttributeError("'NoneType' object has no attribute 'access_key'"), "there are none."),
        (NoProfileError("The config profile (prod) could not be found"), "(prod) could not be"),
        (ValueError("AWS Credentials can not be empty"), "can not be empty"),
        (OSError("no route to 169.254.169.254"), "no route to"),
    ],
)
def test_no_credentials(signing: list[Any], error: Exception, told: str) -> None:
    """It is said at once, where a client would wait; a client of aiokafka's tries again."""
    signing += [error, error, "token"]
    with pytest.raises(SlidestatError, match="No token for MSK was signed") as raised:
        client_config("h:9098")
    assert told in raised.value.message
    assert "AWS_PROFILE" in raised.value.advice
    provider = token_provider(CarriedSecurity.of(broker_security()))
    assert provider is not None
    with pytest.raises(KafkaConnectionError, match="No token for MSK"):
        asyncio.run(provider.token())
    assert asyncio.run(provider.token()) == "token"
    assert provider.extensions() == {}


def test_the_settings_of_each_client(signing: list[Any]) -> None:
    signing.append("token")
    config = client_config("h:9098")
    assert config["sasl.mechanism"] == "OAUTHBEARER"
    assert config["oauth_cb"]("")[0] == "token"
    java = java_settings(broker_security())
    assert java["sasl.mechanism"] == "AWS_MSK_IAM"
    # As its README has them; with the jar of 2.3.5 Kafka's client takes them, without it refuses.
    package = "software.amazon.msk.auth.iam"
    assert java["sasl.jaas.config"] == f"{package}.IAMLoginModule required;"
    assert java["sasl.client.callback.handler.class"] == f"{package}.IAMClientCallbackHandler"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"AWS_REGION": ""}, "it is not set"),
        ({"AWS_REGION": "https://eu"}, "which is no region"),
        ({"KAFKA_SASL_USERNAME": "alice"}, "KAFKA_SASL_USERNAME is set"),
        ({"KAFKA_OAUTH_CLIENT_ID": "stat"}, "KAFKA_OAUTH_CLIENT_ID is set"),
        ({"KAFKA_SECURITY_PROTOCOL": "SSL"}, "KAFKA_SASL_MECHANISM is set"),
    ],
)
def test_settings_that_cannot_be(changed: dict[str, str], told: str) -> None:
    with pytest.raises(SlidestatError) as raised:
        broker_security(MSK | changed)
    assert told in raised.value.message
    assert broker_security(MSK | {"AWS_REGION": "", "AWS_DEFAULT_REGION": "us-gov-west-1"}).region


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    with pytest.raises(SlidestatError) as raised:
        MskSigner("eu-west-1")
    assert "slidestat[msk]" in raised.value.advice
