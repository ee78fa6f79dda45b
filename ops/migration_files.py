"""Names of the migrations of this version, read from their files."""

import importlib.util
import pkgutil
from types import ModuleType

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

# As names of migrations, Django leaves out files that begin with one of these.
_HIDDEN = ("_", "~")


def list_migrations() -> set[tuple[str, str]]:
    """Return app and name of each migration.

    Unlike Django's loader it imports none of them, whose 12,000 objects a process would keep for good.
    """
    return {
        (app.label, name)
        for app in apps.get_app_configs()
        if (package := _import_package(app.label)) is not None
        for _, name, is_package in pkgutil.iter_modules(getattr(package, "__path__", ()))
        if not is_package and not name.startswith(_HIDDEN)
    }


def list_open_migrations(connection: BaseDatabaseWrapper) -> set[tuple[str, str]]:
    """Return app and name of each migration that was not applied to the database.

    Squashed migrations count by themselves: `migrate` records them when it has recorded what they replace.
    """
    return list_migrations() - MigrationRecorder(connection).applied_migrations().keys()


def _import_package(app: str) -> ModuleType | None:
    """Return the package with the migrations of an app; None if it has none."""
    name, _ = MigrationLoader.migrations_module(app)
    if name is None or importlib.util.find_spec(name) is None:
        return None
    return importlib.import_module(name)
