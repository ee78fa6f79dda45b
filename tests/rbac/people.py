"""Makes scopes and people for tests."""

from datetime import datetime

from rbac.models import Role, RoleAssignment, Scope, User
from rbac.operations.api_keys import create_api_key
from tests.secret_watch.marker import planted


def project(path: str = "default/demo") -> Scope:
    """Return the project "org/project", and create it and its organization if missing."""
    org, name = path.split("/")
    account = Scope.objects.account()
    parent = organization(org, account)
    scope = Scope.objects.filter(parent=parent, identifier=name).first()
    return scope or Scope.objects.create(
        kind=Scope.Kind.PROJECT, parent=parent, identifier=name, name=name.capitalize()
    )


def organization(identifier: str, account: Scope | None = None) -> Scope:
    parent = account or Scope.objects.account()
    scope = Scope.objects.filter(parent=parent, identifier=identifier).first()
    return scope or Scope.objects.create(
        kind=Scope.Kind.ORGANIZATION, parent=parent, identifier=identifier, name=identifier.capitalize()
    )


def user(
    name: str, role: str = "", scope: Scope | None = None, *, expires_at: datetime | None = None
) -> User:
    """Return a new user, with a built-in role at `scope` if one is named."""
    person = User.objects.create_user(name, password=planted("correct horse battery"))
    if role:
        grant(person, role, scope, expires_at=expires_at)
    return person


def grant(
    person: User, role: str, scope: Scope | None = None, *, expires_at: datetime | None = None
) -> RoleAssignment:
    role_row = Role.objects.get(identifier=role, scope=None)
    return RoleAssignment.objects.create(
        user=person, role=role_row, scope=scope or Scope.objects.account(), expires_at=expires_at
    )


def token_of(person: User) -> str:
    """Return a new API key of `person`."""
    return create_api_key(actor=person, user=person, name=f"test {person.api_keys.count()}")[1]
