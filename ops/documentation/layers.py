"""Contributor page of layers, from the contracts that import-linter checks."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ops.documentation.markdown import Page, code, table

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def generate() -> Iterator[Page]:
    """Yield the page of layers."""
    yield Page("contributing/layers.md", "Layers", tuple(_build_parts()))


def list_contracts() -> list[dict[str, Any]]:
    """Return the contracts of import-linter."""
    contracts: list[dict[str, Any]] = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    return contracts


def _build_parts() -> Iterator[str]:
    yield "`make lint` checks these contracts, and a change that breaks one does not land."
    for contract in list_contracts():
        yield f"## {contract['name']}"
        if contract["type"] == "layers":
            yield from _list_layers(contract)
        else:
            yield _list_forbidden(contract)


def _list_layers(contract: dict[str, Any]) -> Iterator[str]:
    if containers := contract.get("containers"):
        yield f"Inside {_list_names(containers)}:"
    yield "Each layer imports only layers below it."
    rows = [
        (str(number), _list_names(layer.split(" : "))) for number, layer in enumerate(contract["layers"], 1)
    ]
    yield table(("From the top", "Layer"), rows)


def _list_forbidden(contract: dict[str, Any]) -> str:
    indirect = "" if contract.get("allow_indirect_imports") else ", also not through other modules"
    rows = [(_list_names(contract["source_modules"]), _list_names(contract["forbidden_modules"]))]
    return table(("These", f"do not import{indirect}"), rows)


def _list_names(modules: Sequence[str]) -> str:
    return ", ".join(code(module.strip("() ")) for module in modules)
