"""Resources of a Git sync are edited in Git: operations, API and pages say so."""

from collections.abc import Callable
from typing import Any

import asyncssh
import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.models import Environment, Infrastructure, Service
from connectors.host_keys import record_host_key
from connectors.models import Connector
from gitsync.models import GitSync, GitSyncResource
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.gitsync.conftest import RunPass

pytestmark = pytest.mark.django_db
PLACE = "slipway/services/web.yml, line 1, at commit"


@pytest.fixture
def rows(run_pass: RunPass) -> dict[str, Any]:
    """The rows that a sync has brought in, by the first part of their page's address."""
    run_pass()
    return {
        "services": Service.objects.get(),
        "environments": Environment.objects.get(),
        "infrastructures": Infrastructure.objects.get(),
        "pipelines": Pipeline.objects.get(),
    }


def test_the_api_refuses_changes_with_file_and_commit(
    rows: dict[str, Any], admin: User, call: Callable[[User], APIClient]
) -> None:
    client, service = call(admin), rows["services"]
    address = f"/api/v1/services/{service.pk}"
    for answer in (client.put(address, client.get(address).json(), format="json"), client.delete(address)):
        assert (answer.status_code, answer.json()["code"]) == (409, "managed_elsewhere")
        assert f"Managed by the Git sync Demo: {PLACE}" in answer.json()["detail"]
    pipeline = f"/api/v1/pipelines/{rows['pipelines'].pk}"
    body = {"yaml": rows["pipelines"].yaml}
    environment = rows["environments"].pk
    infrastructure = f"/api/v1/environments/{environment}/infrastructures/{rows['infrastructures'].pk}"
    assert client.put(pipeline, body, format="json").status_code == 409
    assert client.delete(pipeline).status_code == 409
    assert client.delete(f"/api/v1/environments/{environment}").status_code == 409
    assert client.delete(infrastructure).status_code == 409
    assert Service.objects.exists()


@pytest.mark.parametrize("kind", ["services", "environments", "pipelines"])
def test_pages_show_where_a_resource_is_managed_and_offer_no_save(
    rows: dict[str, Any], admin: User, browse: Callable[[User], Client], kind: str
) -> None:
    client, row = browse(admin), rows[kind]
    for page in ("", "edit/", "delete/"):
        content = client.get(f"/{kind}/{row.pk}/{page}").content.decode()
        assert "Managed by the Git sync Demo" in content, page
        assert "data-save" not in content
        assert '<button class="button danger">' not in content


def test_a_disabled_or_deleted_sync_leaves_its_resources_to_people(
    rows: dict[str, Any], admin: User, call: Callable[[User], APIClient]
) -> None:
    client, address = call(admin), f"/api/v1/services/{rows['services'].pk}"
    GitSync.objects.update(is_enabled=False, due_at=None)
    assert client.put(address, client.get(address).json(), format="json").status_code == 200
    GitSync.objects.all().delete()
    assert client.delete(f"{address}?although_used=true").status_code == 204


def test_a_new_host_key_of_a_connector_in_git_is_replaced_there(
    run_pass: RunPass, admin: User, project: Scope, browse: Callable[[User], Client]
) -> None:
    sync = run_pass()
    known, offered = (
        asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip() for _ in range(2)
    )
    spec = {"url": "ssh://git@git.example.com/team/app.git", "host_key": known, "authentication": "Anonymous"}
    connector = Connector.objects.create(
        scope=project, identifier="shop", name="Shop", kind=Connector.Kind.GIT, spec=spec
    )
    record_host_key(connector, "git.example.com:22", offered, is_refused=True)
    address = f"/connectors/{connector.pk}/host-key/"
    assert "the next sync takes back" not in browse(admin).get(address).content.decode()
    GitSyncResource.objects.create(
        sync=sync,
        path="slipway/shop.yaml",
        line=3,
        kind="Connector",
        place="default/demo",
        resource="shop",
        commit="2" * 40,
    )
    page = browse(admin).get(address).content.decode()
    assert "host_key in slipway/shop.yaml, line 3" in page
    assert " ".join(offered.split()[:2]) in page
