"""Fingerprints of the tables that migrations make: the same names can stand for other tables."""

from collections import defaultdict
from collections.abc import Collection
from hashlib import sha256
from typing import Any, Final

from django.db.migrations.loader import MigrationLoader
from django.db.migrations.serializer import serializer_factory
from django.db.migrations.state import ModelState, ProjectState
from django.db.models import Field

# Options of a model that decide its table.
_TABLE_OPTIONS: Final = ("db_table", "managed", "order_with_respect_to", "proxy", "unique_together")
_DIGEST_CHARACTERS: Final = 16


def compute_schema(migrations: Collection[str]) -> dict[str, str]:
    """Return a fingerprint by app of the tables after these migrations ("app.name").

    Migrations that are not among the files of this version are left out.
    """
    graph = MigrationLoader(None).graph
    names = [(app, name) for app, _, name in (migration.partition(".") for migration in sorted(migrations))]
    return fingerprint_state(graph.make_state(nodes=[node for node in names if node in graph.nodes]))


def fingerprint_state(state: ProjectState) -> dict[str, str]:
    """Return a fingerprint by app of tables, columns, constraints and indexes."""
    descriptions: defaultdict[str, list[str]] = defaultdict(list)
    for (app, _), model in sorted(state.models.items()):
        descriptions[app].append(_describe_model(model))
    return {
        app: sha256("\n".join(models).encode()).hexdigest()[:_DIGEST_CHARACTERS]
        for app, models in descriptions.items()
    }


def _describe_model(model: ModelState) -> str:
    options = {name: model.options[name] for name in _TABLE_OPTIONS if name in model.options}
    parts = [model.name_lower, _serialize(options)]
    parts += [_describe_field(name, field) for name, field in sorted(model.fields.items())]
    for kind in ("constraints", "indexes"):
        parts += sorted(_serialize(item) for item in model.options.get(kind, ()))
    return "\n".join(parts)


def _describe_field(name: str, field: "Field[Any, Any]") -> str:
    _, path, positional, named = field.deconstruct()
    # A default is filled in by Django, one of the database is `db_default`.
    unstored = {*field.non_db_attrs, "default"} - {"db_column"}
    stored = {key: value for key, value in sorted(named.items()) if key not in unstored}
    return f"{name} {path} {_serialize([*positional, stored])}"


def _serialize(value: object) -> str:
    text, _ = serializer_factory(value).serialize()
    return str(text)
