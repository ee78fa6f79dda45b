"""What every name of rbac has to be: one line that reads as what it is."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from guards.limits import NAME_CHARACTERS
from guards.text import name_fault


def check_name(name: str, field: str = "name") -> None:
    """Refuse control characters, invisible ones and those that turn the text. Raises `ValidationError`."""
    if fault := name_fault(name, NAME_CHARACTERS):
        raise ValidationError({field: fault.sentence})


class Named(models.Model):
    """A row whose name people read, and must not be misled by."""

    name: Any

    class Meta:
        abstract = True

    def clean(self) -> None:
        super().clean()
        check_name(self.name)
