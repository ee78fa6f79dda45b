"""Stores: what they fetch, and that every store in the folder keeps the contract."""

import pytest

from catalog.manifests.documents import BadDocument
from catalog.manifests.stores import (
    StoreError,
    describe_arn_problem,
    fetch_documents,
    get_store_title,
    is_store,
    list_store_names,
)
from connectors.operations import save_file
from rbac.models import Scope, User

TEXT = "serviceName: myapp\n"


def build_source(store: str, paths: list[str] | None = None, content: str = "") -> dict[str, object]:
    return {"identifier": "service_def", "store": store, "paths": paths or [], "content": content}


@pytest.mark.parametrize("name", list_store_names())
def test_every_store_has_a_title_and_says_when_it_has_nothing(name: str) -> None:
    assert is_store(name)
    assert get_store_title(name)
    with pytest.raises(StoreError, match="service_def has no file"):
        fetch_documents(build_source(name), Scope())


def test_the_stores_of_this_version() -> None:
    assert list_store_names() == ["FileStore", "Git", "Inline", "S3", "TaskDefinitionArn"]
    assert get_store_title("FileStore") == "File Store"


def test_an_unknown_store_is_named_with_the_known_ones() -> None:
    with pytest.raises(StoreError, match='unknown store "Attic".*FileStore, Git, Inline'):
        fetch_documents(build_source("Attic"), Scope())


def test_inline_text_is_parsed_under_the_name_of_the_manifest() -> None:
    (document,) = fetch_documents(build_source("Inline", content=TEXT), Scope())
    assert (document.name, document.value) == ("service_def", {"serviceName": "myapp"})


def test_files_are_fetched_by_reference_and_folders_whole(project: Scope, admin: User) -> None:
    save_file(actor=admin, scope=project, path="/ECS Tutorial/CreateServiceRequest.yaml", content=TEXT)
    save_file(actor=admin, scope=project, path="/ECS Tutorial/more/second.yaml", content="b: 2\n")
    save_file(actor=admin, scope=Scope.objects.account(), path="/shared.yaml", content="c: 3\n")
    file_documents = fetch_documents(
        build_source("FileStore", ["/ECS Tutorial/CreateServiceRequest.yaml"]), project
    )
    assert [(document.name, document.value) for document in file_documents] == [
        ("/ECS Tutorial/CreateServiceRequest.yaml", {"serviceName": "myapp"})
    ]
    folder_documents = fetch_documents(
        build_source("FileStore", ["/ECS Tutorial", "account:/shared.yaml"]), project
    )
    assert [document.name for document in folder_documents] == [
        "/ECS Tutorial/CreateServiceRequest.yaml",
        "/ECS Tutorial/more/second.yaml",
        "account:/shared.yaml",
    ]


def test_a_missing_file_is_refused_naming_the_nearest(project: Scope, admin: User) -> None:
    save_file(actor=admin, scope=project, path="/ECS Tutorial/CreateServiceRequest.yaml", content=TEXT)
    with pytest.raises(StoreError, match='Did you mean "/ECS Tutorial/CreateServiceRequest.yaml"'):
        fetch_documents(build_source("FileStore", ["/ECS Tutorial/CreateService.yaml"]), project)


def test_a_broken_file_is_refused_with_its_line(project: Scope, admin: User) -> None:
    save_file(actor=admin, scope=project, path="/bad.yaml", content="a: 1\nb: [1, 2\n")
    with pytest.raises(BadDocument, match=r"/bad\.yaml, line 3"):
        fetch_documents(build_source("FileStore", ["/bad.yaml"]), project)


def test_the_arn_of_a_daemon_task_definition_is_refused_with_the_way_out() -> None:
    prefix = "arn:aws:ecs:us-east-1:123456789012"
    assert describe_arn_problem(f"{prefix}:task-definition/web:7") == ""
    assert "aws ecs update-daemon" in describe_arn_problem(f"{prefix}:daemon-task-definition/agent:7")
