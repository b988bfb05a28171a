"""The brokers' security settings with what their files hold, for a process on another machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from ssl import SSLContext
from tempfile import TemporaryDirectory
from typing import Any

from slidestat.kafka.settings import BrokerSecurity, tls_context

_FILES = ("ca_file", "certificate_file", "key_file")


@dataclass(frozen=True)
class CarriedSecurity:
    """The security settings with the contents of certificates and keys, for other machines; its
    text never has a secret.
    """

    settings: BrokerSecurity
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, settings: BrokerSecurity) -> "CarriedSecurity":
        """Read the files that the settings name."""
        paths = {name: getattr(settings, name) for name in _FILES}
        contents = {name: path.read_bytes() for name, path in paths.items() if path is not None}
        return cls(settings, contents)

    def tls_context(self) -> SSLContext | None:
        """Make Python's TLS context, None for connections without TLS. Python reads a certificate
        and its key from files alone: they are there for a moment, for this user.
        """
        if not self.settings.has_tls:
            return None
        with TemporaryDirectory(prefix="slidestat-tls-") as folder:
            paths: dict[str, Any] = {}
            for name, content in self.contents.items():
                paths[name] = Path(folder) / name
                paths[name].write_bytes(content)
            return tls_context(replace(self.settings, **paths))
