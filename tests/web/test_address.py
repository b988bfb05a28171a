"""Where a worker listens, and when it refuses to."""

import re
from pathlib import Path

import pytest

from slidestat.errors import SlidestatError
from slidestat.options import FIRST_PORT, LOOPBACK
from slidestat.web.address import announced, announcements, listen

TOKEN, FILE = "SLIDESTAT_WEB_TOKEN", "SLIDESTAT_WEB_TOKEN_FILE"
VIEW = "SLIDESTAT_WEB_VIEW_TOKEN"


def test_each_worker_has_a_port_of_its_own() -> None:
    """Without a choice, the first free port from 6066 on; the name tells workers apart."""
    one, two = listen(LOOPBACK, None), listen(LOOPBACK, None)
    with one.listener, two.listener:
        ports = [each.listener.getsockname()[1] for each in (one, two)]
        assert FIRST_PORT <= ports[0] < ports[1] < FIRST_PORT + 100
        assert one.url == f"http://127.0.0.1:{ports[0]}"
        assert one.canonical_url == f"{one.url}/?worker={one.worker}"
        assert one.worker != two.worker
        with pytest.raises(SlidestatError, match=f"cannot listen at 127.0.0.1:{ports[0]}"):
            listen(LOOPBACK, ports[0])


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    """Every name of this machine for itself."""
    address = listen(host, 0)
    with address.listener:
        assert re.fullmatch(r"http://(\[::1\]|[a-z0-9.]+):\d+", address.url)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.invalid"])  # noqa: S104
def test_beyond_loopback_a_token_is_needed(host: str) -> None:
    """Without one it does not listen; the error says which variables to set."""
    with pytest.raises(SlidestatError, match="open to anyone") as raised:
        listen(host, 0)
    assert TOKEN in raised.value.advice
    assert FILE in raised.value.advice


def test_with_a_token_it_listens_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the environment or a file; it calls itself by the machine's name, and hosts that are
    none are refused.
    """
    (tmp_path / "token").write_text("abc.DEF-123\n")
    monkeypatch.setenv(FILE, str(tmp_path / "token"))
    address = listen("0.0.0.0", 0)  # noqa: S104
    with address.listener:
        assert address.token == "abc.DEF-123"
        assert "0.0.0.0" not in address.url  # noqa: S104
    for host in ("example.invalid", "192.0.2.1", "a b", "", "x" * 300, "é\ud800"):
        with pytest.raises(SlidestatError, match="cannot listen"):
            listen(host, 0)

    monkeypatch.setenv(TOKEN, "another")
    with pytest.raises(SlidestatError, match="Both"):
        listen(LOOPBACK, 0)


@pytest.mark.parametrize("token", ["", " ", "two words", "é", "a\nb"])
def test_what_is_no_token_is_refused(
    token: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An empty or unusable token never counts as none, nor as one."""
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(SlidestatError, match=f"{TOKEN} holds no bearer token"):
        listen(LOOPBACK, 0)
    monkeypatch.delenv(TOKEN)
    (tmp_path / "token").write_text(token)
    monkeypatch.setenv(FILE, str(tmp_path / "token"))
    with pytest.raises(SlidestatError, match="token"):
        listen(LOOPBACK, 0)
    monkeypatch.setenv(FILE, str(tmp_path / "missing"))
    with pytest.raises(SlidestatError, match="cannot be read"):
        listen(LOOPBACK, 0)


def test_a_token_for_looking_is_beside_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From the environment or a file; alone, or as the same one, it would protect nothing."""
    monkeypatch.setenv(VIEW, "view")
    with pytest.raises(SlidestatError, match=f"{TOKEN} is not"):
        listen(LOOPBACK, 0)
    monkeypatch.setenv(TOKEN, "view")
    with pytest.raises(SlidestatError, match="the same token"):
        listen(LOOPBACK, 0)
    monkeypatch.delenv(VIEW)
    (tmp_path / "view").write_text("another\n")
    monkeypatch.setenv(f"{VIEW}_FILE", str(tmp_path / "view"))
    address = listen(LOOPBACK, 0)
    with address.listener:
        assert (address.token, address.view_token) == ("view", "another")


def test_a_worker_says_in_its_folder_where_it_is(tmp_path: Path) -> None:
    """While it runs, and not after; files that are damaged are passed over."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "web.json").write_text("{")
    address = listen(LOOPBACK, 0)
    with address.listener, announced(tmp_path / "b", address, tmp_path):
        (found,) = announcements(sorted(tmp_path.iterdir()))
        assert (found.url, found.worker) == (address.url, address.worker)
    assert list(announcements([*tmp_path.iterdir(), tmp_path / "missing"])) == []
