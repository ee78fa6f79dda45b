"""The file store: paths, folders, versions, references."""

import pytest
from django.db import IntegrityError, transaction

from connectors.file_store import FileNotInStore, StoredFile, build_reference, read_files
from connectors.models import FileNode
from connectors.operations import (
    create_folder,
    delete_file,
    move_file,
    purge_deletion,
    save_file,
    undelete_files,
)
from connectors.queries import list_folder_contents
from guards.limits import SPEC_BYTES
from rbac.models import AuditEntry, ResourceGroup, Role, RoleAssignment, Scope, User
from rbac.policy import Forbidden, NotVisible
from tests.fixtures.people import make_person
from web.http.problems import BadInput, Conflict, VersionConflict


def save(actor: User, scope: Scope, path: str, content: str = "a: 1\n") -> FileNode:
    return save_file(actor=actor, scope=scope, path=path, content=content)


def test_a_file_is_saved_with_the_folders_above_it(project: Scope, admin: User) -> None:
    node = save(admin, project, "/ECS Tutorial/dev/CreateServiceRequest.yaml")
    assert (node.version, node.name, node.folder) == (1, "CreateServiceRequest.yaml", "/ECS Tutorial/dev")
    assert [entry.path for entry in list_folder_contents(project)] == ["/ECS Tutorial"]
    assert [entry.path for entry in list_folder_contents(project, "/ECS Tutorial")] == ["/ECS Tutorial/dev"]
    assert [entry.path for entry in list_folder_contents(project, "/ECS Tutorial/dev")] == [node.path]


def test_folders_that_differ_in_case_only_are_two(project: Scope, admin: User) -> None:
    save(admin, project, "/app/x.yaml")
    node = save(admin, project, "/APP/y.yaml")
    assert [entry.path for entry in list_folder_contents(project, "/app")] == ["/app/x.yaml"]
    delete_file(actor=admin, node=FileNode.objects.get(path="/app"), with_content=True)
    assert list(FileNode.objects.filter(is_folder=False)) == [node]


def test_each_save_is_a_new_version_and_a_stale_writer_is_told(project: Scope, admin: User) -> None:
    save(admin, project, "/a.yaml", "one")
    second = save_file(actor=admin, scope=project, path="/a.yaml", content="two", expected_version=1)
    assert (second.version, second.content, second.updated_by) == (2, "two", admin)
    with pytest.raises(VersionConflict, match="version 2"):
        save_file(actor=admin, scope=project, path="/a.yaml", content="three", expected_version=1)
    with pytest.raises(VersionConflict):
        save_file(actor=admin, scope=project, path="/new.yaml", content="x", expected_version=1)
    assert FileNode.objects.get(path="/a.yaml").content == "two"


def test_line_ends_are_plain(project: Scope, admin: User) -> None:
    assert save(admin, project, "/a.yaml", "a: 1\r\nb: 2\r\n").content == "a: 1\nb: 2\n"


@pytest.mark.parametrize(
    "path",
    ["", "/", "a.yaml", "/a/../b", "/./a", "//a", "/a//b", "/ a", "/a ", "/a\n", "/a\0b", "/\u202ea"]
    + ["/" + "x" * 256, "/x" * 600],
)
def test_a_path_that_is_none_is_refused(project: Scope, admin: User, path: str) -> None:
    with pytest.raises(BadInput) as caught:
        save(admin, project, path)
    assert caught.value.errors[0]["path"] == "path"


