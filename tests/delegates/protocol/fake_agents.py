"""Agents as tests play them: what they send, and what the manager answers."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from delegates.agent.identity import InstanceKey, build_registration_message
from delegates.connectivity import AWAY_AFTER
from delegates.models import DelegateInstance, DelegateTask, DelegateToken, get_account_id
from delegates.protocol import connections
from delegates.protocol.asgi import ROUTES
from delegates.protocol.requests import AgentReply, AgentRequest
from tests.fixtures.delegates import make_task
from web.clock import get_database_time

ADDRESS = "198.51.100.7"


def build_registration(name: str = "eu", **values: Any) -> dict[str, Any]:
    """Build the registration of an agent."""
    return {
        "account_id": get_account_id(),
        "name": name,
        "instance_key": "host-1/10.0.0.1",
        "hostname": "host-1",
        "private_ip": "10.0.0.1",
        "version": "1.0.0",
        "flavour": "v3",
        "kind": "ECS",
        "tags": ["said"],
        "capacity": 10,
        "ecs": None,
        "time": time.time(),
        **values,
    }


def create_key() -> InstanceKey:
    """Create the key pair of an agent."""
    return InstanceKey(Ed25519PrivateKey.generate())


def sign_registration(key: InstanceKey, challenge: str, **values: Any) -> dict[str, Any]:
    """Build a registration with its signature."""
    body = build_registration(**values)
    message = build_registration_message(
        challenge=challenge,
        account_id=body["account_id"],
        name=body["name"],
        instance_key=body["instance_key"],
    )
    return {**body, "public_key": key.public, "challenge": challenge, "signature": key.sign(message)}


def register_with_key(token: DelegateToken, key: InstanceKey, **values: Any) -> "Agent":
    """Register an agent that has a key pair. Raises its `Problem`."""
    first = send_request("register", build_registration(public_key=key.public, **values), token.value)
    assert (first.status, first.content["status"]) == (202, "CHALLENGE")
    body = sign_registration(key, first.content["challenge"], **values)
    content = send_request("register", body, token.value).content
    return Agent(content["session"], DelegateInstance.objects.get(pk=content["instance_id"]))


def send_request(path: str, body: Mapping[str, Any] | bytes, bearer: str = "", **headers: str) -> AgentReply:
    """Send a request to the manager in this thread. Raises its `Problem`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    parts = path.split("/")
    is_of_task = len(parts) == 3 and parts[0] == "tasks"
    request = AgentRequest(
        path=path,
        address=ADDRESS,
        headers={"authorization": f"Bearer {bearer}", **headers},
        body=content,
        task_id=parts[1] if is_of_task else "",
    )
    return ROUTES[f"tasks/*/{parts[2]}" if is_of_task else path](request)


@dataclass(frozen=True)
class Agent:
    """One registered agent."""

    session: str
    instance: DelegateInstance

    def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return send_request(path, body, self.session).content

    def acquire(self, free: int = 10) -> list[dict[str, Any]]:
        return connections.acquire_documents(self.session, free)

    def complete(
        self, task: Mapping[str, Any], status: str = "SUCCEEDED", **values: Any
    ) -> Mapping[str, Any]:
        body = {"fence": task["fence"], "status": status, "result": {"ok": True}, "error": None, **values}
        return self.post(f"tasks/{task['id']}/complete", body)

    def log(self, task: Mapping[str, Any], sequence: int, *texts: str) -> Mapping[str, Any]:
        lines = [{"t": 1, "level": "INFO", "text": text} for text in texts]
        body = {"fence": task["fence"], "sequence": sequence, "lines": lines}
        return self.post(f"tasks/{task['id']}/logs", body)


def register_agent(token: DelegateToken, name: str = "eu", **values: Any) -> Agent:
    """Register an agent with a token."""
    content = send_request("register", build_registration(name, **values), token.value).content
    return Agent(content["session"], DelegateInstance.objects.get(pk=content["instance_id"]))


def offer_task(agent: Agent, **values: Any) -> DelegateTask:
    """Create a task that is offered to an agent's delegate."""
    return make_task(agent.instance.delegate.scope, offered_to=agent.instance.delegate, **values)


def age_heartbeat(agent: Agent) -> None:
    """Set the last heartbeat of an instance so far back that it counts as away."""
    heartbeat_at = get_database_time() - AWAY_AFTER
    DelegateInstance.objects.filter(pk=agent.instance.pk).update(last_heartbeat_at=heartbeat_at)
