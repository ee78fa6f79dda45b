"""Commands `import ecspresso` and `import pipecd`."""

import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli.client import parse_scope
from cli.console import print_fields, print_json, print_text
from cli.errors import CliError, ExitCode
from cli.options import JsonOption, ScopeOption, UrlOption, YesOption, confirm, connect
from cli.text import clean_line

app = typer.Typer(
    help="Import a service and its pipeline from another tool.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_CONFIG_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "ecspresso": ("ecspresso.yml", "ecspresso.yaml", "ecspresso.json", "ecspresso.jsonnet"),
    "pipecd": ("app.pipecd.yaml", "app.pipecd.yml", ".pipe.yaml"),
}
# The server parses the files; only those that the configuration names are sent.
_REFERENCE: Final = re.compile(
    r"\"?(?:service_definition|task_definition|serviceDefinitionFile|taskDefinitionFile)\"?\s*:\s*"
    r"[\"']?([^\s\"',}#]+)"
)
_DEFAULT_FILES: Final = ("taskdef.json",)
_MOST_FILE_BYTES: Final = 512 * 1024

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the project.")]
ConfigOption = Annotated[
    str, typer.Option("--config", help="Configuration in the folder.", show_default=False)
]
EnvironmentOption = Annotated[
    str, typer.Option("--environment", help="Identifier of the environment, created if it is missing.")
]
ConnectorOption = Annotated[
    str,
    typer.Option(
        "--connector", help="AWS connector, for an infrastructure that is missing.", show_default=False
    ),
]
InfrastructureOption = Annotated[
    str,
    typer.Option("--infrastructure", help="Identifier; by default that of the cluster.", show_default=False),
]
ServiceOption = Annotated[
    str, typer.Option("--service", help="Identifier; by default that of the ECS service.", show_default=False)
]
RegionOption = Annotated[str, typer.Option("--region", help="AWS region.", show_default=False)]
ClusterOption = Annotated[str, typer.Option("--cluster", help="ECS cluster.", show_default=False)]
ValuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        help="Value of an environment variable of the files, NAME=VALUE; NAME takes your own. Repeat.",
        show_default=False,
    ),
]
GroupOption = Annotated[
    str,
    typer.Option(
        "--approver-group", help="User group that approves at WAIT_APPROVAL stages.", show_default=False
    ),
]
PreviewOption = Annotated[bool, typer.Option("--preview", help="Only show what would be created.")]


