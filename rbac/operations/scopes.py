"""What a person can do to organizations and projects."""

from django.core.exceptions import ValidationError
from django.db import transaction

from rbac import audit
from rbac.models import Scope, User
from rbac.operations.asking import require_of


@transaction.atomic
def create_organization(*, actor: User | None, identifier: str, name: str) -> Scope:
    """Add an organization to the account. Raises `ValidationError`, `Forbidden`, `NotVisible`."""
    account = Scope.objects.account()
    require_of(actor, "core_organization_edit", account)
    return _create_scope(actor, Scope.Kind.ORGANIZATION, account, identifier, name)


@transaction.atomic
def create_project(*, actor: User | None, organization: Scope, identifier: str, name: str) -> Scope:
    """Add a project to an organization. Raises `ValidationError`, `Forbidden`, `NotVisible`."""
    require_of(actor, "core_project_edit", organization)
    return _create_scope(actor, Scope.Kind.PROJECT, organization, identifier, name)


@transaction.atomic
def rename_scope(*, actor: User | None, scope: Scope, name: str) -> Scope:
    """Give `scope` another name; its identifier stays for ever."""
    resource = {"ACCOUNT": "account", "ORGANIZATION": "organization", "PROJECT": "project"}[scope.kind]
    require_of(actor, f"core_{resource}_edit", scope)
    before, scope.name = scope.name, name
    scope.full_clean()
    scope.save(update_fields=["name"])
    audit.record(
        actor=actor, action="scope.update", thing=scope, before={"name": before}, after={"name": name}
    )
    return scope


def _create_scope(actor: User | None, kind: Scope.Kind, parent: Scope, identifier: str, name: str) -> Scope:
    scope = Scope(kind=kind, parent=parent, identifier=identifier, name=name)
    scope.path = f"{parent.path}/{identifier}"
    scope.full_clean()
    if Scope.objects.filter(path=scope.path).exists():
        raise ValidationError({"identifier": f"{kind.label} {identifier} exists already."})
    scope.save()
    audit.record(actor=actor, action="scope.create", thing=scope, after={"name": name})
    return scope
