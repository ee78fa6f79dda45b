"""Where manifests lie: one module per store, known by being in this folder."""

from importlib import import_module
from pkgutil import iter_modules

from deployments.manifests.stores.arn import TASK_DEFINITION_ARN, arn_problem
from deployments.manifests.stores.base import StoreError, fetch, is_store, store_names, title_of
from deployments.manifests.stores.file_store import is_in_file_store

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "TASK_DEFINITION_ARN",
    "StoreError",
    "arn_problem",
    "fetch",
    "is_in_file_store",
    "is_store",
    "store_names",
    "title_of",
]
