"""Options that several commands share."""

import sys
from typing import Annotated

import typer

from cli.client import ANSWER_SECONDS, ApiClient
from cli.credentials import load_sign_in
from cli.errors import CliError, ExitCode
from cli.text import clean_line

UrlOption = Annotated[
    str, typer.Option("--url", help="URL of Slipway, if you are signed in to several.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ScopeOption = Annotated[
    str,
    typer.Option(
        "--scope",
        envvar="SLIPWAY_SCOPE",
        help="Organization or project, such as default/demo.",
        show_default=False,
    ),
]
PipelineArgument = Annotated[str, typer.Argument(metavar="PIPELINE", help="Identifier of the pipeline.")]
TagOption = Annotated[
    str, typer.Option("--tag", help="Image tag; by default the service's.", show_default=False)
]
InputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="NAME=VALUE", help="Input of the run; repeat for several.", show_default=False
    ),
]
InputSetsOption = Annotated[
    list[str] | None,
    typer.Option("--input-set", help="Input set; later ones override earlier ones.", show_default=False),
]
ForceOption = Annotated[
    bool, typer.Option("--force-new-deployment", help="Replace tasks even if nothing differs.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Most rows to print.")]


def connect(url: str = "", *, answer_seconds: float = ANSWER_SECONDS) -> ApiClient:
    """Return a client of the server that `url`, the environment or the stored sign-in names."""
    return ApiClient(load_sign_in(url), answer_seconds=answer_seconds)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change. Raises `CliError` for a no, and without a terminal to ask on."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(
            f"{question} Nothing was changed.",
            next_step="There is no terminal to ask on; confirm with --yes.",
            code=ExitCode.USAGE,
        )
    if not typer.confirm(clean_line(question), err=True):
        raise CliError("Nothing was changed.")
