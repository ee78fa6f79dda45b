"""Base of all model admins: checks the policy per row and shows refusals in the form."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import ForeignKey, Model, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from guards.limits import NAME_CHARACTERS
from rbac.admin.autocomplete import (
    KeySelect,
    can_use_form,
    is_autocomplete,
    list_offered_rows,
)
from rbac.models import Scope, ServiceAccount, User
from rbac.policy import can, filter_visible, get_permissions, get_permissions_anywhere, list_permitted_scopes
from rbac.queries import list_choices

if TYPE_CHECKING:
    RefusalModelAdmin = admin.ModelAdmin[Any]
else:
    RefusalModelAdmin = admin.ModelAdmin


class RefusalAdmin(RefusalModelAdmin):
    """Admin base that shows a `ValidationError` of an operation as a form error."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ValidationError as refusal:
            # The operation is rolled back; the form is validated again to show the reason.
            request.refusal = refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        refusal: ValidationError | None = getattr(request, "refusal", None)
        return form if refusal is None else _build_refused_form(form, refusal)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except ValidationError as refusal:
            for sentence in refusal.messages:
                self.message_user(request, sentence, messages.ERROR)
            return HttpResponseRedirect(request.path)


def _build_refused_form(form: type[forms.BaseForm], refusal: ValidationError) -> type[forms.BaseForm]:
    class RefusedForm(form):  # type: ignore[misc, valid-type]
        def _post_clean(self) -> None:
            super()._post_clean()
            by_field = refusal.message_dict if hasattr(refusal, "error_dict") else {"": refusal.messages}
            for field, sentences in by_field.items():
                for sentence in sentences:
                    self.add_error(field if field in self.fields else None, sentence)

    return RefusedForm


if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
else:
    ModelAdmin, AnyPaginator = admin.ModelAdmin, Paginator
# Parameters in the links of filters and of the date hierarchy.
_ALLOWED_LOOKUPS = frozenset(("", "exact", "isnull", "id__exact", "year", "month", "day", "gte", "lt"))
# Rows of a list that are counted and can be leafed through; a search finds those behind them.
MOST_COUNTED_ROWS: Final = 10_000


class CappedPaginator(AnyPaginator):
    """Counts no further than people leaf: to count a long table is to read it."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_COUNTED_ROWS].count())


class AllowedFiltersAdmin(ModelAdmin):
    """Admin base that allows only its own filters, and counts long lists only in part.

    Django accepts every column and comparison in the URL. That would expose hidden columns, and pass
    arbitrary patterns to the database.
    """

    paginator = CappedPaginator
    show_full_result_count = False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        field, _, lookup_name = lookup.partition("__")
        # A filter with its own class defines its parameter, or is a pair of column and class.
        filters = (item[0] if isinstance(item, tuple) else item for item in self.list_filter)
        offered = {getattr(item, "parameter_name", item) for item in (*filters, self.date_hierarchy)}
        return field in offered and lookup_name in _ALLOWED_LOOKUPS

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # As in the lists of the product. Each word is a condition, and SQLite takes fewer than a thousand.
        return super().get_search_results(request, queryset, search_term[:NAME_CHARACTERS])


class PolicyAdmin(RefusalAdmin, AllowedFiltersAdmin):
    """Admin base that uses the policy instead of Django's permissions, row by row."""

    view_permission = ""
    add_permission = ""
    change_permission = ""
    delete_permission = ""
    # Help texts of the form by field, and the URL name of the page of a row in the product.
    help_texts: ClassVar[Mapping[str, str]] = {}
    product_page: ClassVar[str] = ""

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs.setdefault("help_texts", self.help_texts)
        return super().get_form(request, obj, change=change, **kwargs)

    def view_on_site(self, obj: Any) -> str | None:
        """Return the page of the row in the product, or None."""
        return reverse(self.product_page, args=[obj.pk]) if self.product_page else None

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request) and "widget" not in kwargs:
            kwargs["widget"] = KeySelect(db_field, self.admin_site)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if is_autocomplete(request):
            offered = list_offered_rows(request, self.admin_site)
            queryset = queryset.none() if offered is None else offered
        return super().get_search_results(request, queryset, search_term)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self._has_permission(request, self.view_permission, None)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj is None and is_autocomplete(request):
            return can_use_form(request, self.admin_site)
        return self._has_permission(request, self.view_permission, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._has_permission(request, self.add_permission, None)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has_permission(request, self.change_permission, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has_permission(request, self.delete_permission, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return filter_visible(get_principal(request), self.view_permission, super().get_queryset(request))

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        if db_field.name == "scope" and self.add_permission:
            kwargs["queryset"] = list_permitted_scopes(get_principal(request), self.add_permission).order_by(
                "path"
            )
        elif (rows := list_choices(get_principal(request), db_field.related_model)) is not None:
            kwargs.setdefault("queryset", rows)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Rows are changed one by one, through operations that write the audit trail.
        return {}

    def _has_permission(self, request: HttpRequest, permission: str, obj: Model | None) -> bool:
        if not permission:
            return False
        if obj is None:
            return has_permission_anywhere(request, permission)
        on_rows = _get_admin_permissions(request).on_rows
        row = (type(self), permission, type(obj), obj.pk, getattr(obj, "scope_id", None))
        if obj.pk is None or row not in on_rows:
            on_rows[row] = self._has_row_permission(get_principal(request), permission, obj)
        return on_rows[row]

    def _has_row_permission(self, principal: User, permission: str, obj: Any) -> bool:
        return can(principal, permission, obj)


class _AdminPermissions:
    """Permissions of a request's principal, read once: each admin page checks four for every table.

    The framework also checks each of them for every inline row, and again for each button.
    """

    def __init__(self, principal: User) -> None:
        self._principal = principal
        self.on_rows: dict[tuple[Any, ...], bool] = {}

    @cached_property
    def anywhere(self) -> frozenset[str]:
        return get_permissions_anywhere(self._principal)

    @cached_property
    def at_account(self) -> frozenset[str]:
        return get_permissions(self._principal, Scope.objects.account())


def has_permission_anywhere(request: HttpRequest, permission: str) -> bool:
    """Return whether `permission` is granted in any scope; one query for each request."""
    return permission in _get_admin_permissions(request).anywhere


def _get_admin_permissions(request: HttpRequest) -> _AdminPermissions:
    permissions: _AdminPermissions | None = getattr(request, "granted_in_admin", None)
    if permissions is None:
        permissions = request.granted_in_admin = _AdminPermissions(get_principal(request))  # type: ignore[attr-defined]
    return permissions


def get_principal(request: HttpRequest) -> User:
    """Return the user of the admin site, who is always signed in."""
    if not isinstance(request.user, User):
        raise TypeError("Sign in to use the admin site.")
    return request.user


def build_user_url(user: User) -> str | None:
    """Return the page of a person or of a service account in the product; None for a deleted account."""
    if user.kind == User.Kind.SERVICE_ACCOUNT:
        account: ServiceAccount | None = getattr(user, "service_account", None)
        return reverse("service-account", args=[account.pk]) if account is not None else None
    return reverse("person", args=[user.pk])


class AccountPolicyAdmin(PolicyAdmin):
    """Things that belong to the account as a whole, like users."""

    def _has_permission(self, request: HttpRequest, permission: str, obj: Model | None) -> bool:
        return bool(permission) and permission in _get_admin_permissions(request).at_account

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows if self._has_permission(request, self.view_permission, None) else rows.none()
