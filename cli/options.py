"""Options that several commands share."""

import sys
from typing import Annotated

import typer

from cli.client import ApiClient
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
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Most rows to print.")]


def connect(url: str = "") -> ApiClient:
    """Return a client of the server that `url`, the environment or the stored sign-in names."""
    return ApiClient(load_sign_in(url))


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
