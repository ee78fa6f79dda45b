"""Registration with the manager, repeated whenever the session is lost."""

import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from delegates.agent import FEATURES, VERSION
from delegates.agent.agent import Agent, ProtocolLimits, log
from delegates.agent.identity import build_registration_message
from delegates.agent.manager_client import Backoff, ManagerUnreachable, RequestRefused

# A refusal is for a person to mend: asking faster only earns a 429.
REFUSED_SECONDS = 15.0
SKEW_SECONDS = 5.0


def register(agent: Agent, backoff: Backoff) -> float:
    """Try to register once, and return the seconds until the next attempt; 0 after success."""
    try:
        status, answer = _post_registration(agent)
    except ManagerUnreachable as problem:
        log.warning("The manager at %s cannot be reached: %s", agent.settings.manager_url, problem)
        return backoff.next()
    except RequestRefused as refusal:
        log.error("The manager refused this delegate: %s", refusal)
        return max(refusal.retry_after, REFUSED_SECONDS) + backoff.next()
    if status == 202:
        agent.started.set()
        log.info("Waiting for approval of the delegate %s", agent.settings.name)
        return float(answer.get("retry_after", 10))
    if not answer.get("session"):
        log.error("The server at %s is not a Slipway manager", agent.settings.manager_url)
        return REFUSED_SECONDS + backoff.next()
    backoff.reset()
    _start_session(agent, answer)
    return 0.0


def _post_registration(agent: Agent) -> tuple[int, dict[str, Any]]:
    """Register, and sign the challenge that a manager which binds instances answers with.

    Raises `ManagerUnreachable`, `RequestRefused`.
    """
    application = _build_registration(agent)
    status, answer = _post(agent, application)
    if not answer.get("challenge"):
        return status, answer
    challenge = str(answer["challenge"])
    message = build_registration_message(
        challenge=challenge,
        account_id=application["account_id"],
        name=application["name"],
        instance_key=application["instance_key"],
    )
    return _post(agent, application | {"challenge": challenge, "signature": agent.key.sign(message)})


def _post(agent: Agent, application: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    return agent.manager.post("/agent/v1/register", application, bearer=agent.settings.token)


def _build_registration(agent: Agent) -> dict[str, Any]:
    settings, identity = agent.settings, agent.identity
    return {
        "account_id": settings.account_id,
        "name": settings.name,
        "instance_key": identity.key,
        "public_key": agent.key.public,
        "stable_id": agent.stable_id,
        "process_id": agent.process_id,
        "hostname": identity.hostname,
        "private_ip": identity.private_ip,
        "version": VERSION,
        "flavour": settings.flavour,
        "kind": settings.kind,
        "tags": list(settings.tags),
        "capacity": settings.capacity,
        "isolation": agent.isolation.level,
        "features": list(FEATURES),
        "ecs": dict(identity.ecs) if identity.ecs else None,
        "time": time.time(),
    }


def _start_session(agent: Agent, answer: Mapping[str, Any]) -> None:
    agent.limits = _read_limits(agent, answer)
    agent.instance_id = str(answer.get("instance_id", ""))
    agent.configuration = answer.get("configuration")
    agent.manager.session = str(answer["session"])
    agent.registered.set()
    agent.started.set()
    agent.configuration_changed.set()
    log.info("Registered as %s with %s", agent.settings.name, agent.settings.manager_url)
    skew = float(answer.get("clock_skew_seconds") or 0)
    if abs(skew) > SKEW_SECONDS:
        log.warning(
            "The clock differs from the manager by %.0f s: AWS refuses calls at 5 minutes or more", skew
        )
    agent.beat_now.set()
    agent.poll_tasks_now.set()


def _read_limits(agent: Agent, answer: Mapping[str, Any]) -> ProtocolLimits:
    limits = {
        field.name: answer[field.name]
        for field in fields(ProtocolLimits)
        if answer.get(field.name) is not None
    }
    if agent.settings.heartbeat_seconds:
        limits["heartbeat_seconds"] = agent.settings.heartbeat_seconds
    return ProtocolLimits(**limits)
