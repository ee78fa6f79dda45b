"""The form of what people say of a delegate."""

from typing import Any

from django import forms
from django.db.models import QuerySet

from connectors.delegate_tags import tags_in
from delegates.models import Delegate, DelegateConfiguration
from guards.limits import DELEGATE_TAGS, DESCRIPTION_CHARACTERS, NAME_CHARACTERS
from rbac.policy import Principal, visible_to
from web.page_forms import PageForm


class DelegateForm(PageForm):
    """Description, tags, configuration, and whether projects share it without isolation."""

    description = forms.CharField(
        required=False,
        max_length=int(DESCRIPTION_CHARACTERS),
        widget=forms.Textarea(attrs={"class": "input area", "rows": 3}),
    )
    tags = forms.CharField(
        required=False,
        max_length=int(DELEGATE_TAGS) * (int(NAME_CHARACTERS) + 1),
        help_text="With commas or blanks between them. Connectors and steps choose delegates by these.",
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )
    configuration = forms.ModelChoiceField(
        DelegateConfiguration.objects.none(),
        required=False,
        empty_label="As it is",
        help_text="Its script runs when an agent starts; it may keep the delegate to some environments.",
    )

    shares_scripts = forms.BooleanField(
        required=False,
        label="Share without isolation",
        help_text="Lets instances without isolation run scripts of several projects, which can then read "
        "each other's secrets. Without it such an instance runs scripts of one project only.",
    )

    def __init__(self, *args: Any, person: Principal, delegate: Delegate, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="delegate-%s", **kwargs)
        near: QuerySet[DelegateConfiguration] = DelegateConfiguration.objects.filter(
            scope__path__in=delegate.scope.ancestor_paths()
        )
        offered = visible_to(person, "core_delegateconfiguration_view", near).order_by("name", "pk")
        field = self.fields["configuration"]
        if isinstance(field, forms.ModelChoiceField):
            field.queryset = offered

    def clean_tags(self) -> list[str]:
        """Tags as a list, each once."""
        return tags_in(self.cleaned_data["tags"])
