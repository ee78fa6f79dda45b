"""The files of a program that a step brings itself: several, in any language, as they lie in their store."""

from collections.abc import Mapping
from typing import Any

from catalog.manifests.stores import StoreError
from connectors.files import FileMissing, read_files, split_reference
from pipelines.definition.step_sources import INLINE
from rbac.models import Scope
from steps.actions.terraform.configuration import CONFIGURATION

# Kinds of what steps bring that are no manifests: files as they are, and as many as there are.
PROGRAMS = (CONFIGURATION,)


def is_program(source: Mapping[str, Any]) -> bool:
    """Whether a source names files of a program, and no manifest."""
    return source["kind"] in PROGRAMS


def texts_of(source: Mapping[str, Any], scope: Scope) -> list[dict[str, str]]:
    """The files of a program that lie in the text itself or in the file store, each {name, text}.

    Raises `StoreError` where one is not there.
    """
    if source["store"] == INLINE:
        return [{"name": "", "text": source["content"]}]
    try:
        found = [file for path in source["paths"] for file in read_files(scope, path)]
    except FileMissing as missing:
        raise StoreError(missing.detail) from missing
    return [{"name": split_reference(one.ref)[1].lstrip("/"), "text": one.text} for one in found]
