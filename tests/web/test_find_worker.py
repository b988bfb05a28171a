"""A worker on this machine is found by what it says in its data folder, and asked for a key."""

import asyncio
from pathlib import Path

import pytest

from slidestat.admin.query import ask, find_worker
from slidestat.errors import SlidestatError
from slidestat.web.address import announced
from tests.web.serving import TOPOLOGY, serving


@pytest.mark.asyncio
async def test_a_worker_is_found_by_its_own_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only when that is named: elsewhere, and after it has ended, nobody is found, and it is said
    where one looked.
    """
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    folder = tmp_path / "tables"
    folder.mkdir()
    async with serving({0: ["a"]}) as [worker]:
        with announced(folder, worker.address):
            assert await asyncio.to_thread(find_worker, TOPOLOGY, folder) == worker.url
            for other in (None, tmp_path):
                with pytest.raises(SlidestatError, match=str(other or tmp_path / "home")) as none:
                    await asyncio.to_thread(find_worker, TOPOLOGY, other)
                assert "--data-dir" in none.value.advice
        with pytest.raises(SlidestatError, match="tables"):
            await asyncio.to_thread(find_worker, TOPOLOGY, folder)


def test_no_key_is_empty() -> None:
    """Nobody is asked for it."""
    with pytest.raises(SlidestatError, match="key is empty"):
        ask("http://127.0.0.1:1", lambda client: client.query(TOPOLOGY.name, ""))
