"""Service events in ECS's own words."""

from collections.abc import Sequence
from uuid import uuid4

from sandbox.broken_rules import BROKEN_RULES
from sandbox.clock import CLOCK
from sandbox.services.ecs import event_bridge
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, SandboxTask

MAX_EVENTS = 100
REPEAT_INTERVAL = 6 * 3600.0


def add_event(service: SandboxService, text: str, *, task_set: str = "") -> None:
    """Add an event; the newest is first, and a hundred are stored."""
    subject = (
        f"(service {service.service_name}, taskSet {task_set})"
        if task_set
        else f"(service {service.service_name})"
    )
    service.events.insert(
        0,
        {
            "id": str(uuid4()),
            "createdAt": CLOCK.now(),
            "message": subject + text,
        },
    )
    del service.events[MAX_EVENTS:]


def add_event_once(service: SandboxService, text: str) -> None:
    """Add an event unless the same one is unresolved and less than six hours old."""
    said_at = service.said_at.get(text)
    if said_at is None or CLOCK.elapsed - said_at >= REPEAT_INTERVAL:
        service.said_at[text] = CLOCK.elapsed
        add_event(service, text)


def reset_repeats(service: SandboxService) -> None:
    """Reset the repetition of problem events after recovery."""
    service.said_at.clear()


def _format_tasks(tasks: Sequence[SandboxTask]) -> str:
    return " ".join(f"(task {task.id})" for task in tasks)


def add_tasks_started(service: SandboxService, tasks: Sequence[SandboxTask]) -> None:
    text = f" has started {len(tasks)} tasks: {_format_tasks(tasks)}."
    if replaced := sum(t.replaces_unhealthy for t in tasks):
        text += f" Amazon ECS replaced {replaced} tasks due to an unhealthy status."
    add_event(service, text)


def add_running_tasks_stopped(service: SandboxService, tasks: Sequence[SandboxTask]) -> None:
    add_event(service, f" has stopped {len(tasks)} running tasks: {_format_tasks(tasks)}.")


def add_pending_tasks_stopped(service: SandboxService, count: int) -> None:
    add_event(service, f" stopped {count} pending tasks.")


def add_targets_registered(service: SandboxService, target_group: str, count: int) -> None:
    add_event(service, f" registered {count} targets in (target-group {target_group})")


def add_targets_deregistered(service: SandboxService, target_group: str, count: int) -> None:
    add_event(service, f" deregistered {count} targets in (target-group {target_group})")


def add_draining(service: SandboxService, deployment: SandboxDeployment | None, count: int) -> None:
    text = f" has begun draining connections on {count} tasks."
    if deployment is not None and deployment.status != "PRIMARY":
        add_event(service, text, task_set=deployment.id)
    else:
        add_event(service, text)


def add_load_balancer_check_failed(
    service: SandboxService, task: SandboxTask, port: int, target_group: str
) -> None:
    add_event(
        service,
        f" (task {task.id}) (port {port}) is unhealthy in (target-group {target_group})"
        " due to (reason Health checks failed with these codes: [503]).",
    )


def add_container_check_failed(service: SandboxService, task: SandboxTask) -> None:
    add_event(service, f" (task {task.id}) failed container health checks.")


def add_deployment_failed(service: SandboxService, deployment: SandboxDeployment) -> None:
    add_event(service, f" (deployment {deployment.id}) deployment failed: tasks failed to start.")
    event_bridge.send_deployment_change(service, deployment, "FAILED")


def add_rolling_back(service: SandboxService, to: SandboxDeployment) -> None:
    add_event(service, f" rolling back to deployment {to.id}.")


def add_deployment_completed(service: SandboxService, deployment: SandboxDeployment) -> None:
    add_event(service, f" (deployment {deployment.id}) deployment completed.")
    event_bridge.send_deployment_change(service, deployment, "COMPLETED")


STEADY_STATE_TEXT = " has reached a steady state."


def add_steady_state(service: SandboxService, *, is_repeated: bool) -> None:
    """Add a steady state event: at once after a change, else every six hours."""
    if "steady_state_event" in BROKEN_RULES:
        return
    if is_repeated:
        service.said_at.pop(STEADY_STATE_TEXT, None)
        event_bridge.send_service_action(service, "SERVICE_STEADY_STATE")
    add_event_once(service, STEADY_STATE_TEXT)


def add_placement_failed(service: SandboxService, reason: str) -> None:
    add_event_once(service, f" was unable to place a task. Reason: {reason}.".replace("..", "."))


def add_no_container_instance(service: SandboxService, why: str) -> None:
    add_event_once(
        service,
        " was unable to place a task because no container instance met all of its requirements."
        f" {why} For more information, see the Troubleshooting section of the Amazon ECS Developer Guide.",
    )


def add_start_failures(service: SandboxService) -> None:
    add_event_once(service, " is unable to consistently start tasks successfully.")


def add_blocked_by_percentages(service: SandboxService) -> None:
    add_event_once(
        service,
        " was unable to stop or start tasks during a deployment because of the service deployment"
        " configuration. Update the minimumHealthyPercent or maximumPercent value and try again.",
    )
