"""What a package index shows of README: without pictures and links to files that lie beside it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n*")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")


class LongDescription(MetadataHookInterface):
    """Hatchling's hook that fills in the long description when the project is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set README with the texts of its links alone, where these are relative."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = _LINK.sub(r"\1", _PICTURE.sub("", text))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
