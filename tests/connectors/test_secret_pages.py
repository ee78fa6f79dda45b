"""The pages of secrets: a value goes in, as text or as a file, and never comes out."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from rest_framework.test import APIClient

from connectors.models import Connector, Secret
from connectors.operations import create_secret
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from tests.api.sample_project import CANARY, make_world
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted

Browse = Callable[[User], Client]
PEM = planted("-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\n")


@pytest.fixture
def secret(project: Scope, admin: User) -> Secret:
    return create_secret(
        actor=admin, scope=project, identifier="db", name="Database", value=planted("first value")
    )


def text_of(response: Any) -> str:
    return str(response.content.decode())


def test_a_text_is_kept_as_it_is_and_never_shown(project: Scope, admin: User, browse: Browse) -> None:
    client = browse(admin)
    form = {"in_scope": project.path, "name": "Database password", "value": f"  {planted('spaces stay')}  "}
    page = text_of(client.post("/secrets/new/", form, follow=True))
    secret = Secret.objects.get()
    assert (secret.identifier, secret.value, secret.kind) == (
        "database_password",
        f"  {planted('spaces stay')}  ",
        "Text",
    )
    assert "spaces stay" not in page + text_of(client.get("/secrets/"))


def test_a_file_keeps_its_name(project: Scope, admin: User, browse: Browse) -> None:
    file = SimpleUploadedFile("key.pem", PEM.encode())
    browse(admin).post("/secrets/new/", {"in_scope": project.path, "name": "Key", "file": file})
    secret = Secret.objects.get()
    assert (secret.value, secret.kind, secret.file_name) == (PEM, "File", "key.pem")


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "value"),
        ({"value": "short"}, "value"),
        ({"value": planted("long enough"), "file": SimpleUploadedFile("a", b"long enough")}, "value"),
        ({"file": SimpleUploadedFile("a.p12", b"\xff\xfe binary")}, "file"),
        ({"file": SimpleUploadedFile("a", b"x" * (64 * 1024 + 1))}, "file"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused_and_not_echoed(
    project: Scope, admin: User, browse: Browse, data: dict[str, Any], field: str
) -> None:
    form = {"in_scope": project.path, "name": "Key", **data}
    response = browse(admin).post("/secrets/new/", form)
    assert response.status_code == 400
    assert field in response.context["form"].errors
    assert "long enough" not in text_of(response)
    assert not Secret.objects.exists()


def test_a_rotation_replaces_the_value_for_all_who_use_it(
    secret: Secret, admin: User, browse: Browse
) -> None:
    Connector.objects.create(scope=secret.scope, identifier="aws", name="Production", secret=secret)
    client = browse(admin)
    assert "connector Production" in text_of(client.get(f"/secrets/{secret.pk}/rotate/"))
    client.post(f"/secrets/{secret.pk}/rotate/", {"value": planted("second value")})
    secret = Secret.objects.get()
    assert (secret.value, secret.version) == (planted("second value"), 2)
    entry = AuditEntry.objects.get(action="secret.update")
    assert entry.after == {
        "identifier": "db",
        "name": "Database",
        "kind": "Text",
        "version": 2,
        "value_changed": True,
    }


def test_a_rename_keeps_value_and_version(secret: Secret, admin: User, browse: Browse) -> None:
    browse(admin).post(f"/secrets/{secret.pk}/rename/", {"name": "Orders"})
    secret = Secret.objects.get()
    assert (secret.name, secret.value, secret.version) == ("Orders", planted("first value"), 1)


def test_a_used_secret_stays_until_nothing_uses_it(secret: Secret, admin: User, browse: Browse) -> None:
    connector = Connector.objects.create(scope=secret.scope, identifier="aws", name="AWS", secret=secret)
    client = browse(admin)
    assert "connector AWS" in text_of(client.get(f"/secrets/{secret.pk}/delete/"))
    assert client.post(f"/secrets/{secret.pk}/delete/").status_code == 409
    connector.delete()
    client.post(f"/secrets/{secret.pk}/delete/")
    assert not Secret.objects.exists()


def test_a_secret_tells_who_uses_it_through_its_connectors_too(
    project: Scope, admin: User, browse: Browse, call: Callable[[User], APIClient]
) -> None:
    world = make_world(project, admin, admin)
    page = text_of(browse(admin).get(f"/secrets/{world.secret.pk}/"))
    assert f"connector {CANARY} AWS" in page
    assert f"infrastructure {CANARY} sandbox of {CANARY} dev" in page
    uses = call(admin).get(f"/api/v1/secrets/{world.secret.pk}/uses").json()
    assert [use["url"] for use in uses["results"]] == [
        f"/connectors/{world.connector.pk}/",
        f"/environments/{world.environment.pk}/",
    ]


def test_uses_that_somebody_may_not_see_are_a_number(
    project: Scope, admin: User, call: Callable[[User], APIClient]
) -> None:
    world = make_world(project, admin, admin)
    reader = make_person("reader")
    role = Role.objects.create(scope=project, identifier="reader", name="Reader")
    role.set_permissions(["core_secret_view"])
    RoleAssignment.objects.create(scope=project, role=role, user=reader)
    uses = call(reader).get(f"/api/v1/secrets/{world.secret.pk}/uses").json()
    assert uses == {"results": [], "hidden": 2}