@app.command("ecspresso")
def import_ecspresso(  # noqa: PLR0913 - each is an option
    folder: FolderArgument,
    environment: EnvironmentOption,
    connector: ConnectorOption = "",
    infrastructure: InfrastructureOption = "",
    service: ServiceOption = "",
    region: RegionOption = "",
    cluster: ClusterOption = "",
    values: ValuesOption = None,
    config: ConfigOption = "",
    is_preview: PreviewOption = False,
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Import a project of ecspresso, after a look at what it creates."""
    fields = {
        "environment": environment,
        "connector": connector,
        "infrastructure": infrastructure,
        "service": service,
        "region": region,
        "cluster": cluster,
        "values": _parse_values(values or []),
    }
    body = {"tool": "ecspresso", "files": _read_files("ecspresso", folder, config), **fields}
    _import({**body, **parse_scope(scope)}, url, is_preview=is_preview, yes=yes, as_json=as_json)


@app.command("pipecd")
def import_pipecd(  # noqa: PLR0913 - each is an option
    folder: FolderArgument,
    environment: EnvironmentOption,
    connector: ConnectorOption = "",
    infrastructure: InfrastructureOption = "",
    service: ServiceOption = "",
    region: RegionOption = "",
    cluster: ClusterOption = "",
    approver_group: GroupOption = "",
    config: ConfigOption = "",
    is_preview: PreviewOption = False,
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Import an application of PipeCD (kind ECSApp), after a look at what it creates."""
    fields = {
        "environment": environment,
        "connector": connector,
        "infrastructure": infrastructure,
        "service": service,
        "region": region,
        "cluster": cluster,
        "approver_group": approver_group,
    }
    body = {"tool": "pipecd", "files": _read_files("pipecd", folder, config), **fields}
    _import({**body, **parse_scope(scope)}, url, is_preview=is_preview, yes=yes, as_json=as_json)


def _import(body: Mapping[str, Any], url: str, *, is_preview: bool, yes: bool, as_json: bool) -> None:
    client = connect(url)
    preview = client.send("POST", "imports/preview", body=body).document
    if as_json and is_preview:
        print_json(preview)
    elif not as_json:
        _print_preview(preview)
    if is_preview:
        return
    confirm(f"Import {preview['service']} to {client.sign_in.url}?", yes=yes)
    created = client.send(
        "POST",
        "imports",
        body={**body, "digest": preview["digest"]},
        # A repeated request after a lost answer returns the import that it created.
        idempotency_key=str(uuid.uuid4()),
    ).document
    page = f"{client.sign_in.url}/pipelines/{created['pipeline']}/"
    if as_json:
        print_json({**created, "url": page})
    else:
        print_text(f"Imported {preview['service']}: {page}")


def _print_preview(preview: Mapping[str, Any]) -> None:
    image = f"{preview['image']}:{preview['tag']}" if preview["image"] else "in the task definition"
    variables = ", ".join(f"{name}={value}" for name, value in preview["variables"].items())
    print_fields(
        (
            ("Service", preview["service"]),
            ("Image", image),
            ("Variables", variables or "none"),
            ("Environment", f"{preview['environment']} / {preview['infrastructure']}"),
            ("Cluster", f"{preview['cluster']} in {preview['region']}"),
        )
    )
    print_text(preview["pipeline"].rstrip("\n"))
    for notice in preview["notices"]:
        print_text(f"{notice['file']}, line {notice['line']}: {notice['message']}", style="yellow")
    # Older servers do not tell.
    for takeover in preview.get("takeovers", ()):
        print_text(takeover, style="yellow")


def _parse_values(settings: Sequence[str]) -> dict[str, str]:
    values = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator and name not in os.environ:
            raise CliError(
                f"{clean_line(name)} is not set in your environment.",
                next_step=f"Use --env {clean_line(name)}=VALUE.",
                code=ExitCode.USAGE,
            )
        values[name] = value if separator else os.environ[name]
    return values


def _read_files(tool: str, folder: Path, config: str) -> list[dict[str, str]]:
    """Return the configuration and the files that it names; the server refuses what is missing."""
    names = [config] if config else _CONFIG_NAMES[tool]
    found = [name for name in names if (folder / name).is_file()]
    if not found:
        raise CliError(
            f"There is no {' or '.join(names)} in {folder}.",
            next_step="Name the configuration with --config.",
            code=ExitCode.USAGE,
        )
    text = _read_file(folder, found[0])
    files = {found[0]: text, **dict(_read_references(folder, found[0], text))}
    return [{"path": path, "content": content} for path, content in files.items()]


def _read_references(folder: Path, config: str, text: str) -> Iterator[tuple[str, str]]:
    root = folder.resolve()
    for reference in (*_REFERENCE.findall(text), *_DEFAULT_FILES):
        path = (root / Path(config).parent / reference).resolve()
        # Nothing outside the folder is sent, whatever a file or a link names.
        if path.is_file() and path.is_relative_to(root):
            name = path.relative_to(root).as_posix()
            yield name, _read_file(root, name)


def _read_file(folder: Path, name: str) -> str:
    path = folder / name
    try:
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise CliError(f"{path} is larger than {_MOST_FILE_BYTES // 1024} KiB.", code=ExitCode.USAGE)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise CliError(f"{path} cannot be read: {clean_line(exc)}", code=ExitCode.USAGE) from exc
