"""Lengths of form fields as browsers read them."""

from collections.abc import Iterator

from django import forms

import config.urls  # noqa: F401 - imports the pages with all their forms


def _list_forms(base: type[forms.BaseForm]) -> Iterator[type[forms.BaseForm]]:
    for form in base.__subclasses__():
        yield form
        yield from _list_forms(form)


def test_the_most_characters_of_a_field_are_a_plain_number() -> None:
    """A browser reads "4,096 characters" as 4, and lets nobody enter more."""
    lengths = {
        f"{form.__module__}.{form.__qualname__}.{name}": str(field.widget.attrs["maxlength"])
        for form in _list_forms(forms.BaseForm)
        for name, field in getattr(form, "base_fields", {}).items()
        if "maxlength" in field.widget.attrs
    }
    assert len(lengths) > 50
    assert {name: length for name, length in lengths.items() if not length.isdigit()} == {}
