"""Permissions required on a resource and on everything it uses (R082)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, Q, QuerySet

from connectors.file_store import FileNotInStore, list_referenced_nodes
from connectors.models import Connector, FileNode
from rbac.models import RolePermission, Scope, User
from rbac.permissions import BUILTIN_ROLES, get_view_permission
from rbac.policy import Forbidden, NotVisible, Principal, cache_permissions, can, filter_visible
from web.http.problems import Problem

_MAX_NAMED = 3
_GRANT_PERMISSION = "core_user_manage"


@dataclass(frozen=True)
class RequiredPermission:
    """Permission required on a resource; `path` is its position in a document.

    Users without view access see `hint`. Without a hint the resource does not exist for them.
    """

    permission: str
    resource: Any
    title: str
    hint: str = ""
    path: str = ""

    @property
    def scope(self) -> Scope:
        scope: Scope = self.resource.scope
        return scope


@dataclass(frozen=True)
class MissingPermission:
    """Missing permission, and whether the user may view the resource."""

    requirement: RequiredPermission
    is_visible: bool
    message: str

    def to_json(self) -> dict[str, str]:
        return {"path": self.requirement.path, "message": self.message}


class MissingAccess(Problem, Forbidden):
    """Error raised for missing access; each problem names resource, permission and its grantors."""

    status = 403
    code = "forbidden"

    def __init__(self, missing_permissions: Sequence[MissingPermission]) -> None:
        messages = " ".join(missing.message for missing in missing_permissions[:_MAX_NAMED])
        hidden_count = len(missing_permissions) - _MAX_NAMED
        Problem.__init__(
            self,
            f"{messages} And {hidden_count} more." if hidden_count > 0 else messages,
            errors=[missing.to_json() for missing in missing_permissions],
        )
        # Both parents write the text; pages print it.
        self.args, self.permission = (self.detail,), missing_permissions[0].requirement.permission


def require_access(person: Principal, needs: Iterable[RequiredPermission]) -> None:
    """Check all required permissions.

    Raises `MissingAccess` with the missing ones, `NotVisible` for a resource that the user may not view.
    """
    missing_permissions = find_missing_permissions(person, needs)
    if any(not missing.is_visible and not missing.requirement.hint for missing in missing_permissions):
        raise NotVisible("Not found, or you cannot view it.")
    if missing_permissions:
        raise MissingAccess(missing_permissions)


def find_missing_permissions(
    person: Principal, needs: Iterable[RequiredPermission]
) -> list[MissingPermission]:
    """Return the missing permissions of a user; a query for each permission, and two or three in all."""
    required: dict[tuple[str, type[Model]], dict[Any, RequiredPermission]] = defaultdict(dict)
    for need in needs:
        required[need.permission, type(need.resource)].setdefault(need.resource.pk, need)
    missing = []
    with cache_permissions():
        for (permission, model), by_key in required.items():
            rows = model._default_manager.filter(pk__in=by_key)
            allowed = set(filter_visible(person, permission, rows).values_list("pk", flat=True))
            missing += [need for key, need in by_key.items() if key not in allowed]
        return [_build_missing_permission(person, need) for need in missing]


def get_connector_requirements(
    connector: Connector, *, hint: str = "", path: str = ""
) -> Iterator[RequiredPermission]:
    """Yield the permissions required to use a connector and its secret."""
    yield RequiredPermission(
        "core_connector_access", connector, f"the connector {connector.identifier}", hint, path
    )
    yield from get_secret_requirements(connector, path=path)


def get_secret_requirements(connector: Connector, *, path: str = "") -> Iterator[RequiredPermission]:
    """Yield the permissions required to use the secrets of a connector, if any."""
    for secret in filter(None, (connector.secret, connector.session_token)):
        title = f"the secret {secret.identifier} of the connector {connector.identifier}"
        yield RequiredPermission("core_secret_access", secret, title, "the secret of the connector", path)


def get_file_requirements(
    refs: Iterable[str], scope: Scope, *, hint: str = "", path: str = ""
) -> Iterator[RequiredPermission]:
    """Yield the permissions required to use files by references from `scope`; missing files are left out.

    Without a `hint`, errors name the reference, because the user wrote it.
    """
    for ref in dict.fromkeys(refs):
        try:
            nodes: list[FileNode] = list_referenced_nodes(scope, ref)
        except FileNotInStore:
            continue
        for node in nodes:
            title = f"the file {node.path}"
            yield RequiredPermission("core_file_access", node, title, hint or f"the file {ref}", path)


def _build_missing_permission(person: Principal, need: RequiredPermission) -> MissingPermission:
    is_visible = can(person, get_view_permission(need.permission), need.resource)
    resource = f"{need.title} in {need.scope}" if is_visible else need.hint
    granting_role = min(
        (role for role in BUILTIN_ROLES if need.permission in role.permissions), key=_count_permissions
    ).name
    sentence = (
        f"You need {need.permission} on {resource}. The role {granting_role} in that scope grants it; "
        f"{_describe_grantors(person, need)}."
    )
    return MissingPermission(need, is_visible, sentence)


def _count_permissions(role: Any) -> int:
    return len(role.permissions)


def _describe_grantors(person: Principal, need: RequiredPermission) -> str:
    """Return the people to contact, with the names that the user may view."""
    scope = need.scope
    if can(person, "core_user_view", scope):
        names = list(_get_grantors(need.permission, scope).values_list("username", flat=True)[:_MAX_NAMED])
        if names:
            return f"ask {' or '.join(names)}"
    where = f" of {scope}" if can(person, get_view_permission(need.permission), need.resource) else ""
    return f"ask someone who manages users{where}"


def _get_grantors(permission: str, scope: Scope) -> QuerySet[User]:
    """Return the active users who may grant the permission at a scope."""
    has_it = RolePermission.objects.filter(permission=permission).values("role_id")
    roles = RolePermission.objects.filter(permission=_GRANT_PERMISSION, role__in=has_it).values("role_id")
    above = {"scope__path__in": scope.ancestor_paths(), "role__in": roles}
    own = Q(**{f"assignments__{key}": value for key, value in above.items()})
    grouped = Q(**{f"user_groups__assignments__{key}": value for key, value in above.items()})
    people = User.objects.filter(own | grouped, is_active=True, kind=User.Kind.PERSON)
    return people.distinct().order_by("username")
