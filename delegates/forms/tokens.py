"""Forms of delegate tokens."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from rbac.models import Scope
from rbac.policy import Principal
from web.page_forms import PageForm, ScopeField

EDIT = "core_delegate_edit"
DAYS = (("", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"))


class RenameTokenForm(PageForm):
    """Another name for a token."""

    name = forms.CharField(max_length=128, help_text="What people know it by, such as where it is used.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="token-%s", **kwargs)


class NewTokenForm(RenameTokenForm):
    """A token that is not there yet."""

    in_scope = ScopeField(help_text="Delegates that register with the token belong to this scope.")
    expires = forms.ChoiceField(
        choices=DAYS,
        required=False,
        label="Expires",
        help_text="Sessions that are open then go on until they end; no new one begins.",
    )

    field_order = ("in_scope", "name", "expires")

    def __init__(self, *args: Any, person: Principal, scope: Scope | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.offer(person, EDIT, scope)

    @property
    def expires_at(self) -> datetime | None:
        days = self.cleaned_data["expires"]
        return timezone.now() + timedelta(days=int(days)) if days else None
