"""A deletion by the API of what somebody else is changing at this moment."""

import threading
import time
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F, Model
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from rbac.models import User
from tests.api.rows import ROWS
from tests.api.sample_project import World
from tests.fixtures.threads import run_concurrently, split

pytestmark = pytest.mark.django_db(transaction=True)
# What a deletion needs at least to come to the row, while the change of it is not committed yet.
HEAD_START_SECONDS = 0.3


def test_a_deletion_waits_for_a_change_and_is_refused_as_too_late(world: World, admin: User) -> None:
    client = APIClient()
    client.force_authenticate(admin)
    statuses: dict[str, int] = {}
    for kind, address in list_deletable(world).items():
        response = client.get(address)
        if "ETag" in response:
            statuses[kind] = delete_during_change(client, getattr(world, kind), address, response["ETag"])
    assert len(statuses) >= 14, "Most kinds have an entity tag."
    assert statuses == dict.fromkeys(statuses, 412)


def list_deletable(world: World) -> dict[str, str]:
    """Return the addresses of the world's objects that take DELETE, by the names of its fields."""
    deletions = {
        name.removeprefix("api-").replace("-", "_"): (name, ask)
        for name, row in ROWS.items()
        for ask in row.asks
        if ask.method == "delete" and name.startswith("api-")
    }
    return {
        kind: reverse(name, kwargs=ROWS[name].kwargs(world)) + ask.query
        for kind, (name, ask) in deletions.items()
        if hasattr(world, kind)
    }


def delete_during_change(client: APIClient, row: Model, address: str, tag: str) -> int:
    """Delete the version `tag` of a row while a change of it is written; return the status."""
    has_changed = threading.Event()

    def change() -> int:
        with transaction.atomic():
            type(row)._default_manager.filter(pk=row.pk).update(**build_next_version(row))
            has_changed.set()
            time.sleep(HEAD_START_SECONDS)
        return 0

    def delete() -> int:
        has_changed.wait(10)
        parameters = "although_used=true&with_content=true"
        address_with_consent = f"{address}{'&' if '?' in address else '?'}{parameters}"
        response = client.delete(address_with_consent, HTTP_IF_MATCH=tag)
        return response.status_code

    results, errors = split(run_concurrently(change, delete))
    assert errors == []
    return results[1]


def build_next_version(row: Model) -> dict[str, Any]:
    """Return the values of the columns that the entity tag is made from, as a change sets them."""
    has_number = any(field.name == "version" for field in row._meta.get_fields())
    return {"version": F("version") + 1} if has_number else {"updated_at": timezone.now()}
