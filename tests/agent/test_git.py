"""Files from git: one commit of a repository on loopback, and nothing that it could run."""

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.places import place
from tests.agent.tasks import error_of, run

LOGIN = "Basic " + base64.b64encode(b"me:s3cr3t-pass").decode()


def http_backend(request: Any, bare: Path, query: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """What git itself answers, by its CGI program."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(bare.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": request.command,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "HTTP_GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
    }
    done = subprocess.run(
        ["git", "http-backend"], env=environment, input=request.body, capture_output=True, check=True
    )
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    return int(headers.pop("Status", "200").split()[0]), headers, body


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A repository that a plain web server serves: its address, and its newest commit."""
    work, bare = tmp_path / "work", tmp_path / "app.git"

    def git(*arguments: str) -> str:
        config = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
        done = subprocess.run(["git", *config, *arguments], cwd=work, capture_output=True, check=True)
        return done.stdout.decode().strip()

    work.mkdir()
    git("init", "-q")
    (work / "ecs").mkdir()
    (work / "ecs" / "task.yaml").write_text("family: web\n")
    (work / "ecs" / "service.yaml").write_text("serviceName: web\n")
    (work / "link").symlink_to("/etc/passwd")
    (work / "big").write_text("x" * (1024 * 1024 + 1))
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    git("clone", "-q", "--bare", str(work), str(bare))
    subprocess.run(["git", "config", "uploadpack.allowAnySHA1InWant", "true"], cwd=bare, check=True)

    def serve(request: Any) -> tuple[int, dict[str, str], bytes]:
        path, _, query = request.path.partition("?")
        if path.startswith("/private") and request.headers.get("Authorization") != LOGIN:
            return 401, {"WWW-Authenticate": 'Basic realm="git"'}, b""
        return http_backend(request, bare, query, path.removeprefix("/private"))

    with place(serve) as url:
        yield f"{url}/app.git", commit


def fetch(url: str, *paths: str, mask: tuple[str, ...] = (), **more: Any) -> Any:
    return run("git", {"url": url, "ref": "main", "paths": list(paths), **more}, mask=mask)


Repository = tuple[str, str]


def test_files_and_folders_of_a_branch_come_with_its_commit(repository: Repository) -> None:
    url, commit = repository
    answer = fetch(url, "ecs/")
    assert answer.status == "SUCCEEDED", answer.error
    assert answer.result == {
        "commit": commit,
        "files": {"ecs/service.yaml": "serviceName: web\n", "ecs/task.yaml": "family: web\n"},
    }


def test_a_commit_can_be_named(repository: Repository) -> None:
    url, commit = repository
    answer = fetch(url, "ecs/task.yaml", ref=commit)
    assert answer.result["files"] == {"ecs/task.yaml": "family: web\n"}


def test_name_and_password_open_a_private_repository_and_stay_hidden(repository: Repository) -> None:
    url = repository[0].replace("/app.git", "/private/app.git")
    said = error_of(fetch(url, "ecs/task.yaml", username="me", password="wrong-pass", mask=("wrong-pass",)))
    assert said["code"] == "GitFailed"
    assert "wrong-pass" not in said["message"]
    answer = fetch(url, "ecs/task.yaml", username="me", password="s3cr3t-pass")
    assert answer.status == "SUCCEEDED", answer.error


@pytest.mark.parametrize("path", ["nothing.yaml", "link", "../work", ":(top)ecs"])
def test_what_is_no_file_of_the_commit_is_named(repository: Repository, path: str) -> None:
    error = error_of(fetch(repository[0], path))
    assert error["code"] == "GitFailed"
    assert path in error["message"]


def test_a_file_that_is_too_large_is_named(repository: Repository) -> None:
    assert "big is too large" in error_of(fetch(repository[0], "big"))["message"]


def test_a_branch_that_is_not_there_is_told_in_gits_words(repository: Repository) -> None:
    error = error_of(fetch(repository[0], "x", ref="nowhere"))
    assert "nowhere" in error["message"]
    assert error["capability"] is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ext::sh -c id"},
        {"url": "file:///etc"},
        {"url": "/etc"},
        {"url": "https://me:secret@example.com/a.git"},
        {"url": "ssh://-oProxyCommand=id/a"},
        {"url": "http://127.0.0.1/a.git", "ref": "--upload-pack=id"},
        {"url": "http://127.0.0.1/a.git", "ref": "a b"},
    ],
)
def test_addresses_and_names_that_git_could_take_for_orders_are_refused(wrong: dict[str, str]) -> None:
    assert error_of(run("git", wrong))["code"] == "BadParameters"
