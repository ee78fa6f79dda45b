"""Triggers that keep the audit trail as it was written, whoever writes."""

from typing import Final, Protocol

TABLE: Final = "rbac_auditentry"
SENTENCE: Final = "Audit entries are never changed or deleted."

_SQLITE: Final = {
    "audit_entry_is_not_changed": "BEFORE UPDATE ON {table}",
    "audit_entry_is_not_deleted": "BEFORE DELETE ON {table}",
    # INSERT OR REPLACE takes the old row away without telling the trigger above.
    "audit_entry_is_not_replaced": "BEFORE INSERT ON {table}"
    " WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id)",
}
_POSTGRES: Final = "audit_entry_is_final"


class Connection(Protocol):
    """What is needed of a connection of Django."""

    @property
    def vendor(self) -> str: ...


def triggers_to_add(connection: Connection) -> list[str]:
    """Return the statements after which entries can only be added, for the kind of database at hand."""
    if connection.vendor == "postgresql":
        body = f"BEGIN RAISE EXCEPTION '{SENTENCE}' USING ERRCODE = 'restrict_violation'; END"
        return [
            f"CREATE FUNCTION {_POSTGRES}() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
            f"CREATE TRIGGER {_POSTGRES} BEFORE UPDATE OR DELETE OR TRUNCATE ON {TABLE}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {_POSTGRES}()",
        ]
    return [
        f"CREATE TRIGGER {name} {when.format(table=TABLE)} BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END"
        for name, when in _SQLITE.items()
    ]


def triggers_to_drop(connection: Connection) -> list[str]:
    """Return the statements that take the triggers away again."""
    if connection.vendor == "postgresql":
        return [f"DROP TRIGGER {_POSTGRES} ON {TABLE}", f"DROP FUNCTION {_POSTGRES}()"]
    return [f"DROP TRIGGER {name}" for name in _SQLITE]
