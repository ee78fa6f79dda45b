"""Users, user groups, service accounts and the limits of API keys."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django.contrib.auth.models import AbstractUser, UserManager
from django.core.exceptions import ValidationError
from django.db import models, transaction

from rbac.models.roles import Role
from rbac.models.scopes import NamedModel, Scope, validate_identifier, validate_name

# Slipway itself in the audit trail.
SYSTEM_USERNAME: Final = "slipway"


def is_reserved_username(username: str) -> bool:
    """Return whether a user with this name would look like Slipway itself in the audit trail."""
    return username.casefold() == SYSTEM_USERNAME


@dataclass(frozen=True)
class ApiKeyLimits:
    """Limits of a key: at or below `scope` (None: anywhere), with `permissions` (empty: all)."""

    scope: Scope | None
    permissions: frozenset[str]


class PersonManager(UserManager["User"]):
    """Creates users; the framework's "superuser" is a staff member with the role Account Admin."""

    def create_superuser(
        self, username: str, email: str | None = None, password: str | None = None, **fields: Any
    ) -> "User":
        fields.pop("is_superuser", None)
        self.model(username=username).validate_new_username()
        user = self.create_user(username, email, password, **{**fields, "is_staff": True})
        admin = Role.objects.get(identifier="account_admin", scope=None)
        user.assignments.create(scope=Scope.objects.account(), role=admin)
        return user

    def get_by_sign_in_name(self, username: str) -> "User | None":
        """Return the user with exactly this name, else the only one whose name differs by case.

        Older installations may have several such names.
        """
        if exact := self.filter(username=username).first():
            return exact
        similar = list(self.filter(username__iexact=username)[:2])
        return similar[0] if len(similar) == 1 else None

    def lock_usernames(self) -> None:
        """Let others who add or change a user name wait until the transaction ends."""
        Scope.objects.filter(kind=Scope.Kind.ACCOUNT).lock()

    @transaction.atomic
    def require_free_username(self, username: str, *, own_pk: int | None = None) -> None:
        """Refuse a new name that differs by case only from another: sign-in ignores case.

        Raises `ValidationError`.
        """
        self.lock_usernames()
        # The same name twice is refused by its unique constraint.
        others = (self.exclude(pk=own_pk) if own_pk else self.all()).exclude(username=username)
        other = others.filter(username__iexact=username).first()
        if other is not None:
            raise ValidationError(
                {"username": f"The user {other} exists. Choose a name that differs by more than case."}
            )


class User(AbstractUser):
    """User or service account that authenticates.

    Permissions come from role assignments alone. Django's groups, permissions and superuser flag are removed,
    so no grant can bypass `rbac.policy`.
    """

    class Kind(models.TextChoices):
        """Kind of user: a person, or a program with API keys only."""

        PERSON = "PERSON", "Person"
        SERVICE_ACCOUNT = "SERVICE_ACCOUNT", "Service account"

    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.PERSON, editable=False)

    # Set for a request with a limited API key.
    key_limits: "ApiKeyLimits | None" = None

    groups = None  # type: ignore[assignment]
    user_permissions = None  # type: ignore[assignment]

    objects = PersonManager()  # type: ignore[misc]

    def __str__(self) -> str:
        return self.username

    @property
    def is_superuser(self) -> bool:
        return False

    @is_superuser.setter
    def is_superuser(self, value: bool) -> None:
        if value:
            raise TypeError("There are no superusers: assign the role Account Admin.")

    def clean(self) -> None:
        super().clean()
        for field in ("first_name", "last_name"):
            if value := getattr(self, field):
                validate_name(value, field)
        # Names from before these rules stay as they are.
        if not User.objects.filter(pk=self.pk, username=self.username).exists():
            self.validate_new_username()

    def validate_new_username(self) -> None:
        """Refuse a name of Slipway itself, and one that differs by case only. Raises `ValidationError`."""
        if is_reserved_username(self.username):
            message = "This user name means Slipway itself in the audit trail. Choose another one."
            raise ValidationError({"username": message})
        User.objects.require_free_username(self.username, own_pk=self.pk)

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return False

    def has_perms(self, perm_list: Any, obj: Any = None) -> bool:
        return False

    def has_module_perms(self, app_label: str) -> bool:
        return False


class UserGroup(NamedModel):
    """Group of users with common roles."""

    RESOURCE_TYPE: ClassVar[str] = "usergroup"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"usergroup": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="user_groups")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    users = models.ManyToManyField(User, blank=True, related_name="user_groups")
    # The provider's name of the group, which then manages its members.
    external_name = models.CharField(max_length=255, blank=True)
    version = models.PositiveIntegerField(default=1, db_default=1, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="user_group_unique_in_scope"),
            models.UniqueConstraint(
                fields=["external_name"],
                name="user_group_external_name_unique",
                condition=~models.Q(external_name=""),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ServiceAccount(NamedModel):
    """Program of a scope; it acts as its own user without a password and authenticates by API key."""

    RESOURCE_TYPE: ClassVar[str] = "serviceaccount"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"serviceaccount": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="service_accounts")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    description = models.CharField(max_length=400, blank=True)
    user = models.OneToOneField(
        User, on_delete=models.PROTECT, related_name="service_account", editable=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="service_account_unique_in_scope")
        ]

    def __str__(self) -> str:
        return self.name
