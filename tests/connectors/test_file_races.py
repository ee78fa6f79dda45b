"""Two people at the file store at the same moment: somebody wins, nothing is lost or doubled."""

import pytest

from connectors.models import FileNode
from connectors.operations import create_folder, delete_file, move_file, save_file, undelete_files
from rbac.models import Scope, User
from tests.fixtures.threads import run_concurrently, split
from web.http.problems import Conflict, VersionConflict

pytestmark = pytest.mark.django_db(transaction=True)


def paths() -> list[str]:
    return sorted(FileNode.objects.values_list("path", flat=True))


def test_of_two_who_save_over_the_same_version_one_is_told(project: Scope, admin: User) -> None:
    save_file(actor=admin, scope=project, path="/a.yaml", content="one")

    def save(text: str) -> FileNode:
        return save_file(actor=admin, scope=project, path="/a.yaml", content=text, expected_version=1)

    won, failures = split(run_concurrently(lambda: save("mine"), lambda: save("theirs")))
    assert (len(won), [type(failure) for failure in failures]) == (1, [VersionConflict])
    assert FileNode.objects.get().content == won[0].content


def test_two_who_save_without_looking_are_both_in_the_history(project: Scope, admin: User) -> None:
    node = save_file(actor=admin, scope=project, path="/a.yaml", content="one")

    def save(text: str) -> FileNode:
        return save_file(actor=admin, scope=project, path="/a.yaml", content=text)

    won, failures = split(run_concurrently(lambda: save("mine"), lambda: save("theirs")))
    assert (len(won), failures) == (2, [])
    assert {version.content for version in node.versions.all()} == {"one", "mine", "theirs"}


def test_a_path_is_given_once(project: Scope, admin: User) -> None:
    files = [save_file(actor=admin, scope=project, path=f"/{name}", content=name) for name in "ab"]
    moves = [lambda node=node: move_file(actor=admin, node=node, path="/c/d") for node in files]
    won, failures = split(run_concurrently(*moves))
    assert (len(won), [type(failure) for failure in failures]) == (1, [Conflict])
    assert "/c/d" in paths()
    assert len(paths()) == 3


def test_a_folder_is_made_once(project: Scope, admin: User) -> None:
    jobs = [lambda: create_folder(actor=admin, scope=project, path="/f")] * 2
    won, failures = split(run_concurrently(*jobs))
    assert (len(won), [type(failure) for failure in failures], paths()) == (1, [Conflict], ["/f"])


def test_what_comes_back_does_not_push_away_what_is_made_there(project: Scope, admin: User) -> None:
    node = save_file(actor=admin, scope=project, path="/a.yaml", content="old")
    deletion = delete_file(actor=admin, node=node)
    won, failures = split(
        run_concurrently(
            lambda: undelete_files(actor=admin, deletion=deletion),
            lambda: save_file(actor=admin, scope=project, path="/a.yaml", content="new", expected_version=0),
        )
    )
    assert (len(won), len(failures)) == (1, 1)
    assert isinstance(failures[0], Conflict | VersionConflict)
    assert paths() == ["/a.yaml"]
