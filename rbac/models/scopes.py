"""Tree of scopes: one account, its organizations, their projects."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from guards.limits import NAME_CHARACTERS
from guards.text import find_name_problem


def validate_name(name: str, field: str = "name") -> None:
    """Reject control characters, invisible characters and text direction marks. Raises `ValidationError`."""
    if fault := find_name_problem(name, NAME_CHARACTERS):
        raise ValidationError({field: fault.display_message})


class NamedModel(models.Model):
    """Model with a displayed name that must not mislead."""

    name: Any

    class Meta:
        abstract = True

    def clean(self) -> None:
        super().clean()
        validate_name(self.name)


IDENTIFIER_PATTERN = r"^[A-Za-z_][A-Za-z0-9_$]{0,127}\Z"
validate_identifier = RegexValidator(
    IDENTIFIER_PATTERN,
    "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
)


def list_ancestor_paths(path: str) -> list[str]:
    """Return the paths of scopes from the account down to this one."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


class ScopeQuerySet(models.QuerySet["Scope"]):
    """Scopes, filterable by identifiers."""

    def account(self) -> "Scope":
        """Return the root of the tree."""
        return self.get(kind=Scope.Kind.ACCOUNT)

    def lock(self) -> None:
        """Lock the scopes until the transaction ends; rows that refer to them can still be added."""
        list(self.select_for_update(no_key=True).values_list("pk"))

    def at(self, *, org: str = "", project: str = "") -> "ScopeQuerySet":
        """Filter by the account, an organization or a project."""
        return self.filter(path="/".join(part for part in (Scope.ROOT, org, project) if part))


class Scope(NamedModel):
    """An account, an organization or a project."""

    class Kind(models.TextChoices):
        """The three levels of the tree."""

        ACCOUNT = "ACCOUNT", "Account"
        ORGANIZATION = "ORGANIZATION", "Organization"
        PROJECT = "PROJECT", "Project"

    ROOT = "account"
    # A scope is the thing and the scope at once: policy filters it by its own key.
    SCOPE_PATH = "pk"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children"
    )
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    path = models.CharField(max_length=400, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    # Nobody has access at or below an archived scope, except to restore it.
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ScopeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="scope_account_is_the_root",
                condition=Q(kind="ACCOUNT", parent__isnull=True)
                | (~Q(kind="ACCOUNT") & Q(parent__isnull=False)),
            ),
        ]

    def __str__(self) -> str:
        return self.path

    def save(self, *args: Any, **kwargs: Any) -> None:
        # Identifiers and parents never change, so the path is computed once.
        if self._state.adding:
            self.path = f"{self.parent.path}/{self.identifier}" if self.parent else self.identifier
        super().save(*args, **kwargs)

    @property
    def scope(self) -> "Scope":
        return self

    @property
    def resource(self) -> str:
        """Return the resource type in permissions: account, organization or project."""
        return self.kind.lower()

    @property
    def org(self) -> str:
        """Return the identifier of the organization, empty on the account."""
        return self.path.split("/")[1] if self.kind != self.Kind.ACCOUNT else ""

    @property
    def project(self) -> str:
        """Return the identifier of the project, empty above projects."""
        return self.identifier if self.kind == self.Kind.PROJECT else ""

    def ancestor_paths(self) -> list[str]:
        """Return the paths from the account down to this scope."""
        return list_ancestor_paths(self.path)

    def ancestors_and_self(self) -> list["Scope"]:
        """Return the scopes from the account down to this one, in one query."""
        return list(Scope.objects.filter(path__in=self.ancestor_paths()).order_by("path"))
