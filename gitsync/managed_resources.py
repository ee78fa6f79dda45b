"""Resources that syncs manage: their documents, states and differences."""

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Q, QuerySet

from cli.resources.plans import Change, get_key
from cli.resources.stored import Key
from cli.resources.yaml_documents import Fault, ResourceDocument
from gitsync.models import GitSync, GitSyncResource
from guards.limits import GIT_SYNC_DIFF_CHARACTERS
from guards.text import sanitize_text
from rbac.policy import build_not_archived_filter

State = GitSyncResource.State


def build_key(row: GitSyncResource) -> Key:
    """Return the key of a resource as plans have it."""
    return Key(row.kind, row.place, row.resource, row.parent)


def find_documents_elsewhere(
    sync: GitSync, documents: Sequence[ResourceDocument]
) -> dict[Key, tuple[ResourceDocument, str]]:
    """Return the documents of resources that another sync manages, with its name."""
    others = _list_rows_elsewhere(sync, map(get_key, documents)).exclude(state=State.REMOVED)
    names = {build_key(row): row.sync.name for row in others.select_related("sync")}
    return {key: (document, names[key]) for document in documents if (key := get_key(document)) in names}


def build_elsewhere_faults(elsewhere: Mapping[Key, tuple[ResourceDocument, str]]) -> list[Fault]:
    """Return the faults of the documents of resources that another sync manages."""
    return [
        document.location.build_fault(f"the Git sync {name} manages {key}", ("identifier",))
        for key, (document, name) in elsewhere.items()
    ]


def list_claimed_keys(sync: GitSync) -> set[Key]:
    """Return the resources of documents that other syncs cannot apply while this one manages them."""
    others = GitSync.objects.filter(build_not_archived_filter("scope__"), is_enabled=True)
    claims = others.exclude(pk=sync.pk).exclude(claims=[]).values_list("claims", flat=True)
    return {Key(*claim) for rows in claims for claim in rows}


def has_unread_sync(sync: GitSync, commit: str) -> bool:
    """Return whether another sync of the branch has not read a commit, to which documents may have moved.

    One that could not read the branch since this sync saw the commit does not count.
    """
    others = GitSync.objects.filter(
        build_not_archived_filter("scope__"),
        connector=sync.connector,
        repository=sync.repository,
        branch=sync.branch,
        is_enabled=True,
    )
    if sync.seen_commit == commit:
        others = others.filter(Q(checked_at=None) | Q(checked_at__lt=sync.checked_at))
    return others.exclude(pk=sync.pk).exclude(seen_commit=commit).exists()


def store_resources(
    sync: GitSync, documents: Sequence[ResourceDocument], changes: Sequence[Change], *, applied: str = ""
) -> None:
    """Store a row for each resource of the documents; `changes` are those that were not made.

    A resource whose document was removed stays as REMOVED while it exists. With `applied`, the documents
    were applied at that commit.
    """
    differing = {change.key: change for change in changes}
    rows = {build_key(row): row for row in GitSyncResource.objects.filter(sync=sync)}
    desired = {get_key(document): document for document in documents}
    for key, row in rows.items():
        if key in desired:
            continue
        if key in differing:
            GitSyncResource.objects.filter(pk=row.pk).update(state=State.REMOVED, difference="")
        else:
            row.delete()
    if applied:
        _release(desired, sync)
    for key, document in desired.items():
        change = differing.get(key)
        old = rows.get(key)
        values = {
            "path": document.location.file,
            "line": document.location.find_position(())[0],
            "state": State.OUT_OF_SYNC if change else State.SYNCED,
            "difference": _build_difference(change),
            "commit": applied or (old.commit if old else ""),
        }
        if old is None:
            names = {"kind": key.kind, "place": key.scope, "parent": key.parent, "resource": key.identifier}
            GitSyncResource.objects.create(sync=sync, **names, **values)
        elif any(getattr(old, name) != value for name, value in values.items()):
            GitSyncResource.objects.filter(pk=old.pk).update(**values)


def _release(desired: Iterable[Key], sync: GitSync) -> None:
    """Delete the rows of other syncs that no longer have a document of these resources."""
    keys = set(desired)
    removed = _list_rows_elsewhere(sync, keys).filter(state=State.REMOVED)
    stale = [row.pk for row in removed if build_key(row) in keys]
    GitSyncResource.objects.filter(pk__in=stale).delete()


def _list_rows_elsewhere(sync: GitSync, keys: Iterable[Key]) -> QuerySet[GitSyncResource]:
    """Return the rows of other syncs with one of these identifiers, which may be of another kind or scope."""
    identifiers = {key.identifier for key in keys}
    return GitSyncResource.objects.exclude(sync=sync).filter(resource__in=identifiers)


def _build_difference(change: Change | None) -> str:
    if change is None:
        return ""
    lines = [sanitize_text(line) for line in change.diff]
    return "\n".join(lines)[:GIT_SYNC_DIFF_CHARACTERS]
