"""Reference page of what works through which kind of delegate: tasks, steps, connectors, secret managers."""

from collections.abc import Iterable, Iterator
from typing import Final

from connectors.models import Connector
from connectors.secret_managers.base import get_managers
from delegates.models import Delegate, DelegateTask
from delegates.routing.rules import RoutingCandidate, RoutingRequest, evaluate_rules
from ops.documentation.markdown import Page, code, plain, table
from steps.kinds.registry import StepKind, get_step_kinds

Work = DelegateTask.Kind
# Tasks of steps, by the module of the step; a step without tasks is done by Slipway itself.
STEP_WORK: Final[dict[str, tuple[Work, ...]]] = {
    "approval": (),
    "blue_green": (Work.AWS,),
    "canary": (Work.AWS,),
    "cloudformation": (Work.AWS,),
    "delegate_connect": (),
    "ecs_service": (Work.AWS,),
    "http": (Work.HTTP,),
    "provision_script": (Work.SHELL,),
    "native": (Work.AWS,),
    "rolling": (Work.AWS,),
    "run_task": (Work.AWS,),
    "script": (Work.SHELL,),
    "terraform": (Work.TERRAFORM,),
    "terraform_cloud": (Work.HTTP,),
    "verify": (Work.AWS,),
    "wait": (),
}
CONNECTOR_WORK: Final[dict[str, tuple[Work, ...]]] = {
    Connector.Kind.AWS: (Work.AWS,),
    Connector.Kind.GIT: (Work.GIT,),
    Connector.Kind.DOCKER_REGISTRY: (Work.DOCKER_REGISTRY,),
    Connector.Kind.TERRAFORM_CLOUD: (Work.HTTP,),
    Connector.Kind.VAULT: (Work.HTTP,),
}
_CONNECTOR_NOTES = {
    Connector.Kind.GIT: "Slipway pushes to Git itself: proposals need a connector without delegates.",
    Connector.Kind.AWS: "Tests, lists and previews too. Secrets need agents of a release that knows them.",
}


def list_step_work(kind: StepKind) -> tuple[Work, ...]:
    """Return the kinds of tasks that a step gives to delegates."""
    return STEP_WORK[kind.plan_function.__module__.rpartition(".")[2]]


def is_supported(delegate_kind: str, work: Work) -> bool:
    """Return whether delegates of a kind get tasks of a kind, by the rules of routing."""
    is_built_in = delegate_kind == Delegate.Kind.BUILT_IN
    if work == Work.DOCTOR:
        return not is_built_in
    request = RoutingRequest(scope="account", is_script=work in DelegateTask.RUNS_CODE)
    candidate = RoutingCandidate(key=1, name="delegate", scope="account", runs_scripts=not is_built_in)
    return all(verdict.ok for verdict in evaluate_rules(request, candidate))


def generate() -> Iterator[Page]:
    """Yield the page of what works through delegates."""
    yield Page("reference/delegate-support.md", "Support by kind of delegate", tuple(_build_parts()))


def _build_parts() -> Iterator[str]:
    yield (
        "Agents on ECS, Docker, Kubernetes and virtual machines are the same program and get the same tasks. "
        "The built-in delegate is the workers of Slipway: it runs no code of users, except in a trial "
        "installation. A [configuration](../how-to/configure-delegates.md) can limit delegates to kinds of "
        "tasks."
    )
    yield "## Tasks"
    yield _build_table("Task", ((work.label, (work,), _describe_task(work)) for work in Work))
    yield "## Steps"
    kinds = sorted(get_step_kinds().values(), key=lambda kind: kind.title)
    steps = [(f"[{kind.title}](steps/{kind.type}.md)", list_step_work(kind)) for kind in kinds]
    yield _build_table("Step", ((link, work, _describe_step(work)) for link, work in steps))
    yield "## Connectors"
    yield _build_table(
        "Connector",
        ((kind.label, CONNECTOR_WORK[kind], _CONNECTOR_NOTES.get(kind, "")) for kind in Connector.Kind),
    )
    yield "## Secret managers"
    yield _build_table(
        "Secret manager",
        ((manager.title, CONNECTOR_WORK[manager.connector_kind], "") for manager in get_managers().values()),
    )


def _build_table(subject: str, rows: Iterable[tuple[str, tuple[Work, ...], str]]) -> str:
    headings = (subject, *(str(kind.label) for kind in Delegate.Kind), "Notes")
    cells = [
        (
            name,
            *("yes" if all(is_supported(kind, work) for work in works) else "no" for kind in Delegate.Kind),
            plain(note),
        )
        if works
        else (name, *("–" for _ in Delegate.Kind), "Slipway itself; no delegate is needed.")
        for name, works, note in rows
    ]
    return table(headings, cells)


def _describe_task(work: Work) -> str:
    if work not in DelegateTask.LIMITABLE:
        return "For one delegate, on its page."
    if work == Work.TERRAFORM:
        return f"{code(work.value)} in configurations. The delegate must have the program."
    return f"{code(work.value)} in configurations."


def _describe_step(works: tuple[Work, ...]) -> str:
    return "Always on a delegate." if set(works) & set(DelegateTask.RUNS_CODE) else ""
