"""What steps with a script of people's own share: its shell, where its text stands, what it is given."""

from collections.abc import Iterator, Mapping
from typing import Any

from guards.limits import SHELL_SCRIPT_BYTES
from steps.kinds.columns import Column
from steps.variables import SECRET, TEXT, secrets_named_in, variable_problem

SHELLS = {"Bash": "bash", "Sh": "sh"}
SECRETS = ("script", "source.spec.script", "environmentVariables.*.value")
VARIABLE_TYPES = (TEXT, "Number", SECRET)


def variable_columns(*types: str) -> tuple[Column, ...]:
    """The columns of a list of variables of these types, as forms show it."""
    return (
        Column("name", is_needed=True),
        Column("type", "choice", choices=types, default=TEXT),
        Column("value"),
    )


class Scripted:
    """The base of a spec with a script, in `script` or as `source`; the fields are the spec's own."""

    shell: str
    script: str
    source: dict[str, Any]
    environmentVariables: list[dict[str, Any]]

    def script_problems(self) -> Iterator[str]:
        """What is wrong with the script and with what it is given."""
        if self.shell not in SHELLS:
            yield f"shell is one of {', '.join(SHELLS)}, not {self.shell!r}"
        if bool(self.script) == bool(self.source):
            yield "it needs either script or source under spec"
        if self.source and not _inline(self.source).strip():
            yield "source has type: Inline, and the script under spec.script"
        if len(self.text.encode()) > SHELL_SCRIPT_BYTES:
            yield f"the script is larger than {SHELL_SCRIPT_BYTES}"
        if found := variable_problem(self.environmentVariables, "environment variable", VARIABLE_TYPES):
            yield found

    @property
    def text(self) -> str:
        """The script itself."""
        return self.script or _inline(self.source)

    @property
    def interpreter(self) -> str:
        """The program that runs it."""
        return SHELLS[self.shell]

    @property
    def variables(self) -> list[list[str]]:
        """What the script finds in its environment, each [name, type, value]."""
        return [
            [str(one["name"]), str(one.get("type", TEXT)), _as_text(one.get("value", ""))]
            for one in self.environmentVariables
        ]

    @property
    def secret_references(self) -> tuple[str, ...]:
        """The secrets that the script gets."""
        own = [str(one.get("value", "")) for one in self.environmentVariables if one.get("type") == SECRET]
        values = [str(one.get("value", "")) for one in self.environmentVariables]
        return tuple(dict.fromkeys([*own, *secrets_named_in(self.text, *values)]))


def _inline(source: Mapping[str, Any]) -> str:
    """The script of a `source`, or nothing."""
    spec = source.get("spec")
    script = spec.get("script") if isinstance(spec, Mapping) and source.get("type") == "Inline" else ""
    return script if isinstance(script, str) else ""


def _as_text(value: Any) -> str:
    """The value of a variable as scripts see it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
