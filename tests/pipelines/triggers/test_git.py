"""Pushes and tags: how providers prove themselves, what is read of payloads, and what starts runs."""

import hashlib
import hmac
import json
import os
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from deployments.models import Execution
from pipelines import tasks
from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers.base import HookRequest, TriggerEvent
from pipelines.triggers.kinds.git import BITBUCKET, GITHUB, GITLAB, PLAIN, Git
from tests.api.sample_project import World

OLD, NEW, NONE = "1" * 40, "abcdef0" + "2" * 33, "0" * 40
SPEC = {"branches": ["main", "release/*"], "tags": ["v*"], "paths": []}


def github(ref: str = "refs/heads/main", **more: Any) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "ref": ref,
        "before": OLD,
        "after": NEW,
        "repository": {"full_name": "acme/shop", "pushed_at": 1_790_000_000},
        "pusher": {"name": "jane"},
        "head_commit": {
            "id": NEW,
            "message": "Fix the cart\n\nIt was empty.",
            "author": {"name": "Jane Doe"},
        },
        "commits": [{"id": NEW, "added": ["docs/a.md"], "removed": [], "modified": ["src/cart.py"]}],
    }
    return payload | more


def gitlab(ref: str = "refs/heads/main", **more: Any) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "object_kind": "push",
        "ref": ref,
        "before": OLD,
        "after": NEW,
        "checkout_sha": NEW,
        "user_name": "Jane Doe",
        "project": {"path_with_namespace": "acme/shop", "web_url": "https://git.example/acme/shop"},
        "commits": [{"id": NEW, "message": "Fix the cart\n", "modified": ["src/cart.py"]}],
        "total_commits_count": 1,
    }
    return payload | more


def bitbucket(kind: str = "branch", name: str = "main") -> dict[str, Any]:
    target = {"hash": NEW, "message": "Fix the cart\n"}
    change = {
        "new": {"type": kind, "name": name, "target": target},
        "old": {"type": kind, "name": name, "target": {"hash": OLD}},
    }
    repository, actor = {"full_name": "acme/shop"}, {"display_name": "Jane Doe"}
    return {"push": {"changes": [change]}, "repository": repository, "actor": actor}


def plain(ref: str = "refs/heads/main") -> dict[str, Any]:
    return {
        "ref": ref,
        "before": OLD,
        "commit": NEW,
        "author": "Jane Doe",
        "message": "Fix the cart",
        "repository": "acme/shop",
    }


def read(payload: Any, provider: str = GITHUB, **headers: str) -> list[TriggerEvent]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Git().read_events(SPEC | {"provider": provider}, payload, names)


@pytest.mark.parametrize(
    ("provider", "payload"),
    [(GITHUB, github()), (GITLAB, gitlab()), (BITBUCKET, bitbucket()), (PLAIN, plain())],
)
def test_every_provider_gives_the_same_values(provider: str, payload: Any) -> None:
    [event] = read(payload, provider)
    values = {name: value for name, value in event.values.items() if name != "url"}
    assert values == {
        "event": "push",
        "branch": "main",
        "tag": "",
        "commit": NEW,
        "short_commit": "abcdef0",
        "message": "Fix the cart",
        "author": "Jane Doe",
        "repository": "acme/shop",
    }
    assert event.summary == "push to main, abcdef0 by Jane Doe"


@pytest.mark.parametrize(
    ("provider", "payload"),
    [
        (GITHUB, github("refs/tags/v1", after="3" * 40)),
        (GITLAB, gitlab("refs/tags/v1", after="3" * 40)),
        (BITBUCKET, bitbucket("tag", "v1")),
        (PLAIN, plain("refs/tags/v1")),
    ],
)
def test_a_tag_has_the_commit_that_it_points_to(provider: str, payload: Any) -> None:
    [event] = read(payload, provider)
    assert (event.values["event"], event.values["tag"], event.values["branch"]) == ("tag", "v1", "")
    assert event.values["commit"] == NEW


def test_deletions_pings_and_other_events_are_no_events() -> None:
    assert read(github(after=NONE)) == []
    assert read(gitlab(before="1" * 64, after="0" * 64, checkout_sha=None, commits=[]), GITLAB) == []
    assert read({"zen": "Keep it logically awesome."}, X_GitHub_Event="ping") == []
    assert read(gitlab(), GITLAB, X_Gitlab_Event="Merge Request Hook") == []
    deleted = bitbucket()
    deleted["push"]["changes"][0]["new"] = None
    assert read(deleted, BITBUCKET) == []


