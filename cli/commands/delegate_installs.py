"""Commands `delegates deploy`, `delegates upgrade` and `delegates remove`."""

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.client import ApiClient, parse_scope
from cli.commands.delegates import find_delegate
from cli.console import print_fields, print_json, print_text
from cli.errors import CliError, ExitCode
from cli.lookups import find_resource
from cli.options import JsonOption, ScopeOption, UrlOption, YesOption, confirm, connect
from cli.watch.follow import OnInterrupt, build_execution_url, choose_display, follow

DelegateArgument = Annotated[str, typer.Argument(metavar="DELEGATE", help="Name of the delegate.")]
ConnectorOption = Annotated[
    str, typer.Option("--connector", help="AWS connector, such as aws or default/demo/aws.")
]
ProjectOption = Annotated[
    str,
    typer.Option(
        "--project",
        help="Project that gets the pipeline, such as default/demo; by default the delegate's own.",
        show_default=False,
    ),
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Show plan and log until the end; exit with the result.")
]
InterruptOption = Annotated[
    OnInterrupt, typer.Option("--on-interrupt", help="Reaction to Ctrl-C while following.")
]


def deploy(  # noqa: PLR0913 - each is an option
    delegate: DelegateArgument,
    connector: ConnectorOption,
    project: ProjectOption = "",
    is_followed: FollowOption = False,
    on_interrupt: InterruptOption = OnInterrupt.ASK,
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Deploy a delegate to Amazon ECS with a connector, after a look at the plan.

    With --follow the exit code is the result, as of `slipway run`.
    """
    client = connect(url)
    row = find_delegate(client, delegate, scope)
    place = {"connector_id": _find_connector(client, connector), **_parse_project(project)}
    plan = client.send("POST", f"delegates/{row['id']}/deployment-plan", body=place).document
    if not yes and not as_json:
        _print_plan(plan)
    confirm(f"Deploy the delegate {delegate}?", yes=yes)
    started = _start(client, f"delegates/{row['id']}/deployments", place, plan)
    _show_run(client, started, plan, is_followed=is_followed, on_interrupt=on_interrupt, as_json=as_json)


def upgrade(  # noqa: PLR0913 - each is an option
    delegate: DelegateArgument,
    connector: ConnectorOption,
    image: Annotated[str, typer.Option("--image", help="Image to move to.", show_default=False)] = "",
    size: Annotated[
        str, typer.Option("--size", help="Size such as small or medium.", show_default=False)
    ] = "",
    project: ProjectOption = "",
    is_followed: FollowOption = False,
    on_interrupt: InterruptOption = OnInterrupt.ASK,
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Change the image or the size of a delegate, and deploy it.

    A new task must connect within ten minutes; otherwise the earlier deployment is restored. The setup stays
    changed if you do not confirm the plan.
    """
    changes = {name: value for name, value in (("image", image), ("size", size)) if value}
    if not changes:
        raise CliError("Nothing to change.", next_step="Use --image or --size.", code=ExitCode.USAGE)
    client = connect(url)
    row = find_delegate(client, delegate, scope)
    client.send("PATCH", f"delegates/{row['id']}/setup", body=changes)
    deploy(delegate, connector, project, is_followed, on_interrupt, yes, scope, url, as_json)


def remove(  # noqa: PLR0913 - each is an option
    delegate: DelegateArgument,
    connector: Annotated[
        str,
        typer.Option(
            "--connector",
            help="AWS connector, such as aws; by default the one of the deployment.",
            show_default=False,
        ),
    ] = "",
    project: ProjectOption = "",
    is_followed: FollowOption = False,
    on_interrupt: InterruptOption = OnInterrupt.ASK,
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove a deployed delegate from Amazon ECS with its stack, after a look at the plan.

    The delegate stays in Slipway. With --follow the exit code is the result, as of `slipway run`.
    """
    client = connect(url)
    row = find_delegate(client, delegate, scope)
    place = dict(_parse_project(project))
    if connector:
        place["connector_id"] = _find_connector(client, connector)
    plan = client.send("POST", f"delegates/{row['id']}/removal-plan", body=place).document
    if not yes and not as_json:
        _print_removal_plan(plan)
    confirm(f"Remove the delegate {delegate} from AWS?", yes=yes)
    started = _start(client, f"delegates/{row['id']}/removals", place, plan)
    _show_run(client, started, plan, is_followed=is_followed, on_interrupt=on_interrupt, as_json=as_json)


def _start(
    client: ApiClient, path: str, place: Mapping[str, Any], plan: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Start what a plan describes; a repeated request after a lost answer returns the run that it started."""
    body = {**place, "digest": plan["digest"]}
    return dict(client.send("POST", path, body=body, idempotency_key=str(uuid.uuid4())).document)


def _show_run(
    client: ApiClient,
    started: Mapping[str, Any],
    plan: Mapping[str, Any],
    *,
    is_followed: bool,
    on_interrupt: OnInterrupt,
    as_json: bool,
) -> None:
    """Print where a run is, or follow it and exit with its result."""
    if is_followed:
        display = choose_display(as_json=as_json)
        raise typer.Exit(follow(client, started["id"], display, on_interrupt=on_interrupt))
    page = build_execution_url(client, started["id"])
    if as_json:
        print_json({**started, "pipeline": plan["identifier"], "url": page})
    else:
        print_text(f"Started {plan['identifier']}#{started['number']}: {page}")


def _find_connector(client: ApiClient, name: str) -> int:
    scope, _, identifier = name.rpartition("/")
    choose = f"Name its scope with it, such as --connector account/{identifier}."
    return int(find_resource(client, "connectors", identifier, scope, choose=choose)["id"])


def _parse_project(text: str) -> Mapping[str, Any]:
    place = parse_scope(text)
    if text and "project" not in place:
        raise CliError(
            f"{text} is not a project.", next_step="Use ORGANIZATION/PROJECT.", code=ExitCode.USAGE
        )
    return place


def _print_plan(plan: Mapping[str, Any]) -> None:
    """Print the plan on standard output; the documents are on the page and in the API."""
    parts = ["secret with the token", "execution role"]
    parts += ["task role"] if plan["creates_task_role"] else []
    parts += ["log group"] if plan["creates_log_group"] else []
    tasks = f"{plan['instances']} of {plan['family']}, image {plan['image']}"
    print_fields(
        (
            ("Change", "update" if plan["is_update"] else "first deployment"),
            ("Cluster", f"{plan['cluster']} in {plan['region']}"),
            ("Stack", f"{plan['stack']}: {', '.join(parts)}"),
            ("ECS service", plan["ecs_service"]),
            ("Tasks", tasks),
            ("In Slipway", f"{plan['identifier']} in {plan['project']}"),
            ("IAM actions", ", ".join(plan["actions"])),
        )
    )
    for note in plan["notes"]:
        print_text(note, style="yellow")
    if plan["mirrors_image"]:
        print_text("Mirror the image before: the page Install has the commands.", style="yellow")


def _print_removal_plan(plan: Mapping[str, Any]) -> None:
    """Print on standard output what a removal deletes."""
    fate = ", ".join(plan["stack_parts"])
    if plan["stack_users"]:
        fate = f"stays, because {' and '.join(plan['stack_users'])} deployed the delegate with it too"
    elif not plan["deletes_stack"]:
        fate = "stays, because no run has recorded its id"
    print_fields(
        (
            ("Cluster", f"{plan['cluster']} in {plan['region']}"),
            ("ECS service", f"{plan['ecs_service']}, unless somebody else has deployed it"),
            ("Stack", f"{plan['stack']}: {fate}"),
            ("Stays", f"revisions of the task definition {plan['family']}"),
            ("In Slipway", f"{plan['identifier']} in {plan['project']}"),
            ("IAM actions", ", ".join(plan["actions"])),
        )
    )
    if plan["open_tasks"]:
        print_text(f"{plan['open_tasks']} of its tasks are running: drain it first.", style="yellow")
