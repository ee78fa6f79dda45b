"""Service events, word for word as ECS writes them."""

from collections.abc import Sequence
from uuid import uuid4

from sandbox.clock import CLOCK
from sandbox.ecs.records import Deployment, Service, Task

KEPT = 100
REPEATED_AFTER = 6 * 3600.0


def say(service: Service, text: str, *, task_set: str = "") -> None:
    """Add an event; the newest comes first and a hundred are kept."""
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
    del service.events[KEPT:]


def say_once(service: Service, text: str) -> None:
    """Add an event unless the same was said within six hours and is not resolved."""
    said_at = service.said_at.get(text)
    if said_at is None or CLOCK.elapsed - said_at >= REPEATED_AFTER:
        service.said_at[text] = CLOCK.elapsed
        say(service, text)


def resolve(service: Service) -> None:
    """Let every kind of trouble be said again, because what it was about is over."""
    service.said_at.clear()


def _listed(tasks: Sequence[Task]) -> str:
    return " ".join(f"(task {task.id})" for task in tasks)


def started(service: Service, tasks: Sequence[Task]) -> None:
    text = f" has started {len(tasks)} tasks: {_listed(tasks)}."
    if replaced := sum(t.replaces_unhealthy for t in tasks):
        text += f" Amazon ECS replaced {replaced} tasks due to an unhealthy status."
    say(service, text)


def stopped_running(service: Service, tasks: Sequence[Task]) -> None:
    say(service, f" has stopped {len(tasks)} running tasks: {_listed(tasks)}.")


def stopped_pending(service: Service, count: int) -> None:
    say(service, f" stopped {count} pending tasks.")


def registered(service: Service, target_group: str, count: int) -> None:
    say(service, f" registered {count} targets in (target-group {target_group})")


def deregistered(service: Service, target_group: str, count: int) -> None:
    say(service, f" deregistered {count} targets in (target-group {target_group})")


def draining(service: Service, deployment: Deployment | None, count: int) -> None:
    text = f" has begun draining connections on {count} tasks."
    if deployment is not None and deployment.status != "PRIMARY":
        say(service, text, task_set=deployment.id)
    else:
        say(service, text)


def failed_load_balancer_check(service: Service, task: Task, port: int, target_group: str) -> None:
    say(
        service,
        f" (task {task.id}) (port {port}) is unhealthy in (target-group {target_group})"
        " due to (reason Health checks failed with these codes: [503]).",
    )


def failed_container_check(service: Service, task: Task) -> None:
    say(service, f" (task {task.id}) failed container health checks.")


def deployment_failed(service: Service, deployment: Deployment) -> None:
    say(service, f" (deployment {deployment.id}) deployment failed: tasks failed to start.")


def rolling_back(service: Service, to: Deployment) -> None:
    say(service, f" rolling back to deployment {to.id}.")


def deployment_completed(service: Service, deployment: Deployment) -> None:
    say(service, f" (deployment {deployment.id}) deployment completed.")


STEADY = " has reached a steady state."


def steady(service: Service, *, again: bool) -> None:
    """Say that the service is steady: at once if it was not before, else every six hours."""
    if again:
        service.said_at.pop(STEADY, None)
    say_once(service, STEADY)


def unable_to_place(service: Service, reason: str) -> None:
    say_once(service, f" was unable to place a task. Reason: {reason}.".replace("..", "."))


def no_place(service: Service, why: str) -> None:
    say_once(
        service,
        " was unable to place a task because no container instance met all of its requirements."
        f" {why} For more information, see the Troubleshooting section of the Amazon ECS Developer Guide.",
    )


def unable_to_start_consistently(service: Service) -> None:
    say_once(service, " is unable to consistently start tasks successfully.")


def blocked_by_percentages(service: Service) -> None:
    say_once(
        service,
        " was unable to stop or start tasks during a deployment because of the service deployment"
        " configuration. Update the minimumHealthyPercent or maximumPercent value and try again.",
    )
