"""Bodies with keys that nobody reads: refused by their name, on every route, however deep."""

import pytest
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from rbac.models import User
from tests.api.rows import ROWS
from tests.api.sample_project import World

pytestmark = pytest.mark.django_db
SURPRISE = "surprise4711"


@pytest.fixture
def client(admin: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(admin)
    return client


def test_a_key_that_nobody_reads_is_refused_by_its_name(world: World, client: APIClient) -> None:
    request_count, accepted = 0, {}
    for name, row in ROWS.items():
        for ask in row.asks:
            if name.startswith("api-") and ask.method in ("post", "put", "patch"):
                request_count += 1
                address = reverse(name, kwargs=row.kwargs(world)) + ask.query
                answer = getattr(client, ask.method)(address, {**ask.body(world), SURPRISE: 1}, format="json")
                if answer.status_code != 400 or [e["path"] for e in answer.json()["errors"]] != [SURPRISE]:
                    accepted[f"{ask.method} {name}"] = answer.content[:200]
    assert request_count > 60
    assert not accepted


def test_a_key_deep_inside_is_named_with_its_path(world: World, client: APIClient) -> None:
    manifest = {"identifier": "m", "kind": "EcsTaskDefinition", SURPRISE: 1}
    body = {"name": "x", "manifests": [manifest], "artifact": {"image": "nginx", SURPRISE: 2}}
    answer = client.put(f"/api/v1/services/{world.service.pk}", body, format="json")
    errors = {error["path"]: error["message"] for error in answer.json()["errors"]}
    assert errors.keys() == {f"manifests.0.{SURPRISE}", f"artifact.{SURPRISE}"}
    assert errors[f"artifact.{SURPRISE}"] == "unknown field; use one of image, source, tag"


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({"name": 0}, "name", "must be a text"),
        ({"name": True}, "name", "must be a text"),
        ({"name": "x", "required_variables": [1.5]}, "required_variables.0", "must be a text"),
        ({"name": "x", "artifact": {"image": 7}}, "artifact.image", "must be a text"),
    ],
)
def test_a_value_of_another_type_is_refused_and_not_turned_into_one(
    body: dict[str, object], path: str, message: str, world: World, client: APIClient
) -> None:
    answer = client.put(f"/api/v1/services/{world.service.pk}", body, format="json")
    assert answer.status_code == 400
    assert {"path": path, "message": message} in answer.json()["errors"]


@pytest.mark.parametrize("name", ["ca_host_path", "image"])
def test_a_field_of_our_own_reads_no_text_out_of_a_number(name: str, world: World, client: APIClient) -> None:
    answer = client.patch(f"/api/v1/delegates/{world.delegate.pk}/setup", {name: 0}, format="json")
    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"path": name, "message": "must be a text"}]


def test_truth_and_numbers_are_not_read_out_of_texts(world: World, client: APIClient) -> None:
    abort = client.post(f"/api/v1/executions/{world.execution.pk}/abort", {"rollback": "yes"}, format="json")
    assert abort.json()["errors"] == [{"path": "rollback", "message": "must be true or false"}]
    version = client.post(f"/api/v1/file-nodes/{world.file.pk}/restore", {"version": "1"}, format="json")
    assert version.json()["errors"] == [{"path": "version", "message": "must be a whole number"}]


@pytest.mark.parametrize(("number", "status"), [(1, 200), (1.0, 200), (1.5, 400)])
def test_a_whole_number_may_have_a_decimal_point(
    number: float, status: int, world: World, client: APIClient
) -> None:
    answer = client.post(f"/api/v1/file-nodes/{world.file.pk}/restore", {"version": number}, format="json")
    assert answer.status_code == status, answer.json()


def test_the_description_says_so() -> None:
    described = SchemaGenerator().get_schema(request=None, public=True)["components"]["schemas"]
    for name in ("ServiceInput", "ManifestFields", "RunInput"):
        assert described[name]["additionalProperties"] is False, name
    assert "additionalProperties" not in described["ServiceDocument"]