@pytest.mark.parametrize(
    "content", ["nul \0", "half \udfff", "x" * (SPEC_BYTES + 1), "é" * (SPEC_BYTES // 2 + 1)]
)
def test_content_that_cannot_be_kept_is_refused(project: Scope, admin: User, content: str) -> None:
    with pytest.raises(BadInput):
        save(admin, project, "/a.yaml", content)
    assert not FileNode.objects.exists()


def test_a_file_of_the_largest_size_is_kept(project: Scope, admin: User) -> None:
    assert save(admin, project, "/a.yaml", "x" * SPEC_BYTES).size == SPEC_BYTES


def test_a_file_and_a_folder_never_share_a_path(project: Scope, admin: User) -> None:
    save(admin, project, "/a/b.yaml")
    with pytest.raises(Conflict, match="is a folder"):
        save(admin, project, "/a")
    with pytest.raises(Conflict, match="is a file"):
        save(admin, project, "/a/b.yaml/c")
    with pytest.raises(Conflict, match="already exists"):
        create_folder(actor=admin, scope=project, path="/a/b.yaml")
    with pytest.raises(IntegrityError), transaction.atomic():
        FileNode.objects.create(scope=project, path="/a", content="x")


def test_a_full_folder_is_deleted_only_on_purpose(project: Scope, admin: User) -> None:
    save(admin, project, "/a/b/c.yaml")
    folder = FileNode.objects.get(path="/a")
    with pytest.raises(Conflict, match="contains 2"):
        delete_file(actor=admin, node=folder)
    delete_file(actor=admin, node=folder, with_content=True)
    assert not FileNode.objects.exists()
    delete_file(actor=admin, node=create_folder(actor=admin, scope=project, path="/empty"))
    assert not FileNode.objects.exists()


def test_references_reach_the_own_scope_and_those_above(project: Scope, admin: User) -> None:
    account, organization = Scope.objects.account(), project.parent
    assert organization is not None
    save(admin, project, "/x.yaml", "mine")
    save(admin, organization, "/x.yaml", "ours")
    top = save(admin, account, "/x.yaml", "everyone's")
    assert read_files(project, "/x.yaml") == [StoredFile("/x.yaml", "mine", 1)]
    assert read_files(project, "org:/x.yaml")[0].text == "ours"
    assert read_files(project, "account:/x.yaml")[0].text == "everyone's"
    assert build_reference(top, project) == "account:/x.yaml"
    assert build_reference(top, account) == "/x.yaml"


def test_a_folder_stands_for_its_files(project: Scope, admin: User) -> None:
    account = Scope.objects.account()
    save(admin, account, "/all/b.yaml")
    save(admin, account, "/all/a/c.yaml")
    assert [file.ref for file in read_files(project, "account:/all/")] == [
        "account:/all/a/c.yaml",
        "account:/all/b.yaml",
    ]
    assert [file.ref for file in read_files(project, "account:/all/b.yaml")] == ["account:/all/b.yaml"]


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("/ECS Tutorial/CreateServiceRequst.yaml", 'Did you mean "/ECS Tutorial/CreateServiceRequest.yaml"'),
        ("/ecs tutorial/createservicerequest.yaml", 'Did you mean "/ECS Tutorial/CreateServiceRequest.yaml"'),
        (
            "/elsewhere/entirely/CreateServiceRequest.yaml",
            'Did you mean "/ECS Tutorial/CreateServiceRequest.yaml"',
        ),
        ("/shared.yaml", 'Did you mean "account:/shared.yaml"'),
        ("account:/shred.yaml", 'Did you mean "account:/shared.yaml"'),
        ("/zzz", "No file"),
        ("relative.yaml", "is not a file reference"),
        ("planet:/x.yaml", "is not a file reference"),
    ],
)
def test_a_missing_file_names_the_nearest(project: Scope, admin: User, ref: str, message: str) -> None:
    save(admin, project, "/ECS Tutorial/CreateServiceRequest.yaml")
    save(admin, Scope.objects.account(), "/shared.yaml")
    with pytest.raises(FileNotInStore) as caught:
        read_files(project, ref)
    assert message in caught.value.detail


def test_the_account_lies_in_no_organization(account: Scope) -> None:
    with pytest.raises(FileNotInStore, match="is not in an organization"):
        read_files(account, "org:/x.yaml")


def test_nobody_without_the_right_writes_files(
    project: Scope, admin: User, viewer: User, stranger: User
) -> None:
    node = save(admin, project, "/a.yaml")
    for person, refusal in ((viewer, Forbidden), (stranger, NotVisible)):
        with pytest.raises(refusal):
            save(person, project, "/a.yaml")
        with pytest.raises(refusal):
            create_folder(actor=person, scope=project, path="/f")
        with pytest.raises(refusal):
            delete_file(actor=person, node=node)


def build_narrow_editor(scope: Scope, path: str) -> User:
    """Return a person who may edit and delete the file or folder with one path."""
    group = ResourceGroup.objects.create(scope=scope, identifier="one_file", name="One file")
    group.entries.create(resource="file", identifier=path)
    role = Role.objects.get(identifier="project_admin", scope=None)
    person = make_person("narrow")
    RoleAssignment.objects.create(user=person, role=role, scope=scope, resource_group=group)
    return person


def test_who_may_edit_one_file_saves_it_and_no_other(project: Scope, admin: User) -> None:
    node = save(admin, project, "/web/task.yaml")
    save(admin, project, "/web/other.yaml")
    person = build_narrow_editor(project, "/web/task.yaml")
    assert save(person, project, "/web/task.yaml", "b: 2\n").version == 2
    for path in ("/web/other.yaml", "/web/new.yaml"):
        with pytest.raises(NotVisible):
            save(person, project, path)
    with pytest.raises(Forbidden):
        move_file(actor=person, node=node, path="/web/new.yaml")
    assert sorted(FileNode.objects.values_list("path", flat=True)) == [
        "/web",
        "/web/other.yaml",
        "/web/task.yaml",
    ]


def test_a_folder_is_not_moved_or_deleted_with_files_of_others(project: Scope, admin: User) -> None:
    node = save(admin, project, "/web/task.yaml")
    folder = FileNode.objects.get(path="/web")
    person = build_narrow_editor(project, "/web")
    for change in (
        lambda: move_file(actor=person, node=folder, path="/api"),
        lambda: delete_file(actor=person, node=folder, with_content=True),
    ):
        with pytest.raises(Forbidden):
            change()
    node.refresh_from_db()
    assert (node.path, node.deletion) == ("/web/task.yaml", None)
    deletion = delete_file(actor=admin, node=folder, with_content=True)
    with pytest.raises(Forbidden):
        purge_deletion(actor=person, deletion=deletion)
    with pytest.raises(Forbidden):
        undelete_files(actor=person, deletion=deletion)


def test_every_change_of_a_file_is_audited(project: Scope, admin: User) -> None:
    node = save(admin, project, "/f/a.yaml")
    save(admin, project, "/f/a.yaml", "b: 2")
    delete_file(actor=admin, node=node)
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["folder.create", "file.create", "file.update", "file.delete"]
