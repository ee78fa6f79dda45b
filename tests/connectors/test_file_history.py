"""The history of a file, its moves, and who would miss it."""

import pytest

from catalog.models import Manifest, Service
from connectors.file_kinds import FileText, check_file, get_completion_guide
from connectors.models import FileNode, FileVersion
from connectors.operations import create_folder, delete_file, move_file, restore_file, save_file
from connectors.usages import find_usages
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden, NotVisible
from web.http.problems import BadInput, Conflict, ResourceInUse

TASK = "family: app\ncontainerDefinitions:\n  - name: app\n    image: nginx\n    memory: 512\n"


def save(actor: User, scope: Scope, path: str, content: str = "a: 1\n", note: str = "") -> FileNode:
    return save_file(actor=actor, scope=scope, path=path, content=content, note=note)


def service_with(scope: Scope, *paths: str, name: str = "web", kind: str = "EcsTaskDefinition") -> Service:
    service = Service.objects.create(scope=scope, identifier=name, name=name)
    Manifest.objects.create(service=service, identifier="m", kind=kind, paths=list(paths))
    return service


def list_usage_titles(node: FileNode, person: User) -> list[str]:
    return [user.title for user in find_usages(node, person).visible]


def test_every_save_is_kept_with_who_and_why(project: Scope, admin: User) -> None:
    save(admin, project, "/a.yaml", "one")
    save(admin, project, "/a.yaml", "two", note="  more  memory ")
    versions = FileVersion.objects.order_by("version").values_list(
        "version", "content", "note", "by__username"
    )
    assert list(versions) == [(1, "one", "", "admin"), (2, "two", "more memory", "admin")]


def test_an_earlier_version_comes_back_as_the_newest(project: Scope, admin: User, viewer: User) -> None:
    save(admin, project, "/a.yaml", "one")
    node = save(admin, project, "/a.yaml", "two")
    restored_file = restore_file(actor=admin, node=node, version=1)
    assert (restored_file.version, restored_file.content) == (3, "one")
    assert node.versions.get(version=3).note == "Version 1 restored"
    with pytest.raises(NotVisible):
        restore_file(actor=admin, node=node, version=9)
    with pytest.raises(Forbidden):
        restore_file(actor=viewer, node=node, version=1)


@pytest.mark.parametrize("note", ["x" * 201, "bell \a"])
def test_a_note_that_cannot_be_shown_is_refused(project: Scope, admin: User, note: str) -> None:
    with pytest.raises(BadInput) as caught:
        save(admin, project, "/a.yaml", note=note)
    assert caught.value.errors[0]["path"] == "note"


def test_a_file_moves_with_its_history(project: Scope, admin: User) -> None:
    node = save(admin, project, "/a.yaml", "one")
    save(admin, project, "/a.yaml", "two")
    moved_file = move_file(actor=admin, node=node, path="/deep/er/b.yaml")
    assert (moved_file.pk, moved_file.path, moved_file.versions.count()) == (node.pk, "/deep/er/b.yaml", 2)
    assert set(FileNode.objects.values_list("path", flat=True)) == {"/deep", "/deep/er", "/deep/er/b.yaml"}
    entry = AuditEntry.objects.get(action="file.move")
    assert (entry.before, entry.after) == ({"path": "/a.yaml"}, {"path": "/deep/er/b.yaml"})


def test_a_folder_moves_with_all_that_is_in_it(project: Scope, admin: User) -> None:
    save(admin, project, "/a/b/c.yaml")
    save(admin, project, "/ab.yaml")
    move_file(actor=admin, node=FileNode.objects.get(path="/a"), path="/x")
    assert sorted(FileNode.objects.values_list("path", flat=True)) == [
        "/ab.yaml",
        "/x",
        "/x/b",
        "/x/b/c.yaml",
    ]


def test_a_move_never_overwrites_or_loses_anything(project: Scope, admin: User) -> None:
    file = save(admin, project, "/a/b.yaml")
    folder = FileNode.objects.get(path="/a")
    save(admin, project, "/c.yaml")
    with pytest.raises(Conflict, match="already exists"):
        move_file(actor=admin, node=file, path="/c.yaml")
    with pytest.raises(BadInput, match="into itself"):
        move_file(actor=admin, node=folder, path="/a/b/c")
    with pytest.raises(BadInput, match="more than 1,024 characters"):
        move_file(actor=admin, node=folder, path="/" + "/".join(["x" * 200] * 5) + "/yyyyyyyyyyyyyyyyyy")
    with pytest.raises(BadInput):
        move_file(actor=admin, node=file, path="no slash")
    assert move_file(actor=admin, node=file, path="/a/b.yaml/").path == "/a/b.yaml"


