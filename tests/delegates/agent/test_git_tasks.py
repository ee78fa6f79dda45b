"""Files from git: one commit of a repository on loopback, and nothing that it could run."""

import gzip
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import ascii_letters
from typing import Any

import asyncssh
import pytest

from delegates.agent.executors import ExecutorContext, execute_task, git, git_client
from delegates.agent.executors.git import GitCache
from guards.host_keys import parse_host_keys
from guards.limits import Limit
from tests.delegates.agent.fake_servers import start_http_server
from tests.delegates.agent.held_tasks import MemoryLog, create_task, get_error, run_task
from tests.fixtures.git import GitServer, http_backend
from tests.fixtures.ssh import SshServer, new_key, public
from tests.secret_watch.marker import planted


@pytest.fixture
def repository(git_server: GitServer) -> tuple[str, str]:
    """A repository with files of all sorts: its address, and its newest commit."""
    (git_server.work / "link").symlink_to("/etc/passwd")
    commit = git_server.commit(
        {
            "ecs/task.yaml": "family: web\n",
            "ecs/service.yaml": "serviceName: web\n",
            "big": "x" * (1024 * 1024 + 1),
        }
    )
    return git_server.url, commit


def fetch(url: str, *paths: str, mask: tuple[str, ...] = (), **params: Any) -> Any:
    return run_task("git", {"url": url, "ref": "main", "paths": list(paths), **params}, mask=mask)


Repository = tuple[str, str]


def test_files_and_folders_of_a_branch_come_with_its_commit(repository: Repository) -> None:
    url, commit = repository
    result = fetch(url, "ecs/")
    assert result.status == "SUCCEEDED", result.error
    assert result.result == {
        "commit": commit,
        "files": {"ecs/service.yaml": "serviceName: web\n", "ecs/task.yaml": "family: web\n"},
    }


def test_a_commit_can_be_named(repository: Repository) -> None:
    url, commit = repository
    result = fetch(url, "ecs/task.yaml", ref=commit)
    assert result.result["files"] == {"ecs/task.yaml": "family: web\n"}


def test_a_repository_whose_name_only_the_proxy_resolves_is_fetched_through_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[str] = []

    def refuse(request: Any) -> tuple[int, dict[str, str], bytes]:
        paths.append(request.path)
        return 403, {}, b""

    with start_http_server(refuse) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        assert "error: 403" in get_error(fetch("http://git.invalid/app.git"))["message"]
        assert paths == ["http://git.invalid/app.git/info/refs?service=git-upload-pack"]
        assert get_error(fetch("http://169.254.169.254/app.git"))["code"] == "AddressRefused"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert fetch(repository[0], "ecs/task.yaml").status == "SUCCEEDED"
    assert len(paths) == 1


def test_name_and_password_open_a_private_repository_and_stay_hidden(repository: Repository) -> None:
    url = repository[0].replace("/app.git", "/private/app.git")
    error = get_error(fetch(url, "ecs/task.yaml", username="me", password="wrong-pass", mask=("wrong-pass",)))
    assert error["code"] == "GitFailed"
    assert "wrong-pass" not in error["message"]
    result = fetch(url, "ecs/task.yaml", username="me", password=planted("s3cr3t-pass"))
    assert result.status == "SUCCEEDED", result.error


@pytest.mark.parametrize("path", ["nothing.yaml", "link", "../work", ":(top)ecs"])
def test_what_is_no_file_of_the_commit_is_named(repository: Repository, path: str) -> None:
    error = get_error(fetch(repository[0], path))
    assert error["code"] == "GitFailed"
    assert path in error["message"]


def test_a_file_that_is_too_large_is_named(repository: Repository) -> None:
    assert "big is too large" in get_error(fetch(repository[0], "big"))["message"]


def test_a_file_that_is_not_text_is_named(git_server: GitServer) -> None:
    (git_server.work / "logo.png").write_bytes(b"\x89PNG\0\0")
    git_server.commit({"ecs/task.yaml": "family: web\n"})
    assert "logo.png is not text" in get_error(fetch(git_server.url, "/"))["message"]
    assert fetch(git_server.url, "ecs").status == "SUCCEEDED"
    (git_server.work / "latin.yaml").write_bytes("name: Größe".encode("latin-1"))
    git_server.commit({})
    error = get_error(fetch(git_server.url, "latin.yaml"))
    assert error["message"].endswith("latin.yaml is not UTF-8: byte 9 is not valid")


