"""Protobuf schemas as descriptors, compiled by protoc, which the package grpcio-tools has inside.

A schema is the text of a .proto file, or its descriptor in base64, as clients in Python register
it. Its imports of Google's files (google/protobuf, google/type) are at hand.
"""

import binascii
import re
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from slidestat.engine.decoding.formats.source_schemas import NamedText, UnusableSchemaError
from slidestat.errors import SlidestatError

# The file name of a registry's schema here: no other file has such a name.
_OWN = "the-schema.proto"
# This much of protoc's message is for a person; further errors follow from the first.
_SAID = 300

# Lines of its log: it warns there of a file that does not declare its syntax, which is proto2.
_LOGGED = re.compile(r"WARNING: All log messages|[IWEF]\d{4} ")
# protoc's status for a schema that it cannot compile.
_REFUSED = 1


def registered_files(text: str, references: Sequence[NamedText]) -> FileDescriptorSet:
    """Return the files of a registry's schema, each after those that it imports, its own last.

    Takes a third of a second. Raises UnusableSchemaError.
    """
    files = [NamedText(_OWN, text), *references]
    return _compiled(_OWN, files, FileDescriptorSet())


def declared_files(text: str) -> FileDescriptorSet:
    """Return the files of a topology's own schema in the same order: `text` is a .proto file, or a
    set of descriptors in base64, as protoc and buf write it, whose last file is its own.
    """
    content = _from_base64(text)
    if content is None:
        return _compiled(_OWN, [NamedText(_OWN, text)], FileDescriptorSet())
    try:
        files = FileDescriptorSet.FromString(content)
    except DecodeError as error:
        raise UnusableSchemaError(f"it is no set of descriptors: {error}") from error
    if not files.file:
        raise UnusableSchemaError("it is a set of no descriptors")
    return _compiled(files.file[-1].name, [], files)


def _compiled(own: str, files: Iterable[NamedText], known: FileDescriptorSet) -> FileDescriptorSet:
    with tempfile.TemporaryDirectory(prefix="slidestat-proto-") as name:
        folder = Path(name)
        sources = folder / "sources"
        sources.mkdir()
        for file in files:
            descriptor = _descriptor(file)
            if descriptor is None:
                _write(sources, file)
            else:
                known.file.append(descriptor)
        (folder / "known").write_bytes(known.SerializeToString())
        # -P: what lies in the folder of the one who started this is no module to import.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{sources}"]
        command += [f"-I{place}" for place in _shipped_protos()]
        command += [f"--descriptor_set_in={folder / 'known'}"] if known.file else []
        command += ["--include_imports", f"--descriptor_set_out={folder / 'found'}", own]
        run = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own
        lines = run.stderr.decode(errors="replace").replace(f"{sources}/", "").splitlines()
        said = "; ".join(line for line in lines if not _LOGGED.match(line))
        if run.returncode == _REFUSED:
            raise UnusableSchemaError(f"protoc says: {said[:_SAID]}")
        if run.returncode:
            raise SlidestatError(
                f"protoc ended with status {run.returncode}: {said[-_SAID:]}",
                "Install it anew with `pip install --force-reinstall 'slidestat[protobuf]'`.",
            )
        return FileDescriptorSet.FromString((folder / "found").read_bytes())


def _write(folder: Path, file: NamedText) -> None:
    """Put a file where protoc looks for it, and nowhere else."""
    place = PurePosixPath(file.name)
    if place.is_absolute() or ".." in place.parts or not place.parts or "\0" in file.name:
        raise UnusableSchemaError(f"it imports {file.name!r}, which is no name of a file")
    target = folder / place
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.text, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise UnusableSchemaError(f"{file.name!r} cannot be a file: {error}") from error


def _descriptor(file: NamedText) -> FileDescriptorProto | None:
    """Return the descriptor of a file that is registered as one; None for a .proto text."""
    content = _from_base64(file.text)
    if content is None:
        return None
    try:
        descriptor = FileDescriptorProto.FromString(content)
    except DecodeError as error:
        raise UnusableSchemaError(f"{file.name} is no descriptor of a file: {error}") from error
    descriptor.name = file.name
    return descriptor


def _from_base64(text: str) -> bytes | None:
    """Return the bytes of base64; None for a .proto file, which has other characters."""
    try:
        return b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None


def _shipped_protos() -> list[Path]:
    """Return the folders of Google's own files; protoc itself has those of google/protobuf."""
    types = find_spec("google.type")
    places = [] if types is None else types.submodule_search_locations or []
    return [Path(place).parents[1] for place in places]
