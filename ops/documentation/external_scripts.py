"""Inline scripts of pages, moved to files, as the product's content security policy demands."""

import hashlib
import posixpath
import re

FOLDER = "assets/javascripts/inline"
# Data blocks (`type="application/json"`) are not run, and scripts with `src` are files already.
_SCRIPT = re.compile(r"<script>(?P<code>.*?)</script>", re.DOTALL)


class ExternalScripts:
    """The scripts found so far, by the name of the file that each becomes."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def move(self, html: str, page_url: str) -> str:
        """Return the page with a file in place of each inline script."""
        folder = posixpath.relpath(FOLDER, page_url.strip("/") or ".")
        return _SCRIPT.sub(lambda match: f'<script src="{folder}/{self._add(match["code"])}"></script>', html)

    def _add(self, code: str) -> str:
        name = f"{hashlib.sha256(code.encode()).hexdigest()[:16]}.js"
        self.files[name] = code
        return name
