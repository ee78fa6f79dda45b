"""User groups in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import ManyToManyField, Q
from django.http import HttpRequest

from rbac import operations
from rbac.admin.base import PolicyAdmin, get_principal
from rbac.models import User, UserGroup
from rbac.queries import list_visible_users


@admin.register(UserGroup)
class UserGroupAdmin(PolicyAdmin):
    """Groups of people."""

    view_permission = "core_usergroup_view"
    add_permission = change_permission = delete_permission = "core_usergroup_manage"
    fields = ("scope", "identifier", "name", "external_name", "users")
    list_display = ("name", "identifier", "scope", "external_name")
    list_select_related = ("scope",)
    filter_horizontal = ("users",)
    search_fields = ("name", "identifier")
    ordering = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: UserGroup | None = None) -> tuple[str, ...]:
        return ("scope", "identifier") if obj else ()

    def formfield_for_manytomany(
        self, db_field: "ManyToManyField[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "forms.ModelMultipleChoiceField[Any] | None":
        people = Q(pk__in=list_visible_users(get_principal(request)).values("pk"))
        if match := request.resolver_match:
            # Who is in the group is seen with it, and stays unless taken out.
            people |= Q(user_groups=match.kwargs.get("object_id"))
        kwargs["queryset"] = User.objects.filter(people).distinct().order_by("username")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: UserGroup, form: "forms.ModelForm[UserGroup]", change: bool
    ) -> None:
        given = {field: form.cleaned_data[field] for field in ("name", "external_name", "users")}
        actor = get_principal(request)
        if change:
            operations.update_user_group(actor=actor, group=obj, **given)
            return
        made = operations.create_user_group(actor=actor, scope=obj.scope, identifier=obj.identifier, **given)
        obj.pk = made.pk

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The operation set the members already."""

    def delete_model(self, request: HttpRequest, obj: UserGroup) -> None:
        operations.delete_user_group(actor=get_principal(request), group=obj)
