"""Storage of static files under names that carry a hash of their content."""

from typing import Any

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
