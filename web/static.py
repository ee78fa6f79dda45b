"""Static files under names that carry a hash of their content, so that browsers may keep them for ever."""

from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage

OURS = "js/*.js"


class HashedStaticFiles(CompressedManifestStaticFilesStorage):
    """This will hash and compress files at `collectstatic`, and serve plain names where that never ran."""

    support_js_module_import_aggregation = True
    # Only our own modules import each other by relative path; bundles of packages hold text that looks alike.
    _js_module_import_aggregation_patterns = (
        OURS,
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )

    def stored_name(self, name: str) -> str:
        """This will give the hashed name, or the plain one before `collectstatic` (tests, development)."""
        if not self.hashed_files:
            return name
        return super().stored_name(name)

    def file_hash(self, name: str, content: Any = None) -> str | None:
        """This will hash content; the base method asks for exactly this signature."""
        return super().file_hash(name, content)
