"""Users in the admin site."""

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from rbac import audit
from rbac.admin.base import AccountPolicyAdmin, get_principal
from rbac.models import User
from rbac.operations.escalation_checks import list_user_assignments, refuse_role_escalation


class NewUserAdminForm(AdminUserCreationForm):  # type: ignore[type-arg]
    """A user name and a password."""

    class Meta(AdminUserCreationForm.Meta):
        model = User


class UserAdminForm(UserChangeForm):  # type: ignore[type-arg]
    """What can be changed of a user."""

    class Meta(UserChangeForm.Meta):
        model = User


@admin.register(User)
class UserAdmin(AccountPolicyAdmin, DjangoUserAdmin):  # type: ignore[type-arg]
    """People and programs; they are deactivated, never deleted: the audit trail names them."""

    view_permission = "core_user_view"
    add_permission = change_permission = "core_user_manage"
    form = UserAdminForm
    add_form = NewUserAdminForm
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("May sign in", {"fields": ("is_active", "is_staff")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    list_display = ("username", "email", "first_name", "last_name", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff")
    filter_horizontal = ()
    ordering = ("username",)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        # A program is changed as its service account, and has no password.
        is_program = obj is not None and obj.kind == User.Kind.SERVICE_ACCOUNT
        return not is_program and super().has_change_permission(request, obj)

    def save_model(
        self, request: HttpRequest, obj: User, form: "forms.ModelForm[User]", change: bool
    ) -> None:
        if change:
            _refuse_more_privileged(request, obj)
        fields = sorted(name for name in form.changed_data if "password" not in name)
        before = User.objects.filter(pk=obj.pk).values(*fields).first() if change else None
        obj.save()
        after = {name: form.cleaned_data.get(name) for name in fields}
        action = "user.update" if change else "user.create"
        audit.record_audit_entry(
            actor=get_principal(request), action=action, thing=obj, before=before, after=after
        )

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        if request.method == "POST":
            _refuse_more_privileged(request, User.objects.get(pk=id))
        answer: HttpResponse = super().user_change_password(request, id, form_url)
        if isinstance(answer, HttpResponseRedirect):
            person = User.objects.get(pk=id)
            audit.record_audit_entry(
                actor=get_principal(request), action="user.password_change", thing=person
            )
        return answer


def _refuse_more_privileged(request: HttpRequest, person: User) -> None:
    """Refuse to change somebody who may more: with their password one would be them. Raises `Forbidden`."""
    actor = get_principal(request)
    if actor.pk != person.pk:
        refuse_role_escalation(actor, list_user_assignments(person))
