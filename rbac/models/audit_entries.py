"""Audit entries, and the triggers that make their table append-only."""

from typing import Any, Final, NoReturn, Protocol

from django.db import models

from rbac.models.scopes import Scope
from rbac.models.users import User


class AuditEntryIsFinalError(TypeError):
    """An audit entry was about to be changed or deleted."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Audit entries: they can be added and read."""

    def update(self, **kwargs: Any) -> NoReturn:
        raise AuditEntryIsFinalError("Audit entries are never changed.")

    def delete(self) -> NoReturn:
        raise AuditEntryIsFinalError("Audit entries are never deleted.")


class AuditEntry(models.Model):
    """Audit trail entry. The names are copies, so that the entry outlives its resource."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    # Every column stays as written: the number of a deleted user remains.
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


AUDIT_TABLE: Final = "rbac_auditentry"
APPEND_ONLY_MESSAGE: Final = "Audit entries are never changed or deleted."
_SQLITE_TRIGGERS: Final = {
    "audit_entry_is_not_changed": "BEFORE UPDATE ON {table}",
    "audit_entry_is_not_deleted": "BEFORE DELETE ON {table}",
    # INSERT OR REPLACE takes the old row away without telling the trigger above.
    "audit_entry_is_not_replaced": "BEFORE INSERT ON {table}"
    " WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id)",
}
_POSTGRES_TRIGGER: Final = "audit_entry_is_final"


class VendorConnection(Protocol):
    """Protocol of the used part of a Django connection."""

    @property
    def vendor(self) -> str: ...


def list_create_triggers(connection: VendorConnection) -> list[str]:
    """Return the statements after which entries can only be added, for the kind of database at hand."""
    if connection.vendor == "postgresql":
        body = f"BEGIN RAISE EXCEPTION '{APPEND_ONLY_MESSAGE}' USING ERRCODE = 'restrict_violation'; END"
        return [
            f"CREATE FUNCTION {_POSTGRES_TRIGGER}() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
            f"CREATE TRIGGER {_POSTGRES_TRIGGER} BEFORE UPDATE OR DELETE OR TRUNCATE ON {AUDIT_TABLE}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {_POSTGRES_TRIGGER}()",
        ]
    return [
        f"CREATE TRIGGER {name} {when.format(table=AUDIT_TABLE)} BEGIN SELECT RAISE(ABORT, "
        f"'{APPEND_ONLY_MESSAGE}'); END"
        for name, when in _SQLITE_TRIGGERS.items()
    ]


def list_drop_triggers(connection: VendorConnection) -> list[str]:
    """Return the statements that take the triggers away again."""
    if connection.vendor == "postgresql":
        return [f"DROP TRIGGER {_POSTGRES_TRIGGER} ON {AUDIT_TABLE}", f"DROP FUNCTION {_POSTGRES_TRIGGER}()"]
    return [f"DROP TRIGGER {name}" for name in _SQLITE_TRIGGERS]
