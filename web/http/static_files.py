"""Storage of static files under names that carry a hash of their content."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from whitenoise.storage import CompressedManifestStaticFilesStorage

OWN_MODULES = "js/*.js"


class HashedStaticFiles(CompressedManifestStaticFilesStorage):
    """Hash and compress files at `collectstatic`, and serve plain names where that never ran."""

    support_js_module_import_aggregation = True
    # Only our own modules import each other by relative path; bundles of packages contain similar text.
    _js_module_import_aggregation_patterns = (
        OWN_MODULES,
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )

    def stored_name(self, name: str) -> str:
        """Return the hashed name, or the plain one before `collectstatic` (tests, development)."""
        if not self.hashed_files:
            return name
        return super().stored_name(name)

    def file_hash(self, name: str, content: Any = None) -> str | None:
        """Return the hash of a file; the signature is that of the base class."""
        return super().file_hash(name, content)


def find_missing_static_files() -> list[str]:
    """Return the product's static files that `collectstatic` has not brought to this installation."""
    collected = getattr(staticfiles_storage, "hashed_files", {})
    folders = [Path(folder) for folder in settings.STATICFILES_DIRS]
    names = [
        path.relative_to(folder).as_posix()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return [name for name in names if not staticfiles_storage.exists(collected.get(name, name))]


def require_static_files() -> None:
    """End a web process whose pages would have no styles and scripts. Raises `SystemExit`."""
    if missing := find_missing_static_files():
        raise SystemExit(
            f"Slipway cannot start: {len(missing)} static files were not collected to "
            f"{settings.STATIC_ROOT}, such as {missing[0]}. Run manage collectstatic."
        )
