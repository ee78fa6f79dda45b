"""Manifest stores, one module each; importing this package registers all of them."""

from importlib import import_module
from pkgutil import iter_modules

from catalog.manifests.stores.file_store import is_in_file_store
from catalog.manifests.stores.registry import (
    StoreError,
    fetch_documents,
    get_store_title,
    is_store,
    list_store_names,
)
from catalog.manifests.stores.task_definition_arn import TASK_DEFINITION_ARN, describe_arn_problem

__all__ = [
    "StoreError",
    "TASK_DEFINITION_ARN",
    "describe_arn_problem",
    "fetch_documents",
    "get_store_title",
    "is_in_file_store",
    "is_store",
    "list_store_names",
]


for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
