"""Notification rules hear once that a Git sync fails, fails in another way, and works again."""

import json
from typing import Any

import pytest

from gitsync.models import GitSync
from notifications.channels.messages import build_message
from notifications.models import Notification
from tests.fixtures.git import GitServer
from tests.gitsync.conftest import SERVICE, RunPass

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rule_of_git_syncs")]
WEB = "slipway/services/web.yml"


def list_documents() -> list[dict[str, Any]]:
    bodies = Notification.objects.order_by("created_at").values_list("body", flat=True)
    return [json.loads(body) for body in bodies]


def list_events() -> list[str]:
    return [document["event"] for document in list_documents()]


def test_a_refused_commit_is_notified_once_with_its_faults_and_its_correction(
    run_pass: RunPass, git_server: GitServer
) -> None:
    commit = git_server.commit({WEB: SERVICE.replace("image: nginx", "image: -")})

    run_pass()
    run_pass()

    (document,) = list_documents()
    assert document["text"].startswith(f"Git sync Demo failed: {WEB}, line 5: ")
    assert (document["event"], document["status"]) == ("gitsync.failed", "FAILED")
    assert (document["git_sync"]["name"], document["git_sync"]["commit"]) == ("Demo", commit)
    fault = document["git_sync"]["faults"][0]
    assert (fault["file"], fault["line"]) == (WEB, 5)
    message = build_message(document)
    assert message.details[0] == f"Commit {commit[:12]}"
    assert message.details[1].startswith(f"• {WEB}, line 5: ")

    git_server.commit({WEB: SERVICE})
    run_pass()
    run_pass()
    assert list_events() == ["gitsync.failed", "gitsync.recovered"]
    end = build_message(list_documents()[-1])
    assert (end.key, end.is_resolution) == (message.key, True)


def test_another_fault_and_the_same_one_after_a_recovery_are_notified(run_pass: RunPass) -> None:
    run_pass()
    GitSync.objects.update(branch="gone")
    run_pass()
    run_pass()
    GitSync.objects.update(branch="away")
    run_pass()
    GitSync.objects.update(branch="main")
    run_pass()
    GitSync.objects.update(branch="away")
    run_pass()
    assert list_events() == [
        "gitsync.failed", "gitsync.failed", "gitsync.recovered", "gitsync.failed",
    ]  # fmt: skip
