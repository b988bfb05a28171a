"""Write the golden files of cases that have none: `make golden`. None that is there is changed."""

import sys

from tests.golden.manifest import GOLDEN, entry, read_manifest, write_manifest


def freeze() -> list[str]:
    """Return the names of the files that were written, each with its entry in the manifest."""
    entries = read_manifest()
    missing = [golden for name, golden in GOLDEN.items() if name not in entries]
    for golden in missing:
        if golden.make is None:
            sys.exit(f"{golden.name} is of a version that is not written any more.")
        if golden.path.exists():
            sys.exit(f"{golden.path} is there, and not in the manifest: take back what is missing.")
        data = golden.make()
        golden.path.parent.mkdir(exist_ok=True)
        golden.path.write_bytes(data)
        entries[golden.name] = entry(golden, data)
    write_manifest(entries)
    return [golden.name for golden in missing]


if __name__ == "__main__":
    names = freeze()
    print(f"written: {', '.join(names)}" if names else "every case has its file")
