"""Runs the agent: `slipway-delegate`, or `python -m delegates.agent`."""

import logging
import os
import sys
import threading
from typing import NoReturn

from delegates.agent import VERSION
from delegates.agent.acquiring import acquiring
from delegates.agent.backoff import Backoff
from delegates.agent.configuring import TOOLS, configuring
from delegates.agent.ending import end_on_signals, finish
from delegates.agent.environment import AgentSettings, BadEnvironment, read_environment
from delegates.agent.heartbeats import heartbeats
from delegates.agent.identity import NoIdentity, read_identity
from delegates.agent.isolation import Level, own_isolation
from delegates.agent.listening import listening
from delegates.agent.logs.delegate_log import log_to
from delegates.agent.logs.outgoing import Outgoing
from delegates.agent.logs.shipping import shipping
from delegates.agent.logs.uploading import uploading
from delegates.agent.measuring import measuring
from delegates.agent.network import tell_process
from delegates.agent.program import Agent, log
from delegates.agent.registering import register
from delegates.agent.renewing import renewing
from delegates.agent.secrecy import hide_memory
from delegates.agent.serving import serve

LOOPS = {
    "heartbeats": heartbeats,
    "listening": listening,
    "acquiring": acquiring,
    "renewing": renewing,
    "uploading": uploading,
    "shipping": shipping,
    "configuring": configuring,
    "measuring": measuring,
}


def main() -> int:
    """Run until told to end. Gives back the exit code: 2 for an environment that cannot be used."""
    hide_memory()
    try:
        settings = read_environment(os.environ)
        agent = _agent(settings)
        server = serve(agent)
    except (BadEnvironment, NoIdentity, OSError) as problem:
        print(f"slipway-delegate cannot start: {problem}", file=sys.stderr)  # noqa: T201  -- there is no log yet
        return 2
    threading.excepthook = lambda broken: agent.fail(broken.exc_value or SystemError(str(broken.exc_type)))
    end_on_signals(agent)
    log.info("slipway-delegate %s, health on port %d", VERSION, server.server_port)
    log.info("isolation: %s", agent.isolation.level)
    agent.start({name: loop for name, loop in LOOPS.items() if name != "listening" or settings.uses_socket})
    _stay_registered(agent)
    if not agent.exit_code:
        finish(agent)
    return agent.exit_code


def _agent(settings: AgentSettings) -> Agent:
    os.umask(0o077)
    settings.home.mkdir(parents=True, exist_ok=True)
    isolation = own_isolation().hiding(settings.home)
    if isolation.level == Level.USERS:
        # Nothing hides it there; tasks pass through to what it has for them, and list nothing.
        settings.home.chmod(0o711)
    tls = tell_process(os.environ, settings.home, settings.ca_bundle)
    outgoing = Outgoing()
    log_to(settings.home, [settings.token, os.environ.get("PROXY_PASSWORD", "")], outgoing)
    # What a configuration's script installs there, the scripts of tasks find.
    tools = f"{settings.home / TOOLS / 'bin'}:{settings.home / 'bin'}"
    os.environ["PATH"] = f"{tools}:{os.environ.get('PATH', os.defpath)}"
    identity = read_identity(os.environ, settings.manager_url)
    return Agent(settings, identity, tls, outgoing, isolation)


def _stay_registered(agent: Agent) -> None:
    """The main loop: register whenever there is no session, until the agent drains or ends."""
    backoff = Backoff(first=1, most=30)
    while not agent.draining.is_set() and not agent.ended.is_set():
        wait = 0.2 if agent.registered.is_set() else register(agent, backoff)
        agent.draining.wait(wait)


def run() -> NoReturn:
    """The program `slipway-delegate`."""
    code = main()
    logging.shutdown()
    # Threads of the pool may sit in a call that nothing ends; their leases say the rest.
    os._exit(code)


if __name__ == "__main__":
    run()
