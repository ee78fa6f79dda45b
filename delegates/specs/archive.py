"""A spec as one download: its files, and its commands as a script to read before running it."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from typing import Final

from delegates.specs.spec import Command, Spec

SCRIPT: Final = "commands.sh"
# The oldest moment that the format knows: the same spec is the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def zipped(spec: Spec) -> bytes:
    """The files and the script of a spec."""
    return zip_of({**spec.files, SCRIPT: script(spec.of("find", "create", "verify"))})


def zip_of(files: Mapping[str, str]) -> bytes:
    """Files by name as the bytes of a zip."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            # For its owner alone: a token may be in it.
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def script(commands: Iterable[Command]) -> str:
    """Commands, each under its title; one that fails does not keep the next from running."""
    lines = [f"# {one.title}\n{one.command}\n" for one in commands]
    return "\n".join(["#!/bin/sh", "# Run these in the folder of the files.\n", *lines])
