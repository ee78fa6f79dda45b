"""Size of the scripts that a page loads: at most 40 KiB compressed, as decision 6 says."""

import gzip
import re
from pathlib import Path

from django.contrib.staticfiles import finders
from django.template.loader import get_template

from config.environment import ROOT

MAX_BYTES = 40 * 1024
APPS = ("accounts", "catalog", "connectors", "delegates", "deployments", "inventory", "pipelines", "web")
TEMPLATES = ROOT / "templates"
SCRIPT = re.compile(r"<script[^>]*\{% static '([^']+\.js)' %\}")
LIVE_PART = re.compile(r"<\w+[^<]*? data-topics=")
PARENT_OR_PART = re.compile(r"""\{% (?:extends|include) ["']([^"']+)["']""")
# A script that is imported by a call comes when it is needed.
IMPORT = re.compile(r'^(?:import|export)\b[^"]*"\./([^"]+)"', re.MULTILINE)


def list_entry_scripts(page: str) -> set[str]:
    """Return the scripts that a template, its parents and its parts name."""
    scripts: set[str] = set()
    names, seen = [page], {page}
    while names:
        text = Path(get_template(names.pop()).origin.name).read_text()
        scripts.update(SCRIPT.findall(text))
        new = set(PARENT_OR_PART.findall(text)) - seen
        names += new
        seen |= new
    return scripts


def list_modules(script: str, modules: dict[str, int]) -> None:
    """Add a script and everything that it imports at its start, with compressed sizes."""
    if script in modules:
        return
    content = Path(finders.find(script)).read_bytes()
    modules[script] = len(gzip.compress(content, mtime=0))
    for name in IMPORT.findall(content.decode()):
        list_modules(f"{Path(script).parent}/{name}", modules)


def list_pages() -> list[str]:
    paths = (path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.html"))
    return sorted(path for path in paths if "{% extends" in (TEMPLATES / path).read_text())


def test_the_scripts_of_each_page_are_small() -> None:
    too_large: dict[str, int] = {}
    for page in list_pages():
        modules: dict[str, int] = {}
        for script in list_entry_scripts(page):
            list_modules(script, modules)
        if (size := sum(modules.values())) > MAX_BYTES:
            too_large[page] = size
    assert too_large == {}
    assert len(list_pages()) > 100


def test_imports_at_the_start_are_counted_and_later_ones_are_not() -> None:
    modules: dict[str, int] = {}
    list_modules("js/app.js", modules)
    assert "js/shortcuts.js" in modules
    assert "js/palette.js" not in modules


def test_each_data_attribute_that_a_script_reads_is_written_somewhere() -> None:
    scripts = "\n".join(path.read_text() for path in (ROOT / "static" / "js").glob("*.js"))
    pages = "\n".join(path.read_text() for path in TEMPLATES.rglob("*.html"))
    views = "\n".join(path.read_text() for package in APPS for path in (ROOT / package).rglob("*.py"))
    read = set(re.findall(r"\[data-([a-z]+(?:-[a-z]+)*)[\]=]", scripts))
    properties = re.findall(r"dataset\.(\w+)", scripts) + re.findall(r'"(\w+)" in [\w.]+\.dataset', scripts)
    read |= {re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", name) for name in properties}
    assigned = set(re.findall(r"dataset\.(\w+) = ", scripts)) | set(re.findall(r'"data-([a-z-]+)"', scripts))
    written = set(re.findall(r"\bdata-([a-z]+(?:-[a-z]+)*)", pages + views)) | assigned
    assert len(read) > 50
    assert read - written == set()


def test_each_live_part_has_an_id_by_which_it_is_fetched_again() -> None:
    parts = {
        part: path.name for path in TEMPLATES.rglob("*.html") for part in LIVE_PART.findall(path.read_text())
    }
    assert len(parts) > 20
    assert [name for part, name in parts.items() if ' id="' not in part] == []
