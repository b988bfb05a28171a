"""The brokers' security settings with what their files hold, for a process on another machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slidestat.kafka.settings import BrokerSecurity

_FILES = ("ca_file", "certificate_file", "key_file")


@dataclass(frozen=True)
class CarriedSecurity:
    """Settings whose certificates and keys travel with them; no secret is ever in its text."""

    settings: BrokerSecurity
    contents: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, settings: BrokerSecurity) -> "CarriedSecurity":
        """Read the files that the settings name."""
        paths = {name: getattr(settings, name) for name in _FILES}
        contents = {name: path.read_bytes() for name, path in paths.items() if path is not None}
        return cls(settings, contents)

    @contextmanager
    def here(self) -> Iterator[BrokerSecurity]:
        """Yield settings of this machine: their files are there, for this user alone, until the
        context is left.
        """
        with TemporaryDirectory(prefix="slidestat-tls-") as folder:
            paths: dict[str, Any] = {}
            for name, content in self.contents.items():
                paths[name] = Path(folder) / name
                paths[name].write_bytes(content)
            yield replace(self.settings, **paths)
