"""Idempotency keys: whatever a POST creates is created once, and a repeated request gets the first answer."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from connectors.models import Secret
from delegates.models import DelegateToken
from rbac.models import ApiKey, AuditEntry, RoleAssignment, Scope, User
from rbac.operations.api_keys import create_api_key
from tests.api.sample_project import World
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted
from web.api.openapi import get_public_schema
from web.models import IdempotentRequest
from web.retention import prune_group

pytestmark = pytest.mark.django_db
CallAs = Callable[[User], APIClient]
SECRETS = "/api/v1/secrets"


@pytest.fixture
def client(admin: User, call: CallAs) -> APIClient:
    return call(admin)


def post(client: APIClient, path: str, body: Any, key: str = "first") -> Any:
    return client.post(path, body, format="json", headers={"Idempotency-Key": key})


def build_secret(world: World, identifier: str = "password") -> dict[str, str]:
    return {
        "identifier": identifier,
        "name": "Password",
        "value": planted("a value"),
        "org": world.scope.org,
        "project": world.scope.project,
    }


def test_a_repeated_request_gets_the_first_answer_and_creates_nothing(
    world: World, client: APIClient
) -> None:
    first = post(client, SECRETS, build_secret(world))
    again = post(client, SECRETS, build_secret(world))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert ("Idempotency-Replayed" in first, again["Idempotency-Replayed"]) == (False, "true")
    assert Secret.objects.filter(identifier="password").count() == 1


def test_who_has_lost_the_permission_gets_no_answer_again(
    world: World, client: APIClient, call: CallAs, project: Scope
) -> None:
    person = make_person("creator", "project_admin", project)
    program = call(person)
    created = post(program, SECRETS, build_secret(world))
    again = post(program, SECRETS, build_secret(world))
    assert (created.status_code, again.status_code) == (201, 201)
    RoleAssignment.objects.filter(user=person).delete()
    refused = post(program, SECRETS, build_secret(world))
    assert refused.status_code in (403, 404)
    assert "Idempotency-Replayed" not in refused
    assert AuditEntry.objects.filter(action="secret.create").count() == 1


def test_the_order_of_fields_does_not_matter(world: World, client: APIClient) -> None:
    body = build_secret(world)
    first = post(client, SECRETS, body)
    again = post(client, SECRETS, dict(reversed(body.items())))
    assert again.json() == first.json()


def test_a_key_with_another_body_or_query_is_refused(world: World, client: APIClient) -> None:
    post(client, SECRETS, build_secret(world))
    for path, body in ((SECRETS, build_secret(world, "other")), (f"{SECRETS}?org=a", build_secret(world))):
        response = post(client, path, body)
        assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
    assert not Secret.objects.filter(identifier="other").exists()


def test_a_refused_request_leaves_its_key_free(world: World, client: APIClient) -> None:
    assert post(client, SECRETS, {**build_secret(world), "identifier": "no good"}).status_code == 400
    assert not IdempotentRequest.objects.exists()
    assert post(client, SECRETS, build_secret(world)).status_code == 201


def test_keys_of_other_callers_and_addresses_do_not_meet(world: World, client: APIClient) -> None:
    first = post(client, SECRETS, build_secret(world))
    _, token = create_api_key(actor=world.member, user=world.member, name="a program")
    other = APIClient(headers={"x-api-key": token})
    assert post(other, SECRETS, build_secret(world)).status_code != 201
    group = {"identifier": "crew", "name": "Crew", "scope": world.scope.path}
    assert "Idempotency-Replayed" not in post(client, "/api/v1/user-groups", group)
    assert first.status_code == 201


@pytest.mark.parametrize("kind", ["api-keys", "delegate-tokens"])
def test_a_secret_that_is_shown_once_is_not_kept(kind: str, world: World, client: APIClient) -> None:
    field = {"api-keys": "key", "delegate-tokens": "token"}[kind]
    first = post(client, f"/api/v1/{kind}", {"name": "once"})
    again = post(client, f"/api/v1/{kind}", {"name": "once"})
    assert first.status_code == 201, first.json()
    assert (again.status_code, again.json()["code"]) == (409, "already_created")
    assert f"id {first.json()['id']}" in again.json()["detail"]
    assert again.json()["errors"] == [{"path": "id", "message": str(first.json()["id"])}]
    assert first.json()[field] not in IdempotentRequest.objects.get().content
    assert (ApiKey if field == "key" else DelegateToken).objects.filter(name="once").count() == 1


def test_a_new_answer_with_a_secret_is_noticed() -> None:
    document = get_public_schema()
    shown = {
        path: name
        for path, methods in document["paths"].items()
        for name in ("key", "token", "secret")
        if methods.get("post", {}).get("security")
        if name in _get_created_fields(methods.get("post", {}), document["components"]["schemas"])
    }
    assert shown == {
        "/api/v1/api-keys": "key",
        "/api/v1/delegate-tokens": "token",
        "/api/v1/git-syncs/{id}/webhook": "secret",
        "/api/v1/triggers": "secret",
        "/api/v1/triggers/{id}/secret": "secret",
        # These name something, and are no secrets.
        "/api/v1/acceptance-runs": "key",
        "/api/v1/connectors": "secret",
    }


def _get_created_fields(operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("responses", {}).get("201", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    return dict(schemas.get(reference.rpartition("/")[2], {}).get("properties", {}))


def test_a_key_can_be_used_again_after_a_day_even_before_it_is_pruned(
    world: World, client: APIClient
) -> None:
    post(client, SECRETS, build_secret(world))
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert post(client, SECRETS, build_secret(world, "other")).status_code == 201
    assert IdempotentRequest.objects.count() == 1


def test_answers_go_after_a_day(world: World, client: APIClient) -> None:
    post(client, SECRETS, build_secret(world))
    assert prune_group("idempotency", timezone.now() + timedelta(hours=23)) == 0
    assert prune_group("idempotency", timezone.now() + timedelta(hours=25)) == 1


def test_a_kept_answer_is_encrypted(world: World, client: APIClient) -> None:
    post(client, SECRETS, build_secret(world))
    (stored,) = IdempotentRequest.objects.values_list("content", flat=True)
    assert "Password" not in stored.token


def test_every_post_that_creates_something_documents_the_header() -> None:
    for path, methods in get_public_schema()["paths"].items():
        operation = methods.get("post", {})
        names = [parameter["name"] for parameter in operation.get("parameters", ())]
        is_creating = "201" in operation.get("responses", ())
        assert not (is_creating and operation.get("security")) or "Idempotency-Key" in names, path
        assert ("422" in operation.get("responses", ())) == ("Idempotency-Key" in names), path


def test_a_route_without_authentication_ignores_the_header() -> None:
    body = {"code": "unknown", "verifier": "v" * 43}
    response = post(APIClient(), "/api/v1/command-line-sign-ins", body)
    assert 400 <= response.status_code < 500
    assert not IdempotentRequest.objects.exists()
