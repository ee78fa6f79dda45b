"""The files that tests, and the processes that they start, leave behind."""

import os
from collections.abc import Iterator
from pathlib import Path

from tests.secret_watch.watch import search_file

# Finds are written down; browsers get the files of the site as they are in the repository.
NOT_SEARCHED = {"found", "static"}


class Files:
    """Looks into each file once, and again when it has changed."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def search_folder(self, folder: Path, *, but: str = "") -> None:
        """Look into every new file below a folder whose name does not have `but` in it."""
        for entry in _files_below(folder):
            if but and but in entry.name:
                continue
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            now = (state.st_mtime_ns, state.st_size)
            if self._seen.get(entry.path) != now:
                self._seen[entry.path] = now
                search_file(Path(entry.path))


def _files_below(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in NOT_SEARCHED:
                yield from _files_below(entry.path)
        elif entry.is_file(follow_symlinks=False):
            yield entry
