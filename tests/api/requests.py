"""What can be asked of an address, what it is asked with, and what it needs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.api.required_access import ADMIN, GRANTED, Need, Needs
from tests.api.sample_project import CANARY, PIPELINE, World
from tests.secret_watch.marker import planted

Build = Callable[[World], dict[str, Any]]


def nothing(world: World) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Ask:
    """One request and its required access; the expected status of each user is computed from it."""

    method: str
    need: Need
    body: Build = nothing
    query: str = ""
    is_form: bool = False

    @property
    def as_admin(self) -> int:
        """The status that an administrator of the account gets."""
        return self.need.status(ADMIN)


@dataclass(frozen=True)
class Row:
    """One named address and all requests to it."""

    asks: tuple[Ask, ...]
    kwargs: Build = field(default=nothing)


def use_key_of(attribute: str) -> Build:
    return lambda world: {"pk": getattr(world, attribute).pk}


def add_scope(**body: Any) -> Build:
    return lambda world: {**body, "org": world.scope.org, "project": world.scope.project}


def get(need: Need, query: str = "") -> Ask:
    return Ask("get", need, query=query)


def delete_used(permission: str) -> tuple[Ask, Ask]:
    """A thing that something else refers to goes only where that is agreed to."""
    agreed = Ask("delete", Needs(permission, 204), query="?although_used=true")
    return Ask("delete", Needs(permission, 409)), agreed


def allow_get(need: Need, kwargs: Build = nothing) -> Row:
    return Row((get(need),), kwargs)


def build_delete_row(permission: str, kwargs: Build) -> Row:
    """A page that asks before something goes which something else still refers to."""
    body = {"although_used": "on"}
    agreed = Ask("post", Needs(permission, 302), body=lambda world: body, is_form=True)
    refused = Ask("post", Needs(permission, 400), is_form=True)
    return Row((get(Needs(permission)), refused, agreed), kwargs)


def list_granted_permissions(role: str) -> tuple[str, ...]:
    """Return the permissions needed to grant a built-in role."""
    return tuple(sorted(GRANTED[role]))


def service_body(world: World) -> dict[str, Any]:
    return {"name": "Changed"}


def assignment_body(world: World) -> dict[str, Any]:
    principal = {"type": "service_account", "id": world.service_account.pk}
    return {"principal": principal, "role": "viewer", "scope": world.scope.path}


def resource_group_body(world: World) -> dict[str, Any]:
    entries = [{"resource": "pipeline", "identifier": "rolling"}, {"resource": "service"}]
    return {"name": "X", "scope": world.scope.path, "entries": entries}


def service_account_body(world: World) -> dict[str, Any]:
    return {"name": "X", "scope": world.scope.path}


def infrastructure_body(world: World) -> dict[str, Any]:
    return {"identifier": "new", "name": "New", "connector": "aws", "region": "us-east-1", "cluster": "demo"}


def input_set_of(world: World) -> dict[str, Any]:
    return {"pk": world.pipeline.pk, "number": world.input_set.pk}


def input_set_body(world: World) -> dict[str, Any]:
    return {"pipeline": world.pipeline.pk, "identifier": "mine", "name": "Mine"}


def infrastructure_change(world: World) -> dict[str, Any]:
    return {"name": "New", "connector": "aws", "region": "us-east-1", "cluster": "demo"}


def file_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "path": "/made.yaml", "content": "a: 1"}


def manifest_form(world: World) -> dict[str, Any]:
    return file_form(world) | {"content": "containerDefinitions: []"}


def connector_form(world: World) -> dict[str, Any]:
    return {
        "in_scope": world.scope.path,
        "name": "Made here",
        "credentials": "DefaultChain",
        "test_region": "us-east-1",
    }


def edited_delegate_form(world: World) -> dict[str, Any]:
    return {"description": "Changed here", "tags": "eu, prod"}


def secret_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "name": "Made here", "value": planted("a good secret")}


def rule_body(world: World) -> dict[str, Any]:
    return {"name": "X", "events": ["drift.found"], "url": f"https://example.com/{planted('hook')}"}


def new_rule_body(world: World) -> dict[str, Any]:
    return add_scope(identifier="x", **rule_body(world))(world)


def rule_form(world: World) -> dict[str, Any]:
    return {**rule_body(world), "in_scope": world.scope.path, "is_enabled": "on"}


def rule_edit_form(world: World) -> dict[str, Any]:
    return {"name": "X", "events": ["drift.gone"], "version": 1}


def service_account_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "name": "Made here"}


def token_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "name": "Made here"}


def delegate_form(world: World) -> dict[str, Any]:
    fields = {"in_scope": world.scope.path, "name": "made-here", "target": "FARGATE", "flavour": "v3"}
    return fields | {"region": "us-east-1", "secret_kind": "PLAINTEXT", "proxy_scheme": "http"}


def configuration(world: World) -> dict[str, Any]:
    return {"pk": world.delegate.configuration_id}


def configuration_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "name": "Made here", "timeout_seconds": 60}


def folder_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "path": "/made"}


def rows_of(prefix: str, **values: str) -> dict[str, str]:
    """One row of a form that takes any number of them."""
    rows = {f"{prefix}-TOTAL_FORMS": "1", f"{prefix}-INITIAL_FORMS": "0"}
    return rows | {f"{prefix}-0-{field}": value for field, value in values.items()}


def environment_form(world: World) -> dict[str, Any]:
    form = {"in_scope": world.scope.path, "name": "New", "kind": "Production"}
    return form | {"version": 1} | rows_of("variables", name="level", kind="String", value="info")


def template_form(world: World) -> dict[str, Any]:
    return {"strategy": "Canary"}


def pipeline_form(world: World) -> dict[str, Any]:
    return {"in_scope": world.scope.path, "yaml": OTHER_PIPELINE.replace(CANARY, "Another")}


def override_form(world: World) -> dict[str, Any]:
    rows = rows_of("variables", name="level", kind="String", value="debug")
    return {"version": 1} | rows | rows_of("manifests")


def new_override_form(world: World) -> dict[str, Any]:
    return override_form(world) | {"version": 0}


def override(world: World) -> dict[str, Any]:
    return {"pk": world.environment.pk, "service": world.service.pk}


def override_of_place(world: World) -> dict[str, Any]:
    return override(world) | {"infrastructure": world.infrastructure.pk}


def service_form(world: World) -> dict[str, Any]:
    manifest = rows_of("manifests", kind="EcsTaskDefinition", store="Inline", content=INLINE)
    return environment_form(world) | manifest


def place_form(world: World) -> dict[str, Any]:
    return {"name": "New", "connector": world.connector.pk, "region": "us-east-1", "cluster": "demo"} | {
        "version": 1
    }


def deployment_of(world: World) -> dict[str, Any]:
    return {"pk": world.service.pk, "deployment": world.execution.stages.get().pk}


def place(world: World) -> dict[str, Any]:
    return {"pk": world.environment.pk, "infrastructure": world.infrastructure.pk}


def version_of(world: World) -> dict[str, Any]:
    return {"pk": world.pipeline.pk, "number": 1}


INLINE = "family: app\ncontainerDefinitions:\n  - name: app\n    image: nginx\n    memory: 128\n"
IN_SCOPE = "?org=default&project=demo"
OTHER_PIPELINE = PIPELINE.replace("identifier: rolling", "identifier: another")
