"""Small files are written whole or not at all, and the cache folder is one."""

import os
from pathlib import Path

import numba
import pytest

from slidestat import user_files
from slidestat.kernels import units
from slidestat.local import jars
from slidestat.user_files import CACHE_VARIABLE, write_whole


def test_what_was_there_is_replaced(tmp_path: Path) -> None:
    """In a folder that is made at need, and nothing else stays in it."""
    path = tmp_path / "new" / "file.json"
    for data in (b"one", b"", b"another"):
        write_whole(path, data)
        assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_was_there_stays_if_a_step_fails(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the disk is full."""
    path = tmp_path / "file.json"
    write_whole(path, b"before")

    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), failing)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_data_is_on_the_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a machine that stops may keep the name of an empty file: a worker would refuse its
    data folder as damaged.
    """
    synced: list[int] = []
    fsync, replace = os.fsync, Path.replace

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    def replaced(new: Path, path: Path) -> None:
        assert synced == [4]
        replace(new, path)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "replace", replaced)
    write_whole(tmp_path / "file.json", b"data")
    assert (tmp_path / "file.json").read_bytes() == b"data"


def test_writers_with_one_number_do_not_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in two containers that share a folder, and in two threads: each name that is there has
    all of one writer's data, and neither of them fails.
    """
    path = tmp_path / "file.json"
    fsync, others = os.fsync, [b"another"]

    def interrupted(descriptor: int) -> None:
        fsync(descriptor)
        if others:
            write_whole(path, others.pop())
            assert path.read_bytes() == b"another"

    monkeypatch.setattr(os, "fsync", interrupted)
    write_whole(path, b"one")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_one_variable_names_the_cache_folder_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of jars and of kernels; numba's own goes first for these. A relative one is made absolute."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    assert jars.cache_folder() == tmp_path / "cache"
    assert units.cache_folder() == tmp_path / "cache" / "kernels"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    assert units.cache_folder() == tmp_path / "numba" / "kernels"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE_VARIABLE, "cache")
    assert user_files.cache_folder() == tmp_path / "cache"