def test_a_branch_that_is_not_there_is_told_in_gits_words(repository: Repository) -> None:
    error = get_error(fetch(repository[0], "x", ref="nowhere"))
    assert "nowhere" in error["message"]
    assert error["capability"] is False


@pytest.mark.parametrize(
    "params",
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
def test_addresses_and_names_that_git_could_take_for_orders_are_refused(params: dict[str, str]) -> None:
    assert get_error(run_task("git", params))["code"] == "BadParameters"


def test_branches_and_tags_are_listed(repository: Repository, git_server: GitServer) -> None:
    git_server.commit({"a": "b"}, branch="next")
    git_server.tag("v1")
    result = run_task("git", {"url": repository[0], "refs": True})
    assert result.result == {"branches": ["main", "next"], "tags": ["v1"]}


def test_files_come_over_ssh_with_a_key(repository: Repository, ssh_server: SshServer) -> None:
    result = fetch(ssh_server.url, "ecs/task.yaml", ssh_key=ssh_server.key, mask=(ssh_server.key,))
    assert result.status == "SUCCEEDED", result.error
    files = {"ecs/task.yaml": "family: web\n"}
    assert result.result == {"commit": repository[1], "files": files, "host_key": ssh_server.host_key}


def test_a_server_is_known_again_by_its_key(repository: Repository, ssh_server: SshServer) -> None:
    host_keys = [f"127.0.0.1 {public(new_key())}", ssh_server.host_key]
    result = fetch(ssh_server.url, "ecs/task.yaml", ssh_key=ssh_server.key, host_keys=host_keys)
    assert result.status == "SUCCEEDED", result.error
    assert "host_key" not in result.result


def test_a_server_with_another_key_gets_no_login(repository: Repository, ssh_server: SshServer) -> None:
    other = public(new_key())
    error = get_error(fetch(ssh_server.url, "ecs/task.yaml", ssh_key=ssh_server.key, host_keys=[other]))
    assert (error["code"], error["host_key"]) == ("HostKeyChanged", ssh_server.host_key)
    for host_key in (other, ssh_server.host_key):
        assert parse_host_keys(host_key)[0].fingerprint in error["message"]


def test_a_commit_that_is_too_much_is_not_taken(
    git_server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    git_server.commit({"random": "".join(random.Random(7).choices(ascii_letters, k=400_000))})
    monkeypatch.setattr(git_client, "GIT_TRANSFER_BYTES", Limit(64 * 1024, "bytes", "a commit", "a test"))
    monkeypatch.setattr(git_client, "_START", git_client._START.replace("-f 204800", "-f 128"))
    error = get_error(fetch(git_server.url, "random"))
    assert "one commit of the repository is more than 64 KiB" in error["message"]


def test_git_is_ended_with_all_that_it_started(git_server: GitServer) -> None:
    git_server.commit({"a": "b"})
    request_started = threading.Event()
    release = threading.Event()

    def serve(request: Any) -> tuple[int, dict[str, str], bytes]:
        request_started.set()
        release.wait(30)
        return 200, {}, b""

    with start_http_server(serve) as url:
        task = create_task("git", {"url": f"{url}/app.git", "paths": ["a"]})
        results: list[Any] = []
        thread = threading.Thread(
            target=lambda: results.append(execute_task(task, ExecutorContext(MemoryLog())))
        )
        thread.start()
        assert request_started.wait(20)
        task.stopped.set()
        thread.join(20)
        release.set()
    assert results[0].status == "ABORTED"


@pytest.mark.parametrize(
    "url",
    [
        "ssh://git@a;id/app.git",
        "ssh://git@$(id)/app.git",
        "ssh://-l@example.com/app.git",
        "ssh://a%3Bid@example.com/a",
        "ssh://git@`id`/app.git",
    ],
)
def test_names_that_a_shell_could_take_for_orders_are_refused(url: str) -> None:
    assert get_error(run_task("git", {"url": url, "ssh_key": "k"}))["code"] == "BadParameters"


def test_a_key_that_the_server_does_not_know_is_refused_in_its_words(
    repository: Repository, ssh_server: SshServer
) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    error = get_error(fetch(ssh_server.url, "ecs/task.yaml", ssh_key=stranger))
    assert "Permission denied" in error["message"]
    assert error["capability"] is False


class FetchCounter:
    """Answers for a Git server, and counts how often a pack was asked for."""

    def __init__(self, git_server: GitServer) -> None:
        self.packs = 0
        self._root = git_server.bare.parent

    def __call__(self, request: Any) -> tuple[int, dict[str, str], bytes]:
        self.packs += b"command=fetch" in decompress_body(request)
        path, _, query = request.path.partition("?")
        return http_backend(request, self._root, query, path)


def decompress_body(request: Any) -> bytes:
    is_packed = request.headers.get("Content-Encoding") == "gzip"
    return gzip.decompress(request.body) if is_packed else bytes(request.body)


def fetch_with_cache(folder: Path, url: str, ref: str = "refs/heads/main") -> Any:
    task = create_task("git", {"url": f"{url}/app.git", "ref": ref, "paths": ["a"]})
    return execute_task(task, ExecutorContext(MemoryLog(), git_cache=folder))


def test_a_commit_is_fetched_once(git_server: GitServer, tmp_path: Path) -> None:
    first, server = git_server.commit({"a": "1"}), FetchCounter(git_server)
    git_server.git("tag", "-am", "v1", "v1")
    git_server.git("push", "-q", str(git_server.bare), "v1")
    with start_http_server(server) as url:
        results = [
            fetch_with_cache(tmp_path / "kept", url, ref)
            for ref in ("refs/heads/main", first, "refs/tags/v1")
        ]
        assert [result.result for result in results] == [{"commit": first, "files": {"a": "1"}}] * 3
        assert server.packs == 1
        second = git_server.commit({"a": "2"})
        assert fetch_with_cache(tmp_path / "kept", url).result == {"commit": second, "files": {"a": "2"}}
        assert server.packs == 2


def test_two_who_want_the_same_commit_at_once_fetch_it_once(git_server: GitServer, tmp_path: Path) -> None:
    commit, server = git_server.commit({"a": "1"}), FetchCounter(git_server)
    with start_http_server(server) as url, ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fetch_with_cache(tmp_path / "kept", url), range(4)))
    assert [result.result["commit"] for result in results] == [commit] * 4
    assert server.packs == 1


