"""Removal of task files at any depth, safe against concurrent changes by other tasks."""

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator

# Limit of the search in other users' folders, which are deleted with their tasks anyway.
_DEEPEST = 20


def remove_tree(path: str) -> None:
    """Delete a file, or a folder with its content; undeletable files stay."""
    with contextlib.suppress(OSError), _open_folder(os.path.dirname(path)) as at:
        _remove(os.path.basename(path), at)


def remove_owned(folder: str, is_match: Callable[[os.stat_result], bool]) -> None:
    """Delete the matching entries of a folder and of its world-writable subfolders."""
    with contextlib.suppress(OSError), _open_folder(folder) as at:
        _remove_owned(at, is_match, _DEEPEST)


def _remove_owned(at: int, is_match: Callable[[os.stat_result], bool], depth: int) -> None:
    for name in os.listdir(at):
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if is_match(status):
                _remove(name, at)
            elif stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWOTH and depth:
                with _open_folder(name, at) as below:
                    _remove_owned(below, is_match, depth - 1)


def _remove(name: str, at: int) -> None:
    """Delete an entry of an open folder; a path could lead to another folder by now."""
    if not _try_delete(name, at):
        with _open_for_removal(name, at) as folder:
            _empty(folder)
        os.rmdir(name, dir_fd=at)


def _empty(folder: int) -> None:
    """Empty a folder; deep subfolders move up, so that depth needs no stack."""
    prefix, moved = secrets.token_hex(8), 0
    folders = _delete_files(folder)
    while folders:
        for name in folders:
            with contextlib.suppress(OSError), _open_for_removal(name, folder) as inner:
                for below in _delete_files(inner):
                    moved += 1
                    os.rename(below, f"{prefix}-{moved}", src_dir_fd=inner, dst_dir_fd=folder)
        remaining_folders = _delete_files(folder)
        if remaining_folders == folders:
            return
        folders = remaining_folders


def _delete_files(folder: int) -> set[str]:
    """Delete the files and empty folders of a folder, and return the names of the rest."""
    return {name for name in os.listdir(folder) if not _try_delete(name, folder)}


def _try_delete(name: str, at: int) -> bool:
    for delete in (os.unlink, os.rmdir):
        with contextlib.suppress(OSError):
            delete(name, dir_fd=at)
            return True
    return False


@contextlib.contextmanager
def _open_for_removal(name: str, at: int) -> Iterator[int]:
    """Open a folder and remove all other users' write access."""
    if os.geteuid() != 0:
        # Its owner, the same user, may have removed its own permissions; root needs none.
        os.chmod(name, 0o700, dir_fd=at)
    with _open_folder(name, at) as folder:
        os.fchmod(folder, 0o700)
        if os.geteuid() == 0:
            os.fchown(folder, 0, 0)
        yield folder


@contextlib.contextmanager
def _open_folder(name: str, at: int | None = None) -> Iterator[int]:
    number = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        yield number
    finally:
        os.close(number)
