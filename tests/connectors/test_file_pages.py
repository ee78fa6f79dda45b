"""The pages of the file store: nothing that somebody wrote is lost, and nothing goes unnoticed."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from catalog.models import Manifest, Service
from connectors.models import FileNode
from connectors.operations import delete_file, save_file
from rbac.models import Scope, User

Browse = Callable[[User], Client]
GOOD = "family: app\ncontainerDefinitions:\n  - name: app\n    image: nginx\n    memory: 512\n"


@pytest.fixture
def node(project: Scope, admin: User) -> FileNode:
    return save_file(actor=admin, scope=project, path="/web/task.yaml", content="a: 1\nb: 2\n")


def text_of(response: Any) -> str:
    return str(response.content.decode())


def test_a_file_is_created_and_shown(project: Scope, admin: User, browse: Browse) -> None:
    form = {"in_scope": project.path, "path": "/web/task.yaml", "content": GOOD}
    response = browse(admin).post("/files/new/", form, follow=True)
    assert "saved as version 1" in text_of(response)
    assert "containerDefinitions" in text_of(response)
    assert FileNode.objects.get(path="/web/task.yaml").content == GOOD


def test_what_cannot_be_saved_comes_back_with_its_text(project: Scope, admin: User, browse: Browse) -> None:
    client = browse(admin)
    form = {"in_scope": project.path, "path": "no slash", "content": "kept: text"}
    response = client.post("/files/new/", form)
    assert response.status_code == 400
    assert "A path starts with a slash" in text_of(response)
    assert "kept: text" in text_of(response)
    save_file(actor=admin, scope=project, path="/a.yaml", content="")
    conflict = client.post("/files/new/", form | {"path": "/a.yaml"})
    assert "A file with this path already exists" in text_of(conflict)


def test_a_broken_manifest_is_kept_with_a_warning(node: FileNode, admin: User, browse: Browse) -> None:
    form = {"content": GOOD.replace("512", "lots"), "version": 1}
    response = browse(admin).post(f"/files/{node.pk}/edit/", form, follow=True)
    assert "It has 1 error" in text_of(response)


def test_two_who_write_at_once_lose_nothing(node: FileNode, admin: User, browse: Browse) -> None:
    client = browse(admin)
    save_file(actor=admin, scope=node.scope, path=node.path, content="a: 1\nb: theirs\n")
    refused = client.post(f"/files/{node.pk}/edit/", {"content": "a: 1\nb: mine\n", "version": 1})
    assert refused.status_code == 409
    page = text_of(refused)
    assert "admin saved version 2 while you were editing" in page
    assert "b: theirs" in page
    assert "b: mine\n</textarea>" in page
    assert 'name="version" value="2"' in page
    client.post(f"/files/{node.pk}/edit/", {"content": "a: 1\nb: mine\n", "version": 2})
    assert [version.content for version in node.versions.order_by("version")][1:] == [
        "a: 1\nb: theirs\n",
        "a: 1\nb: mine\n",
    ]


def test_a_text_outlives_the_file_it_was_for(node: FileNode, admin: User, browse: Browse) -> None:
    delete_file(actor=admin, node=node)
    form = {"content": "hours: of work", "version": 1, "path": node.path, "in_scope": node.scope.path}
    response = browse(admin).post(f"/files/{node.pk or 1}/edit/", form)
    assert "was deleted while you were editing" in text_of(response)
    assert "hours: of work" in text_of(response)
    assert f'value="{node.path}"' in text_of(response)


def test_the_history_compares_shows_and_restores(node: FileNode, admin: User, browse: Browse) -> None:
    client = browse(admin)
    save_file(actor=admin, scope=node.scope, path=node.path, content="a: 1\nb: 3\n", note="More of b")
    page = text_of(client.get(f"/files/{node.pk}/history/"))
    assert "More of b" in page
    assert '<span aria-label="removed">−</span></td><td class="text">b: 2</td>' in page
    assert "b: 2" in text_of(client.get(f"/files/{node.pk}/history/?show=1"))
    assert client.get(f"/files/{node.pk}/history/?show=7").status_code == 404
    assert client.get(f"/files/{node.pk}/history/?from=²&to=1").status_code == 404
    client.post(f"/files/{node.pk}/restore/1/")
    node.refresh_from_db()
    assert (node.version, node.content) == (3, "a: 1\nb: 2\n")


def test_a_download_is_the_text_under_its_name(node: FileNode, admin: User, browse: Browse) -> None:
    client = browse(admin)
    save_file(actor=admin, scope=node.scope, path=node.path, content="new")
    response = client.get(f"/files/{node.pk}/download/?version=1")
    assert response.content == b"a: 1\nb: 2\n"
    assert response["Content-Disposition"] == 'attachment; filename="task.yaml"'
    assert client.get(f"/files/{node.pk}/download/").content == b"new"


def test_an_upload_is_whole_or_nothing(project: Scope, node: FileNode, admin: User, browse: Browse) -> None:
    client = browse(admin)

    def send(*files: tuple[str, bytes], **more: str) -> Any:
        uploaded = [SimpleUploadedFile(name, content) for name, content in files]
        form = {"in_scope": project.path, "folder": "/web", "uploaded": uploaded} | more
        return client.post("/files/upload/", form, follow=True)

    refused = send(("new.yaml", b"x: 1"), ("latin.txt", b"caf\xe9"))
    assert "latin.txt is not UTF-8 text: byte 4 is not valid" in text_of(refused)
    assert not FileNode.objects.filter(path="/web/new.yaml").exists()
    assert "There is already a file /web/task.yaml" in text_of(send(("task.yaml", b"x: 1")))
    assert "larger than 256 KiB" in text_of(send(("big.txt", b"x" * (256 * 1024 + 1))))
    assert "Uploaded 2 files" in text_of(send(("task.yaml", b"x: 1"), ("b.yaml", b""), replace="on"))
    node.refresh_from_db()
    assert (node.version, node.content) == (2, "x: 1")


def test_a_used_file_is_moved_and_deleted_only_on_purpose(
    node: FileNode, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    service = Service.objects.create(scope=node.scope, identifier="web", name="Web shop")
    Manifest.objects.create(service=service, identifier="m", kind="EcsTaskDefinition", paths=[node.path])
    for place, form in (("move", {"path": "/b.yaml"}), ("delete", {})):
        assert "service Web shop" in text_of(client.get(f"/files/{node.pk}/{place}/"))
        assert client.post(f"/files/{node.pk}/{place}/", form).status_code == 400
    assert FileNode.objects.get(pk=node.pk).path == "/web/task.yaml"
    client.post(f"/files/{node.pk}/move/", {"path": "/b.yaml", "although_used": "on"})
    client.post(f"/files/{node.pk}/delete/", {"although_used": "on"})
    assert not FileNode.objects.filter(pk=node.pk).exists()


def test_a_full_folder_says_how_much_goes_with_it(node: FileNode, admin: User, browse: Browse) -> None:
    client = browse(admin)
    folder = FileNode.objects.get(path="/web")
    assert "with it 1 file" in text_of(client.get(f"/files/{folder.pk}/delete/"))
    assert "is not empty" in text_of(client.post(f"/files/{folder.pk}/delete/"))
    client.post(f"/files/{folder.pk}/delete/", {"with_content": "on"})
    assert not FileNode.objects.exists()


def test_the_tree_shows_scopes_above_and_folders_before_what_is_in_them(
    project: Scope, other_project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    for scope, path in (
        (Scope.objects.account(), "/shared.yaml"),
        (project, "/a-b.yaml"),
        (project, "/a/z.yaml"),
        (other_project, "/foreign.yaml"),
    ):
        save_file(actor=admin, scope=scope, path=path, content="")
    response = client.get(f"/files/?scope={project.path}")
    assert [node.path for node in response.context["nodes"]] == [
        "/shared.yaml",
        "/a",
        "/a/z.yaml",
        "/a-b.yaml",
    ]


def test_the_editor_is_answered_with_places(project: Scope, admin: User, browse: Browse) -> None:
    form = {"in_scope": project.path, "path": "/a.yaml", "content": "a: [1\nb: 2"}
    answer = browse(admin).post("/files/check/", form).json()
    assert (answer["errors"][0]["line"], answer["errors"][0]["column"]) == (2, 2)


def test_an_upload_without_a_file_says_that_one_is_needed(
    project: Scope, admin: User, client: Client
) -> None:
    client.force_login(admin)
    response = client.post("/files/upload/", {"in_scope": project.pk, "folder": ""})
    assert response.status_code in (200, 400)
    assert "This field is required" in response.content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/files/{node}/history/?show={number}",
        "/files/{node}/history/?from={number}",
        "/files/{node}/history/?from=1&to={number}",
        "/files/{node}/download/?version={number}",
        "/services/words/?kind=EcsTaskDefinition&service={number}",
    ],
)
def test_a_number_of_thousands_of_digits_names_nothing(
    node: FileNode, admin: User, browse: Browse, path: str
) -> None:
    address = path.format(node=node.pk, number="9" * 5000)
    assert browse(admin).get(address).status_code == 404


@pytest.mark.parametrize("address", ["/files/check/", "/services/clean-up/?service={number}"])
def test_an_editor_of_something_with_a_number_of_thousands_of_digits_finds_nothing(
    admin: User, browse: Browse, address: str
) -> None:
    number = "9" * 5000
    form = {"node": number, "content": "", "manifests-0-kind": "EcsTaskDefinition"}
    assert browse(admin).post(address.format(number=number), form).status_code == 404
