"""Where manifests lie: one module per store, known by being in this folder."""

from importlib import import_module
from pkgutil import iter_modules

from catalog.manifests.stores.arn import TASK_DEFINITION_ARN, arn_problem
from catalog.manifests.stores.base import StoreError, fetch, is_store, store_names, title_of
from catalog.manifests.stores.file_store import is_in_file_store

__all__ = [
    "StoreError",
    "TASK_DEFINITION_ARN",
    "arn_problem",
    "fetch",
    "is_in_file_store",
    "is_store",
    "store_names",
    "title_of",
]


for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
