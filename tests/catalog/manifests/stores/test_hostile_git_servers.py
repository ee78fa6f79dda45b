"""What a Git server may not do to who asks it: lead astray, be somewhere else, send what is no document."""

from typing import Any

import pytest

from catalog.manifests.documents import BadDocument
from catalog.manifests.stores import fetch_documents
from delegates.agent.executors import ExecutorContext, execute_task
from guards.address_policy import AddressPolicy
from rbac.models import Scope
from tests.delegates.agent.fake_servers import start_http_server
from tests.delegates.agent.held_tasks import MemoryLog, create_task, get_error, run_task
from tests.fixtures.git import GitServer, http_backend
from tests.fixtures.time_limits import run_within_cpu
from tests.guards.fake_resolver import Rebinding
from tests.invalid_input.test_yaml import CORPUS, OF_ALIASES

INSIDE = [
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "2130706433",
    "017700000001",
    "0",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "10.0.0.7",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "192.0.0.192",
    "224.0.0.1",
    "①②⑦.⓪.⓪.①",
]
TRICKS = [
    "https://good.example\t.evil.example/a.git",
    "https://good.example\n/a.git",
    "https://good.example\\@127.0.0.1/a.git",
    "ext::sh -c id",
    "file:///etc/passwd",
    "git://127.0.0.1/a.git",
    "ftp://127.0.0.1/a.git",
    "http://127.0.0.1:6379/a.git",
    "ssh://git@good.example;id/a.git",
]


def fetch_repository(url: str, reach: AddressPolicy) -> Any:
    task = create_task("git", {"url": url, "paths": ["a"], "ssh_key": "key"})
    return execute_task(task, ExecutorContext(MemoryLog(), reach=reach))


@pytest.mark.parametrize("host", INSIDE)
@pytest.mark.parametrize("scheme", ["https", "ssh"])
def test_nothing_inside_is_reached_however_it_is_written(scheme: str, host: str) -> None:
    assert get_error(fetch_repository(f"{scheme}://{host}/a.git", AddressPolicy()))["code"] in (
        "AddressRefused",
        "BadParameters",
    )


@pytest.mark.parametrize("url", TRICKS)
def test_what_programs_read_in_two_ways_is_refused(url: str) -> None:
    assert get_error(run_task("git", {"url": url, "paths": ["a"]}))["code"] == "BadParameters"


def test_a_server_that_points_elsewhere_is_not_followed(git_server: GitServer) -> None:
    git_server.commit({"a": "b"})
    paths: list[str] = []

    def serve_internal(request: Any) -> tuple[int, dict[str, str], bytes]:
        paths.append(request.path)
        path, _, query = request.path.partition("?")
        return http_backend(request, git_server.bare.parent, query, path)

    with start_http_server(serve_internal) as other:

        def redirect_request(request: Any) -> tuple[int, dict[str, str], bytes]:
            return 302, {"Location": f"{other}{request.path}"}, b""

        def serve_old_protocol(request: Any) -> tuple[int, dict[str, str], bytes]:
            """Serve the old protocol, by which a server may name others that have its objects."""
            responses = {
                "/app.git/info/refs": f"{'1' * 40}\trefs/heads/main\n",
                "/app.git/HEAD": "ref: refs/heads/main\n",
                "/app.git/objects/info/http-alternates": f"{other}/app.git/objects/\n",
            }
            content = responses.get(request.path.partition("?")[0])
            return (200, {"Content-Type": "text/plain"}, content.encode()) if content else (404, {}, b"")

        for handler in (redirect_request, serve_old_protocol):
            with start_http_server(handler) as url:
                params = {"url": f"{url}/app.git", "ref": "refs/heads/main", "paths": ["a"]}
                assert get_error(run_task("git", params))["code"] == "GitFailed"
    assert paths == []


def test_a_name_is_looked_up_once(git_server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    git_server.commit({"a": "b"})
    port = git_server.account.rpartition(":")[2]
    # No other resolver knows this name: git has the address from who checked it.
    names = Rebinding(monkeypatch, "astray.example", "127.0.0.1", "169.254.169.254")
    result = run_task("git", {"url": f"http://astray.example:{port}/app.git", "ref": "main", "paths": ["a"]})
    assert result.status == "SUCCEEDED", result.error
    assert names.query_count == 1


@pytest.mark.parametrize("case", sorted(set(CORPUS) - {"question marks", "alias"}))
def test_what_comes_is_read_with_the_same_guard_as_what_people_write(case: str) -> None:
    text, message = CORPUS[case]
    message = OF_ALIASES.get(case) or message
    row = {
        "identifier": "task",
        "kind": "EcsTaskDefinition",
        "store": "Git",
        "paths": ["a.yaml"],
        "texts": [{"name": "a.yaml", "text": text}],
    }
    with pytest.raises(BadDocument) as error:
        run_within_cpu(0.5, lambda: fetch_documents(row, Scope()))
    assert message.lower() in str(error.value).lower()
    assert "a.yaml" in str(error.value)