def test_one_delivery_of_several_branches_is_several_events() -> None:
    payload = bitbucket()
    payload["push"]["changes"] += bitbucket("branch", "release/1")["push"]["changes"]
    events = read(payload, BITBUCKET, X_Request_UUID="a")
    assert [event.values["branch"] for event in events] == ["main", "release/1"]
    assert [event.delivery_id for event in events] == ["a", "a:1"]


def test_the_same_push_has_the_same_key_and_a_later_one_of_the_same_commits_another() -> None:
    [first], [again] = read(github(), X_GitHub_Delivery="a"), read(github(), X_GitHub_Delivery="b")
    assert first.key == again.key
    [later] = read(github(repository={"full_name": "acme/shop", "pushed_at": 1_790_000_099}))
    assert later.key != first.key


def test_a_push_of_gitlab_is_the_same_as_long_as_its_idempotency_key_is() -> None:
    keys = [read(gitlab(), GITLAB, Idempotency_Key=key)[0].key for key in ("a", "a", "b")]
    assert keys[0] == keys[1] != keys[2]


def checks_of(payload: Any, **spec: Any) -> list[str]:
    """Return the reasons why a push of GitHub starts no run."""
    [event] = read(payload)
    return [check.reason for check in Git().list_checks(SPEC | spec, event.values, payload)]


@pytest.mark.parametrize(
    ("payload", "spec", "reasons"),
    [
        (github(), {}, [""]),
        (github("refs/heads/release/1.2"), {}, [""]),
        (github("refs/heads/dev"), {}, ["It is dev."]),
        (github("refs/tags/v1"), {}, [""]),
        (github("refs/tags/nightly"), {}, ["It is nightly."]),
        (github("refs/tags/v1"), {"tags": []}, ["The trigger has no pattern for it: tag v1."]),
        (github(), {"paths": ["src/*"]}, ["", ""]),
        (github(), {"paths": ["infra/*"]}, ["", "None of 2 changed files is."]),
        # GitLab sends twenty commits at most: what is not listed may match.
        (github(total_commits_count=21), {"paths": ["infra/*"]}, ["", ""]),
        # So does the hook of a server of one's own, with two thousand files.
        (github(paths=["src/cart.py"] * 2000), {"paths": ["infra/*"]}, ["", ""]),
        (github(paths=["src/cart.py"] * 1999), {"paths": ["infra/*"]}, ["", "None of 2 changed files is."]),
        (github(commits=github()["commits"] * 2048), {"paths": ["infra/*"]}, ["", ""]),
        # What a branch loses by a push that goes back is in no list.
        (github(forced=True), {"paths": ["infra/*"]}, ["", ""]),
        (github(commits=[]), {"paths": ["infra/*"]}, ["", ""]),
        (gitlab(commits=[], total_commits_count=0), {"paths": ["infra/*"]}, ["", ""]),
        (github(commits=[], before=NONE), {"paths": ["infra/*"]}, ["", "None of 0 changed files is."]),
        (github("refs/tags/v1"), {"paths": ["infra/*"]}, [""]),
    ],
)
def test_branches_tags_and_changed_files_are_patterns(payload: Any, spec: Any, reasons: list[str]) -> None:
    assert checks_of(payload, **spec) == reasons


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"ref": 1},
        {"ref": "refs/pull/1/head", "after": NEW},
        github(head_commit={"id": "$(reboot)"}),
        github(head_commit=[{"id": NEW}], after="x"),
    ],
)
def test_a_body_of_another_form_is_refused(payload: Any) -> None:
    with pytest.raises(Exception, match=r"no push|no commit"):
        read(payload)


def test_payloads_of_any_form_break_nothing() -> None:
    odd = github(commits={"a": 1}, head_commit={"id": NEW, "author": 3, "message": ["x"]}, repository=None)
    [event] = read(odd)
    assert (event.values["author"], event.values["message"]) == ("jane", "")
    assert Git().list_checks(SPEC | {"paths": ["*"]}, event.values, odd)[1].reason
    assert read({"push": {"changes": [None, {"new": 1}, {"new": {"type": "branch"}}]}}, BITBUCKET) == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"branches": [], "tags": []}, "Enter a pattern"),
        ({"provider": BITBUCKET, "paths": ["src/*"]}, "does not send the names"),
        ({"provider": "sourceforge"}, "must be one of"),
        ({"branches": "main"}, "must be a list of texts"),
        ({"branches": ["a"] * 51}, "must have at most 50 values"),
    ],
)
def test_settings_that_mean_nothing_are_refused(spec: Any, message: str) -> None:
    [problem] = Git().list_problems(SPEC | spec)
    assert message in problem["message"]


