"""Deleted files: gone from everywhere, and to be had back with their history."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from connectors.file_store import FileNotInStore, read_files
from connectors.models import FileDeletion, FileNode, FileVersion
from connectors.operations import delete_file, purge_deletion, save_file, undelete_files
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
