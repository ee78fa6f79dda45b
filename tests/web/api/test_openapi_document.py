"""The OpenAPI document: valid, with examples that fit, and names that programs can rely on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from web.api.openapi import get_public_schema

OPERATION_IDS = Path(__file__).with_name("operation_ids.txt")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return get_public_schema()


def list_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["servers"][0]["url"] == settings.PUBLIC_URL
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(document)] == []
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_null_is_described_once_for_each_field(document: dict[str, Any]) -> None:
    alternatives = list(list_alternatives(document["components"]))
    assert alternatives
    for schemas in alternatives:
        valid = [
            schema
            for schema in schemas
            if "$ref" not in schema and Draft202012Validator(schema).is_valid(None)
        ]
        assert len(valid) <= 1, schemas


def test_whole_numbers_that_are_sent_have_bounds(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    connector = schemas["EventQueueInput"]["properties"]["connector"]
    assert (connector["minimum"], connector["maximum"]) == (-(2**63), 2**63 - 1)
    days = schemas["InvitationInput"]["properties"]["days"]
    assert (days["minimum"], days["maximum"]) == (1, 30)
    assert "maximum" not in schemas["EventQueueDocument"]["properties"]["connector"]


def list_alternatives(part: Any) -> Iterator[list[dict[str, Any]]]:
    if isinstance(part, dict) and isinstance(part.get("oneOf"), list):
        yield part["oneOf"]
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for child in children:
        yield from list_alternatives(child)


def test_operation_ids_stay_as_programs_know_them(document: dict[str, Any]) -> None:
    """Add new ones to the list; one that is changed or gone breaks clients that were generated before."""
    present = {f"{operation['operationId']} {name}" for name, operation in list_operations(document)}
    assert len({line.partition(" ")[0] for line in present}) == len(present)
    known = set(OPERATION_IDS.read_text().splitlines())
    assert sorted(known - present) == []


def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    with_examples = set()
    for name, operation in list_operations(document):
        parts = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media_type in (media for part in parts for media in part.get("content", {}).values()):
            for example in media_type.get("examples", {}).values():
                with_examples.add(name)
                schema = {**media_type["schema"], "components": document["components"]}
                Draft202012Validator(schema).validate(example["value"])
    assert with_examples >= {
        "POST /api/v1/pipelines/{id}/executions",
        "GET /api/v1/executions/{id}/log",
        "POST /api/v1/approvals/{id}/approve",
        "POST /api/v1/executions/{id}/rollback",
        "POST /api/v1/delegate-tokens",
        "POST /api/v1/delegates/task-spec",
    }
