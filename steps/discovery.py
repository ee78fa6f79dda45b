"""Discovery of plug-ins: importing every module of a package lets each register itself."""

from importlib import import_module
from pkgutil import walk_packages


def import_submodules(package: str) -> None:
    """Import all modules below a package, so that a new strategy, step kind or action is one new file."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)
