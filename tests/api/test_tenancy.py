"""Every address × who asks: a new route without a row here fails, and nothing of another project shows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from config.urls import websocket_urlpatterns
from rbac.models import User
from tests.api.world import CANARY, PIPELINE, World

pytestmark = pytest.mark.django_db

WHO = ("anonymous", "stranger", "viewer", "deployer", "admin")
Statuses = tuple[int, int, int, int, int]

# Who gets what, in the order of WHO. A stranger has every right in another project.
EVERYBODY: Statuses = (200, 200, 200, 200, 200)
SIGNED_IN: Statuses = (401, 200, 200, 200, 200)
LIST: Statuses = SIGNED_IN
READ: Statuses = (401, 404, 200, 200, 200)
CREATE: Statuses = (401, 404, 403, 403, 201)
CHANGE: Statuses = (401, 404, 403, 403, 200)
DELETE: Statuses = (401, 404, 403, 403, 204)
IN_USE: Statuses = (401, 404, 403, 403, 409)
ADMIN_LIST: Statuses = LIST
PAGE: Statuses = (302, 200, 200, 200, 200)
PAGE_OF_ONE: Statuses = (302, 404, 200, 200, 200)
FORM: Statuses = (302, 404, 403, 302, 302)
# A stranger may make things too, but not here.
PAGE_TO_MAKE: Statuses = (302, 200, 403, 403, 200)
FORM_TO_MAKE: Statuses = (302, 400, 403, 403, 302)
PAGE_TO_CHANGE: Statuses = (302, 404, 403, 403, 200)
FORM_TO_CHANGE: Statuses = (302, 404, 403, 403, 302)

Build = Callable[[World], dict[str, Any]]


def nothing(world: World) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Ask:
    """One request and the status that each principal gets."""

    method: str
    statuses: Statuses
    body: Build = nothing
    query: str = ""
    is_form: bool = False


@dataclass(frozen=True)
class Row:
    """One named address and everything that can be asked of it."""

    asks: tuple[Ask, ...]
    kwargs: Build = field(default=nothing)


def of(attribute: str) -> Build:
    return lambda world: {"pk": getattr(world, attribute).pk}


def here(**body: Any) -> Build:
    return lambda world: {**body, "org": world.scope.org, "project": world.scope.project}


def get(statuses: Statuses, query: str = "") -> Ask:
    return Ask("get", statuses, query=query)


DELETE_USED = (Ask("delete", IN_USE), Ask("delete", DELETE, query="?although_used=true"))


def only(statuses: Statuses, kwargs: Build = nothing) -> Row:
    return Row((get(statuses),), kwargs)


def to_delete(kwargs: Build) -> Row:
    """A page that asks before something goes which something else still refers to."""
    agreed = Ask("post", FORM_TO_CHANGE, body=lambda world: {"although_used": "on"}, is_form=True)
    refused = Ask("post", (302, 404, 403, 403, 400), is_form=True)
    return Row((get(PAGE_TO_CHANGE), refused, agreed), kwargs)


def service_body(world: World) -> dict[str, Any]:
    return {"name": "Changed"}


def infrastructure_body(world: World) -> dict[str, Any]:
    return {"identifier": "new", "name": "New", "connector": "aws", "region": "us-east-1", "cluster": "demo"}


def file_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "path": "/made.yaml", "content": "a: 1"}


def connector_form(world: World) -> dict[str, Any]:
    return {
        "in_scope": world.scope.path,
        "name": "Made here",
        "credentials": "DefaultChain",
        "test_region": "us-east-1",
    }


def secret_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "name": "Made here", "value": "a good secret"}


def folder_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "path": "/made"}


def rows_of(prefix: str, **values: str) -> dict[str, str]:
    """One row of a form that takes any number of them."""
    rows = {f"{prefix}-TOTAL_FORMS": "1", f"{prefix}-INITIAL_FORMS": "0"}
    return rows | {f"{prefix}-0-{field}": value for field, value in values.items()}


def environment_form(world: World) -> dict[str, Any]:
    form = {"in_scope": world.scope.path, "name": "New", "kind": "Production"}
    return form | {"version": 1} | rows_of("variables", name="level", kind="String", value="info")


def pipeline_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "yaml": OTHER_PIPELINE.replace(CANARY, "Another")}


def override_form(world: World) -> dict[str, Any]:
    return {"version": 1} | rows_of("variables", name="level", kind="String", value="debug")


def override(world: World) -> dict[str, Any]:
    return {"pk": world.environment.pk, "service": world.service.pk}


def service_form(world: World) -> dict[str, Any]:
    manifest = rows_of("manifests", kind="EcsTaskDefinition", store="Inline", content=INLINE)
    return environment_form(world) | manifest


def place_form(world: World) -> dict[str, Any]:
    return {"name": "New", "connector": world.connector.pk, "region": "us-east-1", "cluster": "demo"} | {
        "version": 1
    }


def place(world: World) -> dict[str, Any]:
    return {"pk": world.environment.pk, "infrastructure": world.infrastructure.pk}


def version_of(world: World) -> dict[str, Any]:
    return {"pk": world.pipeline.pk, "number": 1}


INLINE = "family: app\ncontainerDefinitions:\n  - name: app\n    image: nginx\n    memory: 128\n"
IN_SCOPE = "?org=default&project=demo"
OTHER_PIPELINE = PIPELINE.replace("identifier: rolling", "identifier: another")

ROWS: dict[str, Row] = {
    # Signing in, probes, descriptions: for everybody.
    "sign-in": Row((get(EVERYBODY[:1] + (302,) * 4),)),
    "sign-out": Row((Ask("post", (302,) * 5, is_form=True),)),
    "admin-sign-in": Row((get((302, 403, 403, 403, 403)),)),
    "theme": Row((Ask("post", (302,) * 5, is_form=True),)),
    "healthz": only(EVERYBODY),
    "readyz": Row((get((503,) * 5),)),
    "schema": only(EVERYBODY),
    "api-docs": only(EVERYBODY),
    # Pages.
    "overview": only((302,) * 5),
    "executions": only(PAGE),
    "execution": only(PAGE_OF_ONE, of("execution")),
    "abort-execution": Row((Ask("post", FORM, is_form=True),), of("execution")),
    "roll-back-execution": Row((Ask("post", FORM, is_form=True),), of("execution")),
    "retry-execution": Row((Ask("post", FORM, is_form=True),), of("execution")),
    "pipelines": only(PAGE),
    "pipeline": only(PAGE_OF_ONE, of("pipeline")),
    "run-pipeline": Row(
        (
            get((302, 404, 403, 200, 200)),
            Ask("post", FORM, body=lambda world: {"tag": "v2"}, is_form=True),
        ),
        of("pipeline"),
    ),
    "new-pipeline": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=pipeline_form, is_form=True))),
    "check-pipeline": Row((Ask("post", (302, 404, 200, 200, 200), body=pipeline_form, is_form=True),)),
    "draw-pipeline": Row((Ask("post", (302, 200, 200, 200, 200), body=pipeline_form, is_form=True),)),
    "edit-pipeline": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask("post", FORM_TO_CHANGE, body=lambda world: {"yaml": PIPELINE, "version": 1}, is_form=True),
        ),
        of("pipeline"),
    ),
    "delete-pipeline": Row((get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, is_form=True)), of("pipeline")),
    "pipeline-history": Row((get(PAGE_OF_ONE), get(PAGE_OF_ONE, "?show=1")), of("pipeline")),
    "restore-pipeline": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), version_of),
    "services": only(PAGE),
    "service": only(PAGE_OF_ONE, of("service")),
    "new-service": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=service_form, is_form=True))),
    "edit-service": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=service_form, is_form=True)), of("service")
    ),
    "delete-service": to_delete(of("service")),
    "manifest-words": Row(
        (get((302, 200, 200, 200, 200), "?kind=EcsTaskDefinition"), get((302, 404, 404, 404, 404), "?kind=x"))
    ),
    "check-manifest": Row(
        (Ask("post", (302, 200, 200, 200, 200), body=service_form, is_form=True),),
    ),
    "new-environment": Row(
        (get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=environment_form, is_form=True))
    ),
    "environment": only(PAGE_OF_ONE, of("environment")),
    "edit-environment": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=environment_form, is_form=True)),
        of("environment"),
    ),
    "delete-environment": to_delete(of("environment")),
    "service-in-environment": Row(
        (get(PAGE_OF_ONE), Ask("post", FORM_TO_CHANGE, body=override_form, is_form=True)), override
    ),
    "clusters": only(PAGE_TO_CHANGE, of("environment")),
    "new-infrastructure": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=place_form, is_form=True)), of("environment")
    ),
    "edit-infrastructure": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=place_form, is_form=True)), place
    ),
    "delete-infrastructure": to_delete(place),
    "environments": only(PAGE),
    "connectors": only(PAGE),
    "test-connector": Row((Ask("post", (302, 404, 403, 302, 302), is_form=True),), of("connector")),
    "connector": only(PAGE_OF_ONE, of("connector")),
    "new-connector": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=connector_form, is_form=True))),
    "edit-connector": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 400), is_form=True)), of("connector")
    ),
    "delete-connector": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 409), is_form=True)), of("connector")
    ),
    "secrets": only(PAGE),
    "secret": only(PAGE_OF_ONE, of("secret")),
    "new-secret": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=secret_form, is_form=True))),
    "rotate-secret": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=secret_form, is_form=True)), of("secret")
    ),
    "rename-secret": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=secret_form, is_form=True)), of("secret")
    ),
    "delete-secret": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 409), is_form=True)), of("secret")
    ),
    "files": only(PAGE),
    "file": only(PAGE_OF_ONE, of("file")),
    "download-file": only(PAGE_OF_ONE, of("file")),
    "file-history": only(PAGE_OF_ONE, of("file")),
    "new-file": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=file_form, is_form=True))),
    "new-folder": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=folder_form, is_form=True))),
    "upload-files": Row((get(PAGE_TO_MAKE),)),
    "check-file": Row((Ask("post", (302, 404, 200, 200, 200), body=file_form, is_form=True),)),
    "edit-file": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask("post", FORM_TO_CHANGE, body=lambda world: {"content": "c: 3", "version": 1}, is_form=True),
        ),
        of("file"),
    ),
    "move-file": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask(
                "post",
                FORM_TO_CHANGE,
                body=lambda world: {"path": "/new.yaml", "although_used": "on"},
                is_form=True,
            ),
        ),
        of("file"),
    ),
    "delete-file": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask("post", FORM_TO_CHANGE, body=lambda world: {"although_used": "on"}, is_form=True),
        ),
        of("file"),
    ),
    "deleted-files": only(PAGE),
    "undelete-files": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("deletion")),
    "forget-files": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("deletion")),
    "restore-file": Row(
        (Ask("post", FORM_TO_CHANGE, is_form=True),), lambda world: {"pk": world.file.pk, "version": 1}
    ),
    # Who one is.
    "api-me": only(SIGNED_IN),
    "api-my-permissions": Row((get(READ, IN_SCOPE),)),
    "api-access-check": Row(
        (
            Ask(
                "post",
                SIGNED_IN,
                body=lambda world: {
                    "permissions": [{"permission": "core_pipeline_view", "org": "default", "project": "demo"}]
                },
            ),
        )
    ),
    # Access.
    "api-orgs": Row(
        (
            get(LIST),
            Ask("post", (401, 404, 404, 404, 201), body=lambda world: {"identifier": "x", "name": "X"}),
        )
    ),
    "api-org": Row(
        (
            get(READ),
            Ask("patch", (401, 404, 404, 404, 200), body=lambda world: {"name": "X"}),
        ),
        lambda world: {"org": "default"},
    ),
    "api-projects": Row(
        (
            get(LIST),
            Ask("post", (401, 404, 404, 404, 201), body=lambda world: {"identifier": "x", "name": "X"}),
        ),
        lambda world: {"org": "default"},
    ),
    "api-project": Row(
        (get(READ), Ask("patch", CHANGE, body=lambda world: {"name": "X"})),
        lambda world: {"org": "default", "project": "demo"},
    ),
    "api-roles": Row(
        (
            get(LIST),
            Ask("post", (401, 404, 403, 404, 201), body=here(identifier="x", name="X", permissions=[])),
        )
    ),
    "api-role": Row(
        (
            get(READ[:3] + (404, 200)),
            Ask(
                "put",
                (401, 404, 403, 404, 200),
                body=lambda world: {"name": "X", "permissions": ["core_pipeline_view"]},
            ),
            Ask("delete", (401, 404, 403, 404, 400)),
        ),
        of("role"),
    ),
    "api-role-assignments": Row(
        (get(LIST), Ask("post", (401, 404, 403, 404, 201), body=here(role="viewer", user="stranger")))
    ),
    "api-role-assignment": Row(
        (get((401, 404, 200, 404, 200)), Ask("delete", (401, 404, 403, 404, 204))), of("assignment")
    ),
    "api-keys": Row((get(LIST), Ask("post", (401, 201, 201, 201, 201), body=lambda world: {"name": "x"}))),
    "api-key": Row((get((401, 404, 404, 404, 200)), Ask("delete", (401, 404, 404, 404, 204))), of("key")),
    "api-audit": only(ADMIN_LIST),
    # Connectors, secrets, files.
    "api-connectors": Row(
        (
            get(LIST),
            Ask("post", CREATE, body=here(identifier="x", name="X", spec={"credentials": "DefaultChain"})),
        )
    ),
    "api-connector": Row(
        (
            get(READ),
            Ask("patch", CHANGE, body=lambda world: {"name": "X"}),
            Ask("delete", IN_USE),
        ),
        of("connector"),
    ),
    "api-connector-uses": only(READ, of("connector")),
    "api-secret-uses": only(READ, of("secret")),
    "api-connector-test": Row(
        (Ask("post", (401, 404, 403, 400, 400), body=lambda world: {"region": "nowhere"}),), of("connector")
    ),
    "api-connector-clusters": Row((get((401, 404, 403, 400, 400)),), of("connector")),
    "api-aws-regions": only(SIGNED_IN),
    "api-secrets": Row(
        (get(LIST), Ask("post", CREATE, body=here(identifier="x", name="X", value="a good secret")))
    ),
    "api-secret": Row(
        (get(READ), Ask("patch", CHANGE, body=lambda world: {"name": "X"}), Ask("delete", IN_USE)),
        of("secret"),
    ),
    "api-files": Row((get(LIST), Ask("post", CREATE, body=here(path="/x.yaml", content="a: 1")))),
    "api-file": Row(
        (
            get(READ, IN_SCOPE),
            Ask("put", CHANGE, body=lambda world: {"content": "b: 2"}, query=IN_SCOPE),
            Ask("delete", (401, 404, 403, 403, 409), query=IN_SCOPE),
            Ask("delete", DELETE, query=f"{IN_SCOPE}&although_used=1"),
        ),
        lambda world: {"path": "task.yaml"},
    ),
    "api-file-deletions": only(LIST),
    "api-file-deletion": Row((get(READ), Ask("delete", DELETE)), of("deletion")),
    "api-file-undeletion": Row((Ask("post", CHANGE),), of("deletion")),
    "api-file-checks": Row((Ask("post", READ, body=here(path="/x.yaml", content="a: 1")),)),
    "api-file-versions": only(READ, of("file")),
    "api-file-version": only(READ, lambda world: {"pk": world.file.pk, "version": 1}),
    "api-file-diff": Row((get(READ, "?from=1"), get((401, 404, 404, 404, 404), "?from=7")), of("file")),
    "api-file-restore": Row((Ask("post", CHANGE, body=lambda world: {"version": 1}),), of("file")),
    "api-file-move": Row(
        (
            Ask("post", IN_USE, body=lambda world: {"path": "/new.yaml"}),
            Ask("post", CHANGE, body=lambda world: {"path": "/new.yaml", "although_used": True}),
        ),
        of("file"),
    ),
    "api-file-uses": only(READ, of("file")),
    # Deployments.
    "api-services": Row((get(LIST), Ask("post", CREATE, body=here(identifier="x", name="X")))),
    "api-service": Row((get(READ), Ask("put", CHANGE, body=service_body), *DELETE_USED), of("service")),
    "api-environments": Row((get(LIST), Ask("post", CREATE, body=here(identifier="x", name="X")))),
    "api-environment": Row(
        (get(READ), Ask("put", CHANGE, body=service_body), *DELETE_USED), of("environment")
    ),
    "api-infrastructures": Row((get(READ), Ask("post", CREATE, body=infrastructure_body)), of("environment")),
    "api-infrastructure": Row(
        (get(READ), Ask("put", CHANGE, body=infrastructure_body), *DELETE_USED),
        place,
    ),
    "api-overrides": only(READ, of("environment")),
    "api-override": Row(
        (
            get(READ),
            Ask("put", CHANGE, body=lambda world: {"variables": {"level": "debug"}}),
            Ask("delete", CHANGE),
        ),
        override,
    ),
    "api-pipelines": Row((get(LIST), Ask("post", CREATE, body=here(yaml=OTHER_PIPELINE)))),
    "api-pipeline": Row(
        (get(READ), Ask("put", CHANGE, body=lambda world: {"yaml": PIPELINE}), Ask("delete", DELETE)),
        of("pipeline"),
    ),
    "api-pipeline-checks": Row((Ask("post", READ, body=here(yaml=OTHER_PIPELINE)),)),
    "api-pipeline-diff": Row(
        (get(READ, "?from=1"), get((401, 404, 404, 404, 404), "?from=7")), of("pipeline")
    ),
    "api-pipeline-versions": only(READ, of("pipeline")),
    "api-pipeline-version": only(READ, version_of),
    "api-restore-pipeline-version": Row((Ask("post", CHANGE),), version_of),
    "api-pipeline-executions": Row((get(READ), Ask("post", (401, 404, 403, 201, 201))), of("pipeline")),
    "api-pipeline-schema": only(SIGNED_IN),
    "api-executions": only(LIST),
    "api-execution": only(READ, of("execution")),
    "api-abort": Row((Ask("post", (401, 404, 403, 202, 202)),), of("execution")),
    "api-rollback": Row((Ask("post", (401, 404, 403, 202, 202)),), of("execution")),
    "api-retry": Row((Ask("post", (401, 404, 403, 409, 409)),), of("execution")),
    "api-log": Row((get(READ), get(READ, "?download=1")), of("execution")),
    "api-log-search": Row((get(READ), get(READ, "?q=x")), of("execution")),
    "api-calls": only(READ, of("execution")),
}


def names_of(patterns: list[Any]) -> Iterator[str]:
    for pattern in patterns:
        # The admin site has tests of its own, in tests/rbac/test_admin.py.
        if isinstance(pattern, URLResolver) and pattern.namespace != "admin":
            yield from names_of(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            yield pattern.name or f"without a name: {pattern.pattern}"


def test_every_address_has_a_row():
    assert set(names_of(get_resolver().url_patterns)) == set(ROWS)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        pytest.param(name, ask, id=f"{name}-{ask.method}{ask.query}")
        for name, row in ROWS.items()
        for ask in row.asks
    ],
)
def test_everybody_gets_what_is_theirs_and_no_more(
    name: str, ask: Ask, world: World, stranger: User, viewer: User, deployer: User, admin: User
):
    people = (AnonymousUser(), stranger, viewer, deployer, admin)
    found: dict[str, int] = {}
    for who, person in zip(WHO, people, strict=True):
        with transaction.atomic():
            response = send(person, name, ask, world)
            transaction.set_rollback(True)
        found[who] = response.status_code
        if who in ("anonymous", "stranger"):
            assert CANARY not in response.content.decode("utf-8", "replace"), f"{who} sees what is foreign"
    assert found == dict(zip(WHO, ask.statuses, strict=True))


def send(person: User | AnonymousUser, name: str, ask: Ask, world: World) -> Any:
    client = Client(raise_request_exception=True)
    if isinstance(person, User):
        client.force_login(person)
    address = reverse(name, kwargs=ROWS[name].kwargs(world)) + ask.query
    if ask.method == "get":
        return client.get(address)
    if ask.is_form:
        return client.post(address, ask.body(world))
    return getattr(client, ask.method)(address, ask.body(world), content_type="application/json")


READABLE = [
    name
    for name, row in ROWS.items()
    if row.kwargs is not nothing and any(a.statuses == READ for a in row.asks)
]
MISSING = {"int": 999_999, "UUID": "00000000-0000-4000-8000-000000000000", "str": "nothing"}


@pytest.mark.parametrize("name", READABLE)
def test_nothing_tells_a_foreign_id_from_one_that_never_was(name: str, world: World, stranger: User):
    client = Client()
    client.force_login(stranger)
    kwargs = ROWS[name].kwargs(world)
    foreign = client.get(reverse(name, kwargs=kwargs)).json()
    missing = {key: MISSING[type(value).__name__] for key, value in kwargs.items()}
    nowhere = client.get(reverse(name, kwargs=missing)).json()
    assert {**foreign, "request_id": ""} == {**nowhere, "request_id": ""}


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("api-") and name != "api-docs"])
def test_anonymous_programs_are_told_how_to_sign_in(name: str, world: World):
    response = send(AnonymousUser(), name, ROWS[name].asks[0], world)
    assert response["WWW-Authenticate"] == 'Bearer realm="slipway"'
    assert response["Content-Type"] == "application/problem+json"


async def close_code_of(person: User | AnonymousUser, execution: object) -> int | None:
    """Open the socket of an execution and return the code it is closed with, None where it stays open."""
    address = f"/ws/executions/{execution}/"
    scope = {"type": "websocket", "path": address, "query_string": b"", "headers": [], "user": person}
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=5))["type"] == "websocket.accept"
    message = await socket.receive_output(timeout=5)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(timeout=5)
    return message.get("code") if message["type"] == "websocket.close" else None


@pytest.mark.django_db(transaction=True)
def test_sockets_open_for_those_who_may_see_the_execution(
    world: World, stranger: User, viewer: User, deployer: User, admin: User
):
    people = (AnonymousUser(), stranger, viewer, deployer, admin)
    codes = [async_to_sync(close_code_of)(person, world.execution.pk) for person in people]
    assert codes == [4401, 4403, None, None, None]
    assert [str(pattern.pattern) for pattern in websocket_urlpatterns] == ["ws/executions/<uuid:pk>/"]
