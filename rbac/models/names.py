"""Validation of display names, and the abstract model with one."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from guards.limits import NAME_CHARACTERS
from guards.text import find_name_problem


def validate_name(name: str, field: str = "name") -> None:
    """Refuse control characters, invisible ones and those that turn the text. Raises `ValidationError`."""
    if fault := find_name_problem(name, NAME_CHARACTERS):
        raise ValidationError({field: fault.display_message})


class NamedModel(models.Model):
    """A row whose name people read, and must not be misled by."""

    name: Any

    class Meta:
        abstract = True

    def clean(self) -> None:
        super().clean()
        validate_name(self.name)
