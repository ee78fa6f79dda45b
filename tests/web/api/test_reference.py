"""Pages of the API reference: everything of the OpenAPI document, in the frame of the other pages."""

import re
import shlex

import pytest
from django.test import Client

from tests.rbac.people import project, user
from web.api.examples import build_curl, build_example
from web.api.openapi import get_public_schema
from web.api.reference import list_resources

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(user("anna", "viewer", project()))
    return client


def read(client: Client, address: str) -> str:
    response = client.get(address)
    assert (response.status_code, response["Content-Type"]) == (200, "text/html; charset=utf-8")
    return response.content.decode()


def test_each_operation_of_the_document_is_described_once() -> None:
    described = [
        (operation.method.lower(), operation.path)
        for resource in list_resources()
        for operation in resource.operations
    ]
    document = get_public_schema()
    assert sorted(described) == sorted(
        (method, path) for path, methods in document["paths"].items() for method in methods
    )


def test_the_list_leads_to_each_operation(reader: Client) -> None:
    page = read(reader, "/api/docs/")
    for resource in list_resources():
        for operation in resource.operations:
            assert f'href="/api/docs/{resource.tag}/#{operation.id}"' in page
    assert re.search(r'<a class="button" href="/api/schema/" download>', page)


def test_a_search_shows_the_operations_with_all_its_words(reader: Client) -> None:
    page = read(reader, "/api/docs/?q=POST+Rotate")
    assert re.findall(r'<span class="method">(\w+)</span> <code>([^<]+)', page) == [
        ("POST", "/api/v1/api-keys/{id}/rotate")
    ]
    assert "No matching operations" in read(reader, "/api/docs/?q=nothing+like+it")
    assert "&lt;script&gt;" in read(reader, "/api/docs/?q=<script>")


def test_a_resource_shows_parameters_body_responses_and_an_example(reader: Client) -> None:
    page = read(reader, "/api/docs/connectors/")
    for part in ("Parameters", "Body", "Response 201", "x-api-key: $SLIPWAY_API_KEY"):
        assert part in page
    targets = set(re.findall(r'href="#(type-\w+)"', page))
    assert targets
    assert targets <= set(re.findall(r'id="([\w-]+)"', page))


def test_pages_have_the_frame_of_the_product_and_the_chosen_theme(reader: Client) -> None:
    reader.cookies["slipway_theme"] = "dark"
    for address in ("/api/docs/", "/api/docs/executions/"):
        page = read(reader, address)
        assert 'data-theme="dark"' in page
        assert '<nav class="nav" aria-label="Main">' in page
        assert "default / demo" in page
        assert not re.search(r"<style|<script>|style=|onclick=", page)


def test_programs_authors_read_it_without_signing_in(client: Client) -> None:
    page = read(client, "/api/docs/services/")
    assert 'href="/sign-in/?next=/api/docs/services/"' in page
    assert 'aria-label="Main"' not in page


def test_an_unknown_resource_is_a_page_that_is_not_there(client: Client) -> None:
    response = client.get("/api/docs/nothing/")
    assert (response.status_code, response["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_examples_are_commands_of_the_shell() -> None:
    operation = {
        "parameters": [
            {"in": "path", "name": "id", "required": True},
            {"in": "query", "name": "region", "required": True},
            {"in": "query", "name": "limit"},
        ],
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}},
    }
    schemas = {
        "A": {"properties": {"note": {"type": "string", "default": "it's"}, "b": {}}, "required": ["note"]}
    }
    command = build_curl("POST", "https://slipway.example.com/a/{id}", operation, schemas)
    words = shlex.split(command)
    assert words[:4] == ["curl", "-X", "POST", "https://slipway.example.com/a/$ID?region=$REGION"]
    assert words[-1] == '{\n  "note": "it\'s"\n}'


def test_examples_of_types_that_contain_themselves_end() -> None:
    node = {
        "type": "object",
        "required": ["nodes", "id"],
        "properties": {
            "nodes": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
            "id": {"type": "string", "readOnly": True},
        },
    }
    assert build_example(node, {"Node": node}) == {"nodes": [{"nodes": [{}]}]}
