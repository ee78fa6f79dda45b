"""Deleted files: gone from everywhere, and to be had back with their history."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from connectors.file_store import FileNotInStore, read_files
from connectors.models import FileDeletion, FileNode, FileVersion
from connectors.operations import delete_file, move_file, purge_deletion, save_file, undelete_files
from connectors.queries import list_folder_contents
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden, NotVisible
from web.http.problems import Conflict


def save(actor: User, scope: Scope, path: str, content: str = "a: 1\n") -> FileNode:
    return save_file(actor=actor, scope=scope, path=path, content=content)


def test_a_deleted_file_is_gone_and_comes_back_with_its_history(project: Scope, admin: User) -> None:
    save(admin, project, "/a.yaml", "one")
    node = save(admin, project, "/a.yaml", "two")
    deletion = delete_file(actor=admin, node=node)
    assert not list(list_folder_contents(project))
    with pytest.raises(FileNotInStore):
        read_files(project, "/a.yaml")
    back = undelete_files(actor=admin, deletion=deletion)
    assert (back.pk, back.content, back.versions.count()) == (node.pk, "two", 2)
    assert not FileDeletion.objects.exists()
    assert AuditEntry.objects.filter(action="file.undelete").exists()


def test_a_folder_comes_back_with_what_went_with_it_and_nothing_else(project: Scope, admin: User) -> None:
    save(admin, project, "/a/b/c.yaml")
    early = save(admin, project, "/a/early.yaml")
    delete_file(actor=admin, node=early)
    folder = FileNode.objects.get(path="/a")
    deletion = delete_file(actor=admin, node=folder, with_content=True)
    save(admin, project, "/other.yaml")
    undelete_files(actor=admin, deletion=deletion)
    paths = set(FileNode.objects.values_list("path", flat=True))
    assert paths == {"/a", "/a/b", "/a/b/c.yaml", "/other.yaml"}


def test_the_folder_above_is_made_again(project: Scope, admin: User) -> None:
    deletion = delete_file(actor=admin, node=save(admin, project, "/a/b.yaml"))
    delete_file(actor=admin, node=FileNode.objects.get(path="/a"))
    undelete_files(actor=admin, deletion=deletion)
    assert set(FileNode.objects.values_list("path", flat=True)) == {"/a", "/a/b.yaml"}


def test_what_took_its_place_is_not_overwritten(project: Scope, admin: User) -> None:
    deletion = delete_file(actor=admin, node=save(admin, project, "/a.yaml", "old"))
    save(admin, project, "/a.yaml", "new")
    with pytest.raises(Conflict, match="another file at /a.yaml"):
        undelete_files(actor=admin, deletion=deletion)
    assert FileNode.objects.get().content == "new"


def test_what_is_forgotten_or_old_leaves_nothing(project: Scope, admin: User) -> None:
    purge_deletion(actor=admin, deletion=delete_file(actor=admin, node=save(admin, project, "/a.yaml", "x")))
    old = delete_file(actor=admin, node=save(admin, project, "/b.yaml"))
    FileDeletion.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=31))
    deletion = delete_file(actor=admin, node=save(admin, project, "/c.yaml"))
    assert list(FileDeletion.objects.all()) == [deletion]
    assert [node.path for node in FileNode.with_deleted.all()] == ["/c.yaml"]
    assert FileVersion.objects.count() == 1


def test_only_who_may_change_files_has_them_back(
    project: Scope, admin: User, viewer: User, stranger: User
) -> None:
    deletion = delete_file(actor=admin, node=save(admin, project, "/a.yaml"))
    for person, refusal in ((viewer, Forbidden), (stranger, NotVisible)):
        with pytest.raises(refusal):
            undelete_files(actor=person, deletion=deletion)
        with pytest.raises(refusal):
            purge_deletion(actor=person, deletion=deletion)


def test_the_page_has_it_back(project: Scope, admin: User, browse: Callable[[User], Client]) -> None:
    client, node = browse(admin), save(admin, project, "/a.yaml")
    page = client.post(f"/files/{node.pk}/delete/", follow=True).content.decode()
    assert '/a.yaml deleted. <a href="/files/deleted/">Restore</a>' in page
    deletion = FileDeletion.objects.get()
    assert "/a.yaml" in client.get("/files/deleted/").content.decode()
    save(admin, project, "/a.yaml")
    refused = client.post(f"/files/deleted/{deletion.pk}/undo/", follow=True).content.decode()
    assert "another file at /a.yaml" in refused
    delete_file(actor=admin, node=FileNode.objects.get())
    back = client.post(f"/files/deleted/{deletion.pk}/undo/", follow=True).content.decode()
    assert "is restored with its history" in back
    client.post(f"/files/deleted/{FileDeletion.objects.get().pk}/forget/")
    assert not FileDeletion.objects.exists()


def test_a_file_is_deleted_once_although_two_saw_it(project: Scope, admin: User) -> None:
    node = save(admin, project, "/a.yaml")
    seen = FileNode.objects.get(pk=node.pk)
    deletion = delete_file(actor=admin, node=node)
    with pytest.raises(NotVisible, match="deleted /a.yaml meanwhile"):
        delete_file(actor=admin, node=seen)
    with pytest.raises(NotVisible, match="deleted /a.yaml meanwhile"):
        move_file(actor=admin, node=seen, path="/b.yaml")
    assert FileDeletion.objects.get() == deletion
    assert undelete_files(actor=admin, deletion=deletion).path == "/a.yaml"


def test_a_folder_that_was_moved_meanwhile_keeps_its_content(project: Scope, admin: User) -> None:
    save(admin, project, "/f/a.yaml")
    folder = FileNode.objects.get(path="/f")
    seen = FileNode.objects.get(pk=folder.pk)
    move_file(actor=admin, node=folder, path="/g")
    with pytest.raises(Conflict, match="moved /f meanwhile"):
        delete_file(actor=admin, node=seen)
    with pytest.raises(Conflict, match="moved /f meanwhile"):
        move_file(actor=admin, node=seen, path="/h")
    assert set(FileNode.objects.values_list("path", flat=True)) == {"/g", "/g/a.yaml"}


def test_a_deletion_is_undone_or_purged_once(project: Scope, admin: User) -> None:
    restored, purged = (
        delete_file(actor=admin, node=save(admin, project, path)) for path in ("/a.yaml", "/b.yaml")
    )
    seen = {deletion.path: FileDeletion.objects.get(pk=deletion.pk) for deletion in (restored, purged)}
    undelete_files(actor=admin, deletion=restored)
    purge_deletion(actor=admin, deletion=purged)
    for deletion in seen.values():
        with pytest.raises(NotVisible, match="restored .* meanwhile"):
            undelete_files(actor=admin, deletion=deletion)
        with pytest.raises(NotVisible, match="restored .* meanwhile"):
            purge_deletion(actor=admin, deletion=deletion)
    assert AuditEntry.objects.filter(action__in=("file.undelete", "file.forget")).count() == 2


def test_a_permanent_deletion_is_confirmed(
    project: Scope, admin: User, viewer: User, browse: Callable[[User], Client]
) -> None:
    save(admin, project, "/f/a.yaml")
    deletion = delete_file(actor=admin, node=FileNode.objects.get(path="/f"), with_content=True)
    client, address = browse(admin), f"/files/deleted/{deletion.pk}/forget/"
    listed = client.get("/files/deleted/").content.decode()
    assert f'href="{address}"' in listed
    assert f'action="{address}"' not in listed
    page = client.get(address).content.decode()
    assert "Permanently delete /f" in page
    assert (
        "The folder is deleted with 1 file or folder in it, and with all versions. It cannot be restored."
        in page
    )
    assert FileDeletion.objects.exists()
    assert browse(viewer).get(address).status_code == 403
    done = client.post(address, follow=True)
    assert "/f is deleted permanently." in done.content.decode()
    assert not FileNode.with_deleted.exists()
