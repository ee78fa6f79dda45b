"""Commands `export`, `diff` and `apply`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from cli.client import ApiClient
from cli.console import get_error_console, print_document, print_json, print_text
from cli.errors import CliError, ExitCode
from cli.options import JsonOption, ScopeOption, UrlOption, YesOption, confirm, connect
from cli.resources.application import AppliedChange, apply_plan
from cli.resources.kinds import KINDS
from cli.resources.plans import ChangeType, Plan, build_plan
from cli.resources.stored import list_resources, list_scopes
from cli.resources.yaml_documents import dump_document, get_scope_name, load_documents

FilesOption = Annotated[
    list[Path], typer.Option("--file", "-f", help="YAML file, or folder of YAML files; repeat for several.")
]
PruneOption = Annotated[
    bool,
    typer.Option("--prune", help="Delete resources of these kinds and scopes that no document names."),
]
_STYLES = {ChangeType.CREATE: "green", ChangeType.UPDATE: "yellow", ChangeType.DELETE: "red"}


def export(
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", help=f"Only this kind: {', '.join(KINDS)}; repeat for several.", show_default=False
        ),
    ] = None,
    scope: ScopeOption = "",
    url: UrlOption = "",
) -> None:
    """Print resources of a scope, and of those below it, as YAML documents.

    Connectors name their secret, and no value of a secret is exported.
    """
    unknown = [name for name in kinds or [] if name not in KINDS]
    if unknown:
        raise CliError(
            f"There is no kind {unknown[0]}.", next_step=f"Use {', '.join(KINDS)}.", code=ExitCode.USAGE
        )
    client, root = connect(url), get_scope_name(scope)
    for place in list_scopes(client, root):
        for name in [name for name in KINDS if not kinds or name in kinds]:
            kind = KINDS[name]
            for resource in sorted(list_resources(client, kind, place), key=lambda row: str(row.key)):
                spec = kind.shorten_spec(resource.spec)
                print_document(dump_document(name, place, resource.key.identifier, spec).rstrip("\n"))


def diff(
    files: FilesOption,
    prune: PruneOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show what `apply` would change; exit with 8 if there are differences."""
    plan = _load_plan(connect(url), files, scope, prune=prune)
    _print_plan(plan, as_json=as_json)
    if plan.changes:
        raise typer.Exit(ExitCode.DIFFERENT)


def apply(
    files: FilesOption,
    prune: PruneOption = False,
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Create and change resources until they equal the documents, after showing the plan."""
    client = connect(url)
    plan = _load_plan(client, files, scope, prune=prune)
    _print_plan(plan, as_json=as_json)
    if not plan.changes:
        return
    confirm(f"Apply these changes to {client.sign_in.url}?", yes=yes)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    console = get_error_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Applying", total=len(plan.changes))
        for applied in apply_plan(client, plan):
            progress.advance(task)
            _print_applied(applied, as_json=as_json)


def _print_applied(applied: AppliedChange, *, as_json: bool) -> None:
    change = applied.change
    if applied.branch:
        print_text(f"committed {change.key} to the branch {applied.branch}", is_error=as_json)
    elif not as_json:
        print_text(f"{change.type.value}d {change.key}", style=_STYLES[change.type])
    if applied.secret:
        print_text(f"Secret of {change.key}, shown once: {applied.secret}", is_error=as_json)


def _load_plan(client: ApiClient, files: list[Path], scope: str, *, prune: bool) -> Plan:
    documents = load_documents(files, get_scope_name(scope))
    return build_plan(client, documents, prunes=prune)


def _print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "change": change.type.value,
                    "kind": change.key.kind,
                    "scope": change.key.scope,
                    "identifier": change.key.identifier,
                    "parent": change.key.parent or None,
                    "diff": change.diff,
                }
                for change in plan.changes
            ]
        )
        return
    for change in plan.changes:
        print_text(f"{change.type.value} {change.key}", style=f"bold {_STYLES[change.type]}")
        for line in change.diff:
            style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1], "")
            print_text(f"  {line}", style=style)
    print_text(plan.describe())
