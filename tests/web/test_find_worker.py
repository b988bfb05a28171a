"""A worker on this machine is found by what it says in its data folder, and asked for a key; what
else answers is told from it.
"""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import msgspec
import pytest

from slidestat.admin.query import ask, find_worker
from slidestat.errors import SlidestatError
from slidestat.faust.data_folder import user_folders
from slidestat.schemas.query import KeyTable
from slidestat.web.address import announced
from slidestat.web.answers.workers import answer_of
from slidestat.web.errors import HttpError
from slidestat.web.peers import Reply, Worker
from tests.web.serving import TOPOLOGY, serving


@pytest.mark.asyncio
async def test_a_worker_is_found_by_its_own_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Or by none, wherever it is. Elsewhere, and after it has ended, nobody is found, it is said
    where one looked, and nothing is left behind. Where the user's folders cannot be written, only
    that folder finds it.
    """
    home, folder = tmp_path / "home", tmp_path / "tables"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    folder.mkdir()
    base = user_folders(TOPOLOGY.application_id)

    def find(data_dir: Path | None) -> Awaitable[str]:
        return asyncio.to_thread(find_worker, TOPOLOGY, data_dir)

    async with serving({0: ["a"]}) as [worker]:
        with announced(folder, worker.address, base):
            assert await find(folder) == await find(None) == worker.url
            with pytest.raises(SlidestatError, match=str(tmp_path)) as none:
                await find(tmp_path)
            assert "--data-dir" in none.value.advice
        for ended in (folder, None):
            with pytest.raises(SlidestatError, match="tables" if ended else str(home)):
                await find(ended)
        assert list(base.iterdir()) == list(folder.iterdir()) == []
        (tmp_path / "file").write_text("")
        with announced(folder, worker.address, tmp_path / "file"):
            assert await find(folder) == worker.url
        inside = base / "worker-0"
        inside.mkdir()
        with announced(inside, worker.address, base):
            assert await find(None) == worker.url
            assert [it.name for it in base.iterdir()] == ["worker-0"]


def test_no_key_is_empty() -> None:
    """Nobody is asked for it."""
    with pytest.raises(SlidestatError, match="key is empty"):
        ask("http://127.0.0.1:1", lambda client: client.query(TOPOLOGY.name, ""))


@pytest.mark.parametrize("body", [b"<html>", b'{"rows":1}', b"\xff", b""])
def test_what_no_worker_of_the_group_has_answered(body: bytes) -> None:
    """A proxy before it, or one of another version, is named, and nothing else is raised."""
    reply = Reply(Worker("http://10.0.0.7:6066", "w", (0,)), 200, body)
    with pytest.raises(HttpError) as raised:
        answer_of(reply, msgspec.json.Decoder(KeyTable))
    assert raised.value.status == 502
    assert "http://10.0.0.7:6066" in str(raised.value)
