"""Version of the command line."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def get_version() -> str:
    """Return the version of the checkout that this runs from, else of the installed package."""
    if _PROJECT.is_file():
        return str(tomllib.loads(_PROJECT.read_text())["project"]["version"])
    try:
        return version("slipway")
    except PackageNotFoundError:
        return "unknown"
