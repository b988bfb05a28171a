"""Golden files: read forever, and written the same while their version is the one written."""

from pathlib import Path

import pytest

from tests.golden import golden as golden_files, manifest
from tests.golden.freeze import freeze
from tests.golden.golden import FROZEN, Golden
from tests.golden.manifest import GOLDEN, entry, read_manifest

WRITTEN = [golden for golden in GOLDEN.values() if golden.make is not None]


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_golden_bytes_are_read_back(golden: Golden) -> None:
    """They are the bytes that were written then, and say what they said then."""
    assert entry(golden, golden.path.read_bytes()) == read_manifest()[golden.name]


@pytest.mark.parametrize("golden", WRITTEN, ids=[golden.name for golden in WRITTEN])
def test_the_same_events_write_the_same_bytes(golden: Golden) -> None:
    """While a version is what is written, equal events give the bytes that they gave then."""
    assert golden.make is not None
    assert golden.make() == golden.path.read_bytes()


def test_the_number_of_a_folder_is_the_version_in_the_bytes() -> None:
    """So "wave-1" has waves of version 1, and nothing else."""
    for golden in GOLDEN.values():
        if golden.version_at is not None:
            assert golden.path.read_bytes()[golden.version_at] == golden.version, golden.name


def test_every_sort_of_quantiles_by_value_is_there() -> None:
    """Kind 27 itself, bundles of parties, 23, and form 7 of kind 26, a window's summary."""
    files = (FROZEN / "value-quantiles-1").glob("*.bin")
    assert {path.read_bytes()[3] for path in files} == {23, 26, 27}


def test_every_file_has_its_case_and_its_entry() -> None:
    """None is forgotten; `make golden` writes the entry and the file of a new case."""
    files = {str(path.relative_to(FROZEN))[: -len(".bin")] for path in FROZEN.rglob("*.bin")}
    assert files == set(read_manifest()) == set(GOLDEN)


def test_the_files_of_new_cases_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that the manifest does not know, and none else; nothing that is there is changed."""
    entries = read_manifest()
    monkeypatch.setattr(golden_files, "FROZEN", tmp_path)
    monkeypatch.setattr(manifest, "MANIFEST", tmp_path / "manifest.json")
    new = ["checkpoint-2/lost", "wave-1/count-five"]
    manifest.write_manifest({name: known for name, known in entries.items() if name not in new})
    assert sorted(freeze()) == new
    assert read_manifest() == entries
    for name in new:
        assert GOLDEN[name].path.read_bytes() == (FROZEN / f"{name}.bin").read_bytes()
    assert freeze() == []
    manifest.write_manifest({name: known for name, known in entries.items() if name != new[0]})
    with pytest.raises(SystemExit, match="is there, and not in the manifest"):
        freeze()
