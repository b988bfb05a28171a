"""The chart library is its package's, unchanged, with its licence."""

import hashlib
import re
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "app" / "slidestat" / "web" / "static" / "vendor"


def test_vendored_files_are_as_published() -> None:
    """Each file has the digest that was noted when it was taken from its package, and none lies
    there that was not.
    """
    noted = dict(
        reversed(line.split())
        for line in (VENDOR / "README.md").read_text(encoding="utf-8").splitlines()
        if re.match(r"[0-9a-f]{64} ", line)
    )
    found = {
        str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.glob("*/*")
    }
    assert found == noted
    assert "MIT" in (VENDOR / "uplot" / "LICENSE").read_text(encoding="utf-8")
