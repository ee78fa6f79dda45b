"""Stored inputs of runs: manifest and program texts, one copy per text.

A row of a manifest or program contains its texts as `{"name", "text"}`, and after storing them as `{"name",
"kept"}`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deployments.models import StageExecution, StoredText, StoredTextUse
from pipelines.definition.step_manifests import FROZEN_KEY, list_frozen_sources
from rbac.encryption import compute_fingerprint
from web.clock import get_database_time

StoredRow = Mapping[str, Any]
# Another process may delete a text between its lookup and its use.
_TRIES = 3


def store_texts(stage: StageExecution, rows: Iterable[StoredRow]) -> list[dict[str, Any]]:
    """Store the texts of the rows, link them to the stage, and return the rows with references.

    Inside the commit that writes the rows.
    """
    stored_rows = [_replace_texts_by_names(row) for row in rows]
    texts = {
        compute_fingerprint(text_entry["text"]): text_entry["text"]
        for row in rows
        for text_entry in _list_texts(row)
        if "text" in text_entry
    }
    names = {text_entry["kept"] for row in stored_rows for text_entry in _list_texts(row)}
    if names:
        _record_uses(stage, _get_or_create_texts(names, texts))
    return stored_rows


def load_texts(rows: Sequence[StoredRow]) -> list[StoredRow]:
    """Return the rows with their texts, in one query."""
    names = {entry["kept"] for row in rows for entry in _list_texts(row) if "kept" in entry}
    if not names:
        return list(rows)
    texts = {entry.name: entry.text for entry in StoredText.objects.filter(name__in=names)}
    return [{**row, "texts": [_load_text(entry, texts) for entry in _list_texts(row)]} for row in rows]


def list_deleted_texts(rows: Sequence[StoredRow]) -> list[StoredRow]:
    """Return the rows with a text that is no longer stored; one query."""
    names = {entry["kept"] for row in rows for entry in _list_texts(row) if "kept" in entry}
    stored = set(StoredText.objects.filter(name__in=names).values_list("name", flat=True)) if names else set()
    return [row for row in rows if any(entry.get("kept") in names - stored for entry in _list_texts(row))]


def _list_texts(row: StoredRow) -> list[dict[str, str]]:
    return list(row.get("texts") or ())


def _replace_texts_by_names(row: StoredRow) -> dict[str, Any]:
    if not row.get("texts"):
        return dict(row)
    texts = [
        {"name": entry["name"], "kept": entry.get("kept") or compute_fingerprint(entry["text"])}
        for entry in _list_texts(row)
    ]
    return {**row, "texts": texts}


def _load_text(entry: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    return {"name": entry["name"], "text": texts[entry["kept"]] if "kept" in entry else entry["text"]}


def _get_or_create_texts(names: set[str], texts: Mapping[str, str]) -> list[StoredText]:
    """Return the rows of texts, created if missing, and touched so that none is deleted meanwhile."""
    now = get_database_time()
    for _ in range(_TRIES):
        StoredText.objects.filter(name__in=names).update(used_at=now)
        rows = list(StoredText.objects.filter(name__in=names).only("pk", "name"))
        missing = names - {row.name for row in rows}
        if not missing:
            return rows
        StoredText.objects.bulk_create(
            [
                StoredText(name=name, text=texts[name], bytes=len(texts[name].encode()), used_at=now)
                for name in sorted(missing)
            ],
            ignore_conflicts=True,
        )
    return list(StoredText.objects.filter(name__in=names).only("pk", "name"))


def _record_uses(stage: StageExecution, texts: Iterable[StoredText]) -> None:
    uses = [StoredTextUse(stage=stage, text=text) for text in texts]
    StoredTextUse.objects.bulk_create(uses, ignore_conflicts=True)


def load_texts_by_path(rows: Iterable[Mapping[str, Any]], kind: str) -> dict[str, str]:
    """Return the texts of a step's own sources by path; the path of an inline text is empty."""
    loaded = load_texts([row for row in rows if row["kind"] == kind])
    return {entry["name"]: entry["text"] for row in loaded for entry in row.get("texts") or ()}


def store_own_texts(stage: StageExecution, type_: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Store the texts of a step's own sources and return its spec with references; inside the commit."""
    rows = store_texts(stage, list_frozen_sources(type_, spec))
    return {**spec, **{row["identifier"]: {FROZEN_KEY: row} for row in rows}}
