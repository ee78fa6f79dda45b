"""Hooks that MkDocs calls while it builds the site: generated pages, and scripts that the policy allows."""

import os
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# MkDocs loads this file by path, without the project on sys.path.
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django  # noqa: E402

django.setup()

from ops.documentation.external_scripts import FOLDER, ExternalScripts  # noqa: E402
from ops.documentation.subjects import generate_pages  # noqa: E402

CONTRIBUTOR_PAGES = "contributing/"
LOGO = "assets/slipway.svg"
_scripts = ExternalScripts()


def on_config(config: Any, **_: Any) -> Any:
    """Link the header to the product, and complete the navigation."""
    config["repo_url"], config["repo_name"] = "/", "Open Slipway"
    config["nav"] = _expand(config["nav"], Path(config["docs_dir"]))
    return config


def _expand(nav: Any, docs: Path) -> Any:
    """Return the navigation with pages in place of each folder."""
    if isinstance(nav, list):
        return [_expand(entry, docs) for entry in nav]
    if isinstance(nav, dict):
        return {title: _expand(entry, docs) for title, entry in nav.items()}
    return _list_pages(nav, docs) if nav.endswith("/") else nav


def _list_pages(folder: str, docs: Path) -> list[str]:
    """Return the pages of a folder in the order of the generator or of their names, the index first."""
    existing_pages = sorted(path.relative_to(docs).as_posix() for path in (docs / folder).glob("*.md"))
    pages = [path for path in (*generate_pages(), *existing_pages) if path.startswith(folder)]
    return sorted(pages, key=lambda path: path != f"{folder}index.md")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the generated pages, and the logo of the product."""
    for page in generate_pages().values():
        if existing := files.get_file_from_path(page.path):
            files.remove(existing)
        files.append(File.generated(config, page.path, content=page.text))
    files.append(File.generated(config, LOGO, abs_src_path=str(ROOT / "static/img/slipway.svg")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rank pages for users above those for contributors in searches."""
    if page.file.src_uri.startswith(CONTRIBUTOR_PAGES):
        page.meta.setdefault("search", {"boost": 0.3})
    return markdown


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Move inline scripts of a page to files."""
    return _scripts.move(output, page.url)


def on_post_build(config: Any, **_: Any) -> None:
    """Write the scripts, and delete the theme's 404 page, because the product has its own."""
    site = Path(config["site_dir"])
    for name, code in _scripts.files.items():
        path = site / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    (site / "404.html").unlink(missing_ok=True)
