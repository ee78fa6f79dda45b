"""Two extensions, registered as the modules of the extended packages are."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import catalog.manifests.stores
import steps.kinds
from catalog.manifests.stores import registry as stores
from steps.actions import base
from steps.discovery import import_submodules
from steps.kinds import registry as kinds
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import write

__all__ = ["_full_buckets", "drive", "write"]

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _extensions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add a file to each package; nothing of it stays for other tests."""
    before = set(sys.modules)
    for module, table in ((kinds, "_KINDS"), (base, "_ACTIONS"), (stores, "_stores")):
        monkeypatch.setattr(module, table, dict(getattr(module, table)))
    for package, folder in ((steps.kinds, "kinds"), (catalog.manifests.stores, "stores")):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(HERE / folder)])
        import_submodules(package.__name__)
    yield
    for name in set(sys.modules) - before:
        package_name, _, module_name = name.rpartition(".")
        if package_name in ("steps.kinds", "catalog.manifests.stores"):
            del sys.modules[name]
            delattr(sys.modules[package_name], module_name)
