"""Manifest stores, one module each; importing this package registers all of them."""

from catalog.manifests.stores.file_store import FILE_STORE
from catalog.manifests.stores.inline import INLINE
from catalog.manifests.stores.registry import (
    ManifestStore,
    StoreError,
    StoreField,
    fetch_documents,
    get_store,
    get_store_title,
    is_store,
    list_store_names,
    list_stores,
)
from catalog.manifests.stores.task_definition_arn import TASK_DEFINITION_ARN, describe_arn_problem
from steps.discovery import import_submodules

__all__ = [
    "FILE_STORE",
    "INLINE",
    "ManifestStore",
    "StoreError",
    "StoreField",
    "TASK_DEFINITION_ARN",
    "describe_arn_problem",
    "fetch_documents",
    "get_store",
    "get_store_title",
    "is_store",
    "list_store_names",
    "list_stores",
]

import_submodules(__name__)
