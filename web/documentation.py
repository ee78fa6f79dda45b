"""The documentation, served as `make docs` built it; nothing in it is about this installation."""

import mimetypes
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import last_modified, require_safe

_INDEX = "index.html"


def _changed_at(request: HttpRequest, path: str = "") -> datetime | None:
    file = _find_file(path)
    return datetime.fromtimestamp(file.stat().st_mtime, UTC) if file else None


@require_safe
@last_modified(_changed_at)
def documentation(request: HttpRequest, path: str = "") -> HttpResponse:
    """Return a file of the site, or instructions to build it."""
    if file := _find_file(path):
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        charset = "; charset=utf-8" if kind.startswith(("text/", "application/j")) else ""
        return HttpResponse(file.read_bytes(), content_type=f"{kind}{charset}")
    if _find_file(f"{path}/"):
        return redirect(f"{request.path}/")
    if not (settings.DOCUMENTATION_ROOT / _INDEX).is_file():
        return render(request, "web/documentation_missing.html", status=404)
    raise Http404


def _find_file(path: str) -> Path | None:
    """Return the file at a URL path; a folder means its index."""
    root: Path = settings.DOCUMENTATION_ROOT
    index = root / _INDEX
    if not index.is_file():
        return None
    files = _list_files(root, index.stat().st_mtime_ns)
    return files.get(f"{path}{_INDEX}" if not path or path.endswith("/") else path)


@lru_cache(maxsize=1)
def _list_files(root: Path, _built_at: int) -> dict[str, Path]:
    """Return the files of a built site; only listed files are served, so no path can leave it."""
    return {file.relative_to(root).as_posix(): file for file in root.rglob("*") if file.is_file()}
