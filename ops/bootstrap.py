"""First start: the first administrator, organization, service account and API key."""

import secrets
from dataclasses import dataclass

from django.core.exceptions import ValidationError

from rbac import audit
from rbac.models import ApiKey, Role, RoleAssignment, Scope, ServiceAccount, User
from rbac.operations.api_keys import create_api_key, rotate_api_key
from rbac.operations.roles import assign_role
from rbac.operations.scopes import create_organization
from rbac.operations.service_accounts import create_service_account
from rbac.permissions import ensure_builtin_roles
from rbac.policy.principals import build_validity_filter

API_KEY_NAME = "bootstrap"
PASSWORD_BYTES = 18
ADMINISTRATOR_ROLE, SERVICE_ACCOUNT_ROLE = "account_admin", "organization_admin"


@dataclass(frozen=True)
class BootstrapNames:
    """Names of what the first start creates."""

    administrator: str
    email: str
    organization: str
    service_account: str


@dataclass(frozen=True)
class BootstrapResult:
    """Result of a first start; `password` and `api_key` are empty where they were not changed."""

    administrator: str
    password: str
    organization: str
    service_account: str
    api_key: str


def bootstrap(names: BootstrapNames, *, replaces_secrets: bool = False) -> BootstrapResult:
    """Create what is missing of the administrator, organization, service account and API key.

    Existing secrets are replaced only with `replaces_secrets`. The caller wraps it in a transaction, and
    shows the secrets before that ends: none is stored without having been shown. Raises `ValidationError`.
    """
    ensure_builtin_roles()
    # One at a time.
    account = Scope.objects.select_for_update().get(pk=Scope.objects.account().pk)
    administrator, password = _ensure_administrator(names, account, replaces_secrets=replaces_secrets)
    organization = _ensure_organization(names.organization, account)
    service_account = _ensure_service_account(names.service_account, organization)
    api_key = _ensure_api_key(service_account, replaces_secrets=replaces_secrets)
    return BootstrapResult(
        administrator=administrator.username,
        password=password,
        organization=organization.identifier,
        service_account=service_account.identifier,
        api_key=api_key,
    )


def _ensure_administrator(
    names: BootstrapNames, account: Scope, *, replaces_secrets: bool
) -> tuple[User, str]:
    person = User.objects.filter(username=names.administrator).first()
    if person is not None and not _is_administrator(person, account):
        raise ValidationError(
            f"{person.username} exists and is not an active account administrator. Choose another name with "
            "--administrator, or assign the role Account Admin to this user."
        )
    if person is not None and not replaces_secrets:
        return person, ""
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    if person is None:
        person = User(username=names.administrator, email=names.email, is_staff=True)
        person.set_password(password)
        person.full_clean()
        person.save()
        after = {"username": person.username, "email": person.email}
        audit.record_audit_entry(actor=None, action="user.create", thing=person, after=after)
        _assign(person, ADMINISTRATOR_ROLE, account)
    else:
        person.set_password(password)
        person.save(update_fields=["password"])
        audit.record_audit_entry(actor=None, action="user.password_change", thing=person)
    return person, password


def _is_administrator(person: User, account: Scope) -> bool:
    is_person = person.kind == User.Kind.PERSON and person.is_active
    assignments = RoleAssignment.objects.filter(
        build_validity_filter(), user=person, scope=account, resource_group=None
    )
    return is_person and assignments.filter(role__identifier=ADMINISTRATOR_ROLE, role__scope=None).exists()


def _ensure_organization(identifier: str, account: Scope) -> Scope:
    existing = Scope.objects.filter(parent=account, identifier=identifier).first()
    if existing is None:
        name = identifier.replace("_", " ").capitalize()
        return create_organization(actor=None, identifier=identifier, name=name)
    if existing.archived_at is not None:
        raise ValidationError(f"The organization {identifier} is archived. Restore it, or name another one.")
    return existing


def _ensure_service_account(identifier: str, organization: Scope) -> ServiceAccount:
    existing = ServiceAccount.objects.filter(scope=organization, identifier=identifier).first()
    if existing is not None:
        return existing
    name = identifier.replace("_", " ").capitalize()
    service_account = create_service_account(
        actor=None, scope=organization, name=name, identifier=identifier, description="Created at the start."
    )
    _assign(service_account.user, SERVICE_ACCOUNT_ROLE, organization)
    return service_account


def _assign(user: User, role: str, scope: Scope) -> None:
    assign_role(actor=None, scope=scope, role=Role.objects.get(identifier=role, scope=None), user=user)


def _ensure_api_key(service_account: ServiceAccount, *, replaces_secrets: bool) -> str:
    """Return the token of a new or replaced key, or nothing for one that exists."""
    key = ApiKey.objects.filter(user=service_account.user, name=API_KEY_NAME).first()
    if key is None:
        _, token = create_api_key(actor=None, user=service_account.user, name=API_KEY_NAME)
        return token
    if key.revoked_at is not None:
        # Somebody decided that it ends; its name cannot be used again.
        if replaces_secrets:
            raise ValidationError(
                f"The API key {API_KEY_NAME} of {service_account.identifier} was revoked. Create one with "
                "another name on the page of the service account."
            )
        return ""
    return rotate_api_key(actor=None, key=key) if replaces_secrets else ""
