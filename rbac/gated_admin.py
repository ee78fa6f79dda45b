"""The base of every admin form: it asks the policy, row by row, instead of the framework's permissions."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import ForeignKey, Model, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest

from rbac.models import Scope, User
from rbac.offers import offered
from rbac.policy import can, permissions_anywhere, permissions_at, scopes_where, visible_to
from rbac.refusals import RefusingAdmin

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
else:
    ModelAdmin, AnyPaginator = admin.ModelAdmin, Paginator


# What the links of filters and of the date hierarchy ask with.
_ASKED_BY = frozenset(("", "exact", "isnull", "id__exact", "year", "month", "day", "gte", "lt"))


# Rows of a list that are counted and can be leafed through; a search finds those behind them.
MOST_COUNTED: Final = 10_000


class CountingSome(AnyPaginator):
    """Counts no further than people leaf: to count a long table is to read it."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_COUNTED].count())


class OfferedFilters(ModelAdmin):
    """Filters a list by what it offers only, and counts a long one only in part.

    The framework takes every column of the table from the address, and every way of comparing: a way to guess
    what is stored in columns that no page shows, and to hand the database patterns that it never ends.
    """

    paginator = CountingSome
    show_full_result_count = False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        field, _, asked_by = lookup.partition("__")
        # A filter of its own class says how it is asked.
        offered = {getattr(one, "parameter_name", one) for one in (*self.list_filter, self.date_hierarchy)}
        return field in offered and asked_by in _ASKED_BY


class GatedAdmin(RefusingAdmin, OfferedFilters):
    """Asks the policy instead of the framework's permissions, row by row."""

    view_permission = ""
    add_permission = ""
    change_permission = ""
    delete_permission = ""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self._may(request, self.view_permission, None)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.view_permission, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, self.add_permission, None)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.change_permission, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.delete_permission, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return visible_to(principal_of(request), self.view_permission, super().get_queryset(request))

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        if db_field.name == "scope" and self.add_permission:
            kwargs["queryset"] = scopes_where(principal_of(request), self.add_permission).order_by("path")
        elif (rows := offered(principal_of(request), db_field.related_model)) is not None:
            kwargs.setdefault("queryset", rows)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Rows are changed one by one, through operations that write the audit trail.
        return {}

    def _may(self, request: HttpRequest, permission: str, obj: Model | None) -> bool:
        if not permission:
            return False
        if obj is None:
            return may_anywhere(request, permission)
        known = _granted(request).on_rows
        row = (type(self), permission, type(obj), obj.pk, getattr(obj, "scope_id", None))
        if obj.pk is None or row not in known:
            known[row] = self._may_on(principal_of(request), permission, obj)
        return known[row]

    def _may_on(self, principal: User, permission: str, obj: Any) -> bool:
        return can(principal, permission, obj)


class _Granted:
    """What one request's principal may do, asked once: each admin page asks four things of every table.

    Of the row on the page it asks each of them for every row below it, and again for each button.
    """

    def __init__(self, principal: User) -> None:
        self._principal = principal
        self.on_rows: dict[tuple[Any, ...], bool] = {}

    @cached_property
    def anywhere(self) -> frozenset[str]:
        return permissions_anywhere(self._principal)

    @cached_property
    def at_account(self) -> frozenset[str]:
        return permissions_at(self._principal, Scope.objects.account())


def may_anywhere(request: HttpRequest, permission: str) -> bool:
    """Say whether `permission` is granted in any scope; one query for each request."""
    return permission in _granted(request).anywhere


def _granted(request: HttpRequest) -> _Granted:
    found: _Granted | None = getattr(request, "granted_in_admin", None)
    if found is None:
        found = request.granted_in_admin = _Granted(principal_of(request))  # type: ignore[attr-defined]
    return found


def principal_of(request: HttpRequest) -> User:
    """Return who uses the admin site; it lets nobody else in."""
    if not isinstance(request.user, User):
        raise TypeError("The admin site serves signed-in users only.")
    return request.user


class AccountAdmin(GatedAdmin):
    """Things that belong to the account as a whole, like users."""

    def _may(self, request: HttpRequest, permission: str, obj: Model | None) -> bool:
        return bool(permission) and permission in _granted(request).at_account

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows if self._may(request, self.view_permission, None) else rows.none()
