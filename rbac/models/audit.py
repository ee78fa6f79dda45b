"""The audit trail: who did what to which thing, never changed afterwards; the database sees to that."""

from typing import Any, NoReturn

from django.db import models

from rbac.models.scope import Scope
from rbac.models.user import User


class AuditEntryIsFinalError(TypeError):
    """An audit entry was about to be changed or deleted."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Audit entries: they can be added and read."""

    def update(self, **kwargs: Any) -> NoReturn:
        raise AuditEntryIsFinalError("Audit entries are never changed.")

    def delete(self) -> NoReturn:
        raise AuditEntryIsFinalError("Audit entries are never deleted.")


class AuditEntry(models.Model):
    """One thing that was done. The names are copies, so that the entry outlives what it speaks of."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    # The database keeps every column as it was written, this one too: a user who is gone keeps the number.
    actor = models.ForeignKey(
        User, on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="audit_entries"
    )
    actor_name = models.CharField(max_length=150)
    api_key_prefix = models.CharField(max_length=16, blank=True)
    action = models.CharField(max_length=64)
    thing_type = models.CharField(max_length=64)
    thing_id = models.CharField(max_length=64)
    thing_name = models.CharField(max_length=400)
    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, null=True, related_name="audit_entries")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    source = models.CharField(max_length=32)
    request_id = models.CharField(max_length=64, blank=True)
    address = models.CharField(max_length=64, blank=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["actor_name", "id"], name="audit_by_actor"),
            models.Index(fields=["thing_type", "thing_id", "id"], name="audit_by_thing"),
            models.Index(fields=["request_id"], name="audit_by_request"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor_name} {self.action} {self.thing_name}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AuditEntryIsFinalError("Audit entries are never changed.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AuditEntryIsFinalError("Audit entries are never deleted.")