def test_who_may_not_see_a_repository_gets_nothing_that_was_kept(
    git_server: GitServer, tmp_path: Path
) -> None:
    commit = git_server.commit({"a": "1"})
    context = ExecutorContext(MemoryLog(), git_cache=tmp_path / "kept")
    params = {"url": git_server.private_url, "ref": commit, "paths": ["a"], "username": "me"}
    task = create_task("git", {**params, "password": planted("s3cr3t-pass")})
    assert execute_task(task, context).status == "SUCCEEDED"
    assert execute_task(create_task("git", {**params, "password": "wrong"}), context).status == "FAILED"


def test_what_is_damaged_or_cannot_be_kept_is_fetched_anew(git_server: GitServer, tmp_path: Path) -> None:
    git_server.commit({"a": "1"})
    folder = tmp_path / "kept"
    assert fetch_with_cache(folder, git_server.account).status == "SUCCEEDED"
    for pack_file in folder.rglob("*.pack"):
        pack_file.chmod(0o600)
        pack_file.write_bytes(b"nonsense")
    assert fetch_with_cache(folder, git_server.account).result["files"] == {"a": "1"}
    (tmp_path / "file").write_text("")
    assert fetch_with_cache(tmp_path / "file", git_server.account).result["files"] == {"a": "1"}


def test_what_is_kept_is_bounded_by_size_and_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "GIT_CACHE_BYTES", 1000)
    cache = GitCache(tmp_path)

    def put(commit: str, age: float, size: int = 400) -> Path:
        def fill(folder: Path) -> str:
            (folder / "pack").write_bytes(b"x" * size)
            return commit

        with cache.lock_repository("url", commit, fill=fill, wait=lambda: None) as cached_folder:
            os.utime(cached_folder, (time.time() - age, time.time() - age))
            return cached_folder

    expired, first, second, third = put("old", 8 * 24 * 3600), put("1", 300), put("2", 200), put("3", 100)
    assert [path.exists() for path in (expired, first, second, third)] == [False, False, True, True]
    abandoned_folder = tmp_path / "begun-x"
    abandoned_folder.mkdir()
    os.utime(abandoned_folder, (1, 1))
    put("4", 0, size=10)
    assert not abandoned_folder.exists()