pytestmark = pytest.mark.django_db


@pytest.fixture
def repository(world: World) -> Trigger:
    """A trigger of pushes to GitHub that deploys the commit."""
    TriggerFiring.objects.all().delete()
    world.trigger.kind, world.trigger.tag = "git", "<+trigger.short_commit>"
    world.trigger.spec = SPEC | {"provider": GITHUB}
    world.trigger.save()
    return world.trigger


def push(trigger: Trigger, payload: Any, *, secret: str = "", **headers: str) -> HttpResponse:
    """Send a push as the provider of the trigger does."""
    body, secret = json.dumps(payload).encode(), secret or trigger.secret
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    signed = {
        GITHUB: {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push"},
        GITLAB: {"X-Gitlab-Token": secret, "X-Gitlab-Event": "Push Hook"},
        BITBUCKET: {"X-Hub-Signature": f"sha256={digest}", "X-Event-Key": "repo:push"},
    }[trigger.spec["provider"]]
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    address = reverse("trigger-hook", args=[trigger.key])
    return Client().post(address, body, "application/json", headers=signed | more)


@pytest.mark.parametrize(
    ("provider", "payload"), [(GITHUB, github()), (GITLAB, gitlab()), (BITBUCKET, bitbucket())]
)
def test_a_push_is_let_in_with_the_secret_alone(repository: Trigger, provider: str, payload: Any) -> None:
    repository.spec["provider"] = provider
    repository.save(update_fields=["spec"])
    assert push(repository, payload, secret="wrong").status_code == 401
    address = reverse("trigger-hook", args=[repository.key])
    assert Client().post(address, b"{}", "application/json").status_code == 401
    assert push(repository, payload).status_code == 202
    tasks.process_firings()
    execution = Execution.objects.exclude(cause="").get()
    assert execution.artifact["tag"] == "abcdef0"
    assert execution.cause == f"{repository.name}: push to main, abcdef0 by Jane Doe"


def test_a_redelivery_of_the_provider_starts_nothing_again(repository: Trigger) -> None:
    guid = str(uuid4())
    assert push(repository, github(), X_GitHub_Delivery=guid).json()["duplicates"] == 0
    assert push(repository, github(), X_GitHub_Delivery=guid).json()["duplicates"] == 1
    # Who recorded it may change what is not signed.
    assert push(repository, github(), X_GitHub_Delivery=str(uuid4())).json()["duplicates"] == 1
    assert TriggerFiring.objects.count() == 1


def test_a_ping_is_answered_and_leaves_nothing(repository: Trigger) -> None:
    response = push(repository, {"zen": "Design for failure."}, X_GitHub_Event="ping")
    assert (response.status_code, response.json()["firings"]) == (202, [])
    assert not TriggerFiring.objects.exists()


def test_the_hook_on_the_page_sends_what_a_push_changed(tmp_path: Path) -> None:
    [step] = Git().list_setup_steps({"provider": PLAIN}, "https://slipway.example/hooks/v1/x/")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SECRET": "a secret of a hook",
        **{
            f"GIT_{who}_{what}": "jane@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }

    def run(*command: str, text: str = "") -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, input=text, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run("git", "init", "-q", "-b", "main")
    commits = []
    for name in ("one", "Größe 2.txt"):
        (tmp_path / name).write_text("the same")
        run("git", "add", name)
        if commits:
            # Git calls it renamed, and names only the new one.
            run("git", "rm", "-q", "one")
        run("git", "commit", "-q", "-m", f"Add {name}")
        commits.append(run("git", "rev-parse", "HEAD"))
    # In place of curl, a function that prints what it would send.
    script = 'curl() { printf "%s\\n" "$@"; }\n' + step.command
    pushed = f"{commits[0]} {commits[1]} refs/heads/main\n{commits[0]} {NONE} refs/heads/gone\n"
    printed = run("bash", "-c", script, text=pushed).splitlines()
    headers = dict(line.split(": ", 1) for line in printed if line.startswith("Slipway-"))
    Git().authenticate(
        {"provider": PLAIN}, environment["SECRET"], HookRequest(headers, printed[-1].encode(), timezone.now())
    )
    payload = json.loads(printed[-1])
    [event] = read(payload, PLAIN)
    assert event.values["commit"] == commits[1]
    assert (event.values["message"], event.values["author"]) == (
        "Add Größe 2.txt",
        "jane@example.com",
    )
    assert payload["paths"] == ["Größe 2.txt", "one"]
