"""What runs were made of: put away once per text when a run has fetched it, and opened when it is read.

A row of a manifest, or of a program, holds its texts as `{"name", "text"}` until they are put away, and as
`{"name", "kept"}` from then on.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef

from deployments.models import KeptText, KeptTextUse, StageExecution
from pipelines.definition.step_manifests import FROZEN, frozen_sources
from rbac.encryption import fingerprint
from web.clock import database_now

Row = Mapping[str, Any]
UNUSED_FOR = timedelta(days=1)
# Somebody may drop a text between the two moments in which it is found and taken.
_TRIES = 3


def put_away(stage: StageExecution, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Store the texts of the rows and note that the stage uses them; the rows as they are kept.

    Inside the commit that writes the rows.
    """
    kept = [_named(row) for row in rows]
    texts = {fingerprint(one["text"]): one["text"] for row in rows for one in _texts(row) if "text" in one}
    names = {one["kept"] for row in kept for one in _texts(row)}
    if names:
        _use(stage, _stored(names, texts))
    return kept


def opened(rows: Sequence[Row]) -> list[Row]:
    """The rows with the texts themselves, in one query however many there are."""
    names = {one["kept"] for row in rows for one in _texts(row) if "kept" in one}
    if not names:
        return list(rows)
    found = {one.name: one.text for one in KeptText.objects.filter(name__in=names)}
    return [{**row, "texts": [_opened(one, found) for one in _texts(row)]} for row in rows]


def free_unused(now: datetime) -> int:
    """Drop the texts that no run uses any more; gives back how many."""
    unused = KeptText.objects.filter(
        ~Exists(KeptTextUse.objects.filter(text=OuterRef("pk"))), used_at__lt=now - UNUSED_FOR
    )
    return unused.delete()[0]


def _texts(row: Row) -> list[dict[str, str]]:
    return list(row.get("texts") or ())


def _named(row: Row) -> dict[str, Any]:
    if not row.get("texts"):
        return dict(row)
    texts = [
        {"name": one["name"], "kept": one.get("kept") or fingerprint(one["text"])} for one in _texts(row)
    ]
    return {**row, "texts": texts}


def _opened(one: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    return {"name": one["name"], "text": found[one["kept"]] if "kept" in one else one["text"]}


def _stored(names: set[str], texts: Mapping[str, str]) -> list[KeptText]:
    """The rows of texts, made where they are missing; touched, so that none of them is dropped meanwhile."""
    now = database_now()
    for _ in range(_TRIES):
        KeptText.objects.filter(name__in=names).update(used_at=now)
        found = list(KeptText.objects.filter(name__in=names).only("pk", "name"))
        missing = names - {one.name for one in found}
        if not missing:
            return found
        KeptText.objects.bulk_create(
            [
                KeptText(name=name, text=texts[name], bytes=len(texts[name].encode()), used_at=now)
                for name in sorted(missing)
            ],
            ignore_conflicts=True,
        )
    return list(KeptText.objects.filter(name__in=names).only("pk", "name"))


def _use(stage: StageExecution, texts: Iterable[KeptText]) -> None:
    uses = [KeptTextUse(stage=stage, text=one) for one in texts]
    KeptTextUse.objects.bulk_create(uses, ignore_conflicts=True)


def texts_by_path(rows: Iterable[Mapping[str, Any]], kind: str) -> dict[str, str]:
    """The texts among a step's own sources, by path; what was written in the step itself has an empty one."""
    found = opened([row for row in rows if row["kind"] == kind])
    return {one["name"]: one["text"] for row in found for one in row.get("texts") or ()}


def with_kept(stage: StageExecution, type_: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a step with the texts that it brings put away; inside the commit that writes it."""
    rows = put_away(stage, frozen_sources(type_, spec))
    return {**spec, **{row["identifier"]: {FROZEN: row} for row in rows}}
