"""The form of a scope in the admin site."""

from typing import Any

from django import forms

from rbac.busy import ScopeBusy, work_in
from rbac.models import Scope


class ScopeForm(forms.ModelForm):  # type: ignore[type-arg]
    """A name, and whether the scope is archived."""

    archived = forms.BooleanField(
        required=False,
        help_text="Nobody can see or use anything at or below an archived scope. Nothing of it is deleted.",
    )

    class Meta:
        model = Scope
        fields = ("parent", "identifier", "name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.was_archived = self.instance.archived_at is not None
        self.initial["archived"] = self.was_archived

    def clean_archived(self) -> bool:
        """Refuse to archive what something is under way in."""
        wanted = bool(self.cleaned_data["archived"])
        if wanted and not self.was_archived and (work := work_in(self.instance)):
            raise forms.ValidationError(str(ScopeBusy(self.instance, work)))
        return wanted

    def clean(self) -> dict[str, Any]:
        """Refuse an identifier that is taken where the scope is to hang."""
        given = super().clean() or {}
        parent, identifier = given.get("parent"), given.get("identifier")
        if parent and identifier and Scope.objects.filter(path=f"{parent.path}/{identifier}").exists():
            self.add_error("identifier", f"{identifier} exists already in {parent.path}, maybe archived.")
        return given
