"""What GET answers can be sent back, on every route that has both; what nobody sets may not differ."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import resolve, reverse
from rest_framework.test import APIClient

from connectors.models import Connector
from rbac.models import Scope, User
from tests.api.rows import ROWS
from tests.api.sample_project import World

pytestmark = pytest.mark.django_db
# What a change that changes nothing may leave otherwise.
MOVING = {"version", "updated_at", "updated_by"}


def addresses(world: World) -> Iterator[tuple[str, str, str]]:
    """Each address that can be read and changed: its name, itself and how it is changed."""
    for name, row in ROWS.items():
        changes = [ask for ask in row.asks if ask.method in ("put", "patch")]
        if name.startswith("api-") and changes:
            address = reverse(name, kwargs=row.kwargs(world))
            if hasattr(resolve(address).func.view_class, "get"):
                yield name, address + changes[0].query, changes[0].method


def drop_moving_fields(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in MOVING}


def create_git_connector(scope: Scope) -> Connector:
    return Connector.objects.create(
        scope=scope,
        identifier="repository",
        kind=Connector.Kind.GIT,
        spec={"url": "https://git.example.com/app.git"},
    )


def test_what_was_read_can_be_sent_back(world: World, admin: User) -> None:
    client = APIClient()
    client.force_authenticate(admin)
    # Saving a Git sync takes a connector, which the sample's does not have any more.
    world.git_sync.connector = create_git_connector(world.scope)
    world.git_sync.save()
    methods, refused = [], {}
    for name, address, method in addresses(world):
        read = client.get(address).json()
        answer = getattr(client, method)(address, read, format="json")
        if answer.status_code != 200 or drop_moving_fields(client.get(address).json()) != drop_moving_fields(
            read
        ):
            refused[name] = (
                answer.content[:300],
                {k: (v, read[k]) for k, v in client.get(address).json().items() if v != read[k]},
            )
        methods.append(method)
        read = client.get(address).json()
        key = "id" if "id" in read else "version"
        other = getattr(client, method)(address, {**read, key: 4711}, format="json")
        if other.status_code != 400 or [error["path"] for error in other.json()["errors"]][-1:] != [key]:
            refused[f"{name} with another {key}"] = other.content[:300]
    assert methods.count("put") >= 8
    assert methods.count("patch") >= 5
    assert not refused
