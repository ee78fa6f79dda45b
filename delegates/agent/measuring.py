"""Writes how busy the agent was into its log, once a minute (R077)."""

from delegates.agent.load import Load
from delegates.agent.program import Agent, log

EVERY_SECONDS = 60.0


def measuring(agent: Agent) -> None:
    """Log the six numbers until the agent ends."""
    load = Load()
    while not agent.ended.wait(EVERY_SECONDS):
        log.info(performance(agent, load))


def performance(agent: Agent, load: Load) -> str:
    """The line as the documents name its parts; a future is a task of ours, in the pool's words."""
    reading = load.read()
    executing, validating = agent.work.most_since_last_asked("log")
    return (
        f"CPU Process: {reading.cpu_process:.1f}, CPU System: {reading.cpu_system:.1f}, "
        f"Max Executing Task Count: {executing}, Max Executing Future Count: {executing}, "
        f"Max Validating Task Count: {validating}, Max Validating Future Count: {validating}"
    )