def test_who_refers_to_a_file_is_found_from_every_scope(project: Scope, admin: User) -> None:
    account = Scope.objects.account()
    top, own = save(admin, account, "/task/a.yaml"), save(admin, project, "/task/a.yaml")
    service_with(project, "account:/task/a.yaml", name="up")
    service_with(project, "/task/", name="folder")
    service_with(project, "/task/a.yaml.old", name="other")
    assert list_usage_titles(top, admin) == ["service up"]
    assert list_usage_titles(own, admin) == ["service folder"]
    assert list_usage_titles(FileNode.objects.get(scope=account, path="/task"), admin) == ["service up"]
    assert list_usage_titles(create_folder(actor=admin, scope=project, path="/empty"), admin) == []


@pytest.mark.parametrize(
    "path", ["/Straße/\u00fc.yaml", '/it"s/a.yaml', "/100%_/a.yaml", "/back\\\\slash/a.yaml"]
)
def test_who_refers_to_a_file_of_an_odd_name_is_found(project: Scope, admin: User, path: str) -> None:
    node = save(admin, project, path)
    service_with(project, path)
    assert list_usage_titles(node, admin) == ["service web"]


def test_what_one_may_not_see_is_only_counted(
    project: Scope, other_project: Scope, admin: User, viewer: User
) -> None:
    top = save(admin, Scope.objects.account(), "/a.yaml")
    service_with(project, "account:/a.yaml", name="mine")
    service_with(other_project, "account:/a.yaml", name="theirs")
    users = find_usages(top, viewer)
    assert ([use.title for use in users.visible], users.hidden) == (["service mine"], 1)
    assert str(users) == "service mine and 1 more"


def test_a_used_file_goes_only_on_purpose(project: Scope, admin: User) -> None:
    node = save(admin, project, "/a.yaml")
    service_with(project, "/a.yaml")
    with pytest.raises(ResourceInUse, match="service web"):
        move_file(actor=admin, node=node, path="/b.yaml")
    with pytest.raises(ResourceInUse, match="service web"):
        delete_file(actor=admin, node=node)
    move_file(actor=admin, node=node, path="/b.yaml", although_used=True)
    delete_file(actor=admin, node=node)


@pytest.mark.parametrize(
    ("path", "content", "place"),
    [
        ("/a.yaml", "a: [1\nb: 2", (2, 2)),
        ("/a.json", '{"a": 1,\n "a": 2}', (2, 2)),
        ("/a.yaml", TASK.replace("512", "lots"), (5, 5)),
    ],
)
def test_a_problem_names_its_place(project: Scope, path: str, content: str, place: tuple[int, int]) -> None:
    errors = check_file(FileText(project, path, content)).errors
    assert place in [(error.line, error.column) for error in errors]


def test_a_text_is_checked_as_what_refers_to_it_wants(project: Scope) -> None:
    content = "desiredCount: many\n"
    assert check_file(FileText(project, "/a.yaml", content)).note == "Checked as a service definition."
    service_with(project, "/a.yaml", kind="EcsTaskDefinition")
    assert check_file(FileText(project, "/a.yaml", content)).note == "Checked as a task definition."


@pytest.mark.parametrize(
    ("path", "content", "note"),
    [
        ("/a.txt", "a: [", "Files with this name are stored as plain text."),
        ("/a.yaml", "a: 1", "Valid syntax."),
        ("/a.yaml", " \n", "The file is empty."),
        ("/a.yaml", TASK, "Checked as a task definition."),
        ("/a.yaml", "launchType: EC2\ncount: 2\n", "Checked as a RunTask request."),
    ],
)
def test_a_good_text_is_told_what_it_is(project: Scope, path: str, content: str, note: str) -> None:
    checked = check_file(FileText(project, path, content))
    assert (checked.errors, checked.note) == ((), note)


def test_a_manifest_is_guided_by_awss_model_and_the_variables_of_its_service(project: Scope) -> None:
    service = service_with(project, "/a.yaml", kind="EcsServiceDefinition")
    Service.objects.filter(pk=service.pk).update(variables={"replicas": 2})
    guide = get_completion_guide(FileText(project, "/a.yaml", "not: read"))
    properties = guide["schema"]["properties"]
    assert properties["launchType"]["enum"][:2] == ["EC2", "FARGATE"]
    assert "taskDefinition" not in properties
    network = guide["schema"]["$defs"]["NetworkConfiguration"]["properties"]
    assert network["awsvpcConfiguration"] == {"$ref": "#/$defs/AwsVpcConfiguration"}
    assert {"infra.cluster", "serviceVariables.replicas"} <= {
        suggestion["value"] for suggestion in guide["expressions"]
    }
    assert get_completion_guide(FileText(project, "/b.yaml", "a: 1")) == {}
    assert get_completion_guide(FileText(project, "/b.yaml", "containerDefinitions: [")) == {}
