"""Errors of the command line and the exit codes of all commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of a command; those from 10 on are the result of an execution."""

    SUCCESS = 0
    ERROR = 1
    USAGE = 2
    NOT_SIGNED_IN = 3
    FORBIDDEN = 4
    NOT_FOUND = 5
    UNREACHABLE = 6
    CONFLICT = 7
    DIFFERENT = 8
    FAILED = 10
    ROLLED_BACK = 11
    ABORTED = 12
    REJECTED = 13
    TIMED_OUT = 14
    UNKNOWN = 15
    INTERRUPTED = 130


# The reference page and `slipway --help` show these.
EXIT_CODE_MEANINGS = {
    ExitCode.SUCCESS: "the command succeeded; with --follow, the execution succeeded",
    ExitCode.ERROR: "the command failed, or the server refused the input",
    ExitCode.USAGE: "the command line is not valid",
    ExitCode.NOT_SIGNED_IN: "no API key, or an invalid one",
    ExitCode.FORBIDDEN: "the API key lacks a permission",
    ExitCode.NOT_FOUND: "the named resource does not exist or is not visible",
    ExitCode.UNREACHABLE: "the server cannot be reached or is temporarily unavailable",
    ExitCode.CONFLICT: "the resource is in another state, or was changed in the meantime",
    ExitCode.DIFFERENT: "diff found differences",
    ExitCode.FAILED: "the execution failed and was not rolled back, or a rehearsal failed",
    ExitCode.ROLLED_BACK: "the execution failed or was undone, and was rolled back",
    ExitCode.ABORTED: "the execution was aborted",
    ExitCode.REJECTED: "an approval was rejected",
    ExitCode.TIMED_OUT: "the execution did not end in time",
    ExitCode.UNKNOWN: "the result is unknown: the server did not answer, or a rehearsal broke off",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; the execution continues",
}


class CliError(Exception):
    """Expected error: what happened, and the next step of the user."""

    def __init__(self, message: str, *, next_step: str = "", code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.code = code
