"""The script of a configuration and its secrets, which the manager may change at any moment."""

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from delegates.agent.agent import Agent
from delegates.agent.configuration_scripts import run_configuration_scripts
from delegates.agent.isolation import Isolation, IsolationLevel


class FakeAgent(SimpleNamespace):
    """An agent whose manager changed the configuration after the agent had received it."""

    configuration: dict[str, Any]

    def __init__(self, home: Path) -> None:
        super().__init__(
            settings=SimpleNamespace(init_script="", home=home, blocks_shell=False),
            isolation=Isolation(IsolationLevel.NONE),
            configuration=build_configuration("old"),
            runs=[],
            reported_revisions=[],
            beat_now=SimpleNamespace(set=self.beat),
            **{
                name: threading.Event()
                for name in ("ended", "registered", "configuration_changed", "is_prepared", "poll_tasks_now")
            },
        )
        self.registered.set()

    def beat(self) -> None:
        """Receive the current configuration, as after a heartbeat."""
        assert not self.is_prepared.is_set()
        self.reported_revisions.append(self.configuration["revision"])
        self.configuration = build_configuration("new")
        self.configuration_changed.set()

    def post_with_session(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if path.endswith("/secrets"):
            return {"secrets_revision": "new", "environment": {"VALUE": "the-new-value"}}
        self.runs.append(body["output"])
        self.ended.set()
        return {}


def build_configuration(release: str) -> dict[str, Any]:
    script = f"echo {release} ${{#VALUE}}"
    return {"id": 1, "name": "Tools", "script": script, "revision": release, "secrets_revision": release}


@pytest.mark.timeout(30)
def test_a_former_script_is_not_run_with_the_secrets_of_the_current_one(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    run_configuration_scripts(cast(Agent, agent))
    assert agent.runs == ["new 13\n"]
    assert agent.reported_revisions == [""]
    assert agent.is_prepared.is_set()
