"""The program `slipway`: its commands, and errors as sentences."""

import os
import sys
from types import TracebackType
from typing import Annotated, Final

import typer

from cli import mcp_server
from cli.commands import (
    approvals,
    configuration,
    delegate_installs,
    delegates,
    executions,
    imports,
    rehearsals,
    resources,
    run,
    sign_in,
)
from cli.console import get_console, print_text
from cli.errors import CliError, ExitCode
from cli.text import clean_line
from cli.version import get_version

DEBUG_VARIABLE: Final = "SLIPWAY_DEBUG"

app = typer.Typer(
    name="slipway",
    help="Deploy with Slipway, and watch deployments, from a terminal or a CI job.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("login")(sign_in.log_in)
app.command("logout")(sign_in.log_out)
app.command("whoami")(sign_in.who_am_i)
app.command("run")(run.run)
app.command("rehearse")(rehearsals.rehearse)
app.add_typer(executions.app, name="executions")
app.command("logs")(executions.show_log)
app.command("abort")(executions.abort)
app.command("rollback")(executions.roll_back)
app.command("decide")(executions.decide)
app.command("approvals")(approvals.list_approvals)
app.command("approve")(approvals.approve)
app.command("reject")(approvals.reject)
delegates.app.command("deploy")(delegate_installs.deploy)
delegates.app.command("upgrade")(delegate_installs.upgrade)
delegates.app.command("remove")(delegate_installs.remove)
app.add_typer(delegates.app, name="delegates")
app.command("spec")(delegates.print_spec)
resources.register(app)
app.command("export")(configuration.export)
app.command("diff")(configuration.diff)
app.command("apply")(configuration.apply)
app.add_typer(imports.app, name="import")
app.command("mcp")(mcp_server.serve)


def main() -> None:
    """Run the command line, and exit with its code."""
    sys.excepthook = _print_unexpected_error
    try:
        # The application itself would replace the hook.
        typer.main.get_command(app)(prog_name="slipway")
    except CliError as exc:
        print_text(f"Error: {exc.message}", style="red", is_error=True)
        if exc.next_step:
            print_text(exc.next_step, is_error=True)
        sys.exit(exc.code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        get_console().print(f"slipway {get_version()}")
        raise typer.Exit


@app.callback()
def _set_options(
    is_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and exit."
        ),
    ] = False,
) -> None:
    """Deploy with Slipway, and watch deployments, from a terminal or a CI job."""


def _print_unexpected_error(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Print a bug of the command line in one sentence; its traceback only on request."""
    if os.environ.get(DEBUG_VARIABLE):
        sys.__excepthook__(kind, error, traceback)
        return
    print_text(
        f"Error: something went wrong in slipway itself: {kind.__name__}: {clean_line(error)}",
        style="red",
        is_error=True,
    )
    print_text(f"Set {DEBUG_VARIABLE}=1 to see where, and report it.", is_error=True)
