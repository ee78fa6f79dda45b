"""A client that knows only the OpenAPI document: it calls a web server, and checks each answer against it."""

from typing import Any

import pytest
import schemathesis
from pytest_django.live_server_helper import LiveServer
from schemathesis.checks import CHECKS, load_all_checks

from rbac.operations.api_keys import create_api_key
from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)
CONFORMANCE = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


class DocumentClient:
    """Client of the operations in the document at a URL, by their ids."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._document = schemathesis.openapi.from_url(f"{url}/api/schema/?format=json")
        self._headers = {"x-api-key": token}
        load_all_checks()

    def call(self, operation_id: str, *, key: str = "", **parts: Any) -> Any:
        """Send the request of an operation and return its answer, after all checks of conformance."""
        headers = self._headers | ({"Idempotency-Key": key} if key else {})
        operation = self._document.find_operation_by_id(operation_id)
        case = operation.Case(media_type="application/json" if "body" in parts else None, **parts)
        response = case.call_and_validate(
            base_url=self._url, headers=headers, checks=CHECKS.get_by_names(list(CONFORMANCE))
        )
        return response.json() if response.content else None


@pytest.fixture
def client(live_server: LiveServer, drive: Drive) -> DocumentClient:  # noqa: F811
    _, token = create_api_key(actor=drive.deployer, user=drive.deployer, name="a client")
    return DocumentClient(live_server.url, token)


def test_it_runs_a_pipeline_once_and_reads_the_execution(client: DocumentClient, drive: Drive) -> None:  # noqa: F811
    (pipeline,) = client.call("pipelines_list", query={"identifier": "rolling_demo"})["results"]
    run = {"path_parameters": {"id": pipeline["id"]}, "body": {"artifact": {"tag": "1.28"}}}
    started = client.call("pipelines_executions_create", key="build 7", **run)
    assert client.call("pipelines_executions_create", key="build 7", **run) == started
    place = {"id": started["id"]}
    assert client.call("executions_retrieve", path_parameters=place)["number"] == started["number"]
    assert client.call("executions_log_retrieve", path_parameters=place)["end"] is False
    assert client.call("executions_abort_create", path_parameters=place, body={"rollback": False})
    assert [row["id"] for row in client.call("executions_list")["results"]] == [started["id"]]


def test_a_refusal_is_as_described(client: DocumentClient) -> None:
    problem = client.call("pipelines_retrieve", path_parameters={"id": 999_999})
    assert (problem["status"], problem["code"]) == (404, "not_found")
