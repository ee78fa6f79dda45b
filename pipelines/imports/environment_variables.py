"""Environment variables in Go templates: `env` and `must_env`, converted to expressions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from catalog.manifests.documents import iterate_scalars
from connectors.secret_expressions import EXPRESSION_PATTERN
from pipelines.imports.source_files import ImportNotice, SourceFile, refuse
from steps.expressions import render_expressions

_OPEN, _CLOSE = "{{", "}}"
_MOST_ACTION_CHARACTERS: Final = 1000
_CALL: Final = re.compile(r"(env|must_env)((?:\s+(?:`[^`]*`|\"[^\"\\]*\"))+)")
_ARGUMENT: Final = re.compile(r"`([^`]*)`|\"([^\"\\]*)\"")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w{0,60}")
_SERVICE_PREFIX, _PIPELINE_PREFIX = "serviceVariables.", "pipeline.variables."
# `env` and `must_env` take one name; `env` also takes its default.
_ARGUMENT_COUNTS: Final = {"env": 2, "must_env": 1}


@dataclass
class EnvironmentVariables:
    """The environment variables that the files name.

    One with a value or a default becomes a variable of the service, any other an input of the pipeline.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    """Values that the importing person entered."""
    tool: str = ""
    render_advice: str = ""
    """What to do about a template function that only the other tool can evaluate."""
    defaults: dict[str, ImportNotice] = field(default_factory=dict)
    """The default of a variable as message, with its place."""
    required: dict[str, ImportNotice] = field(default_factory=dict)

    def expand(self, file: SourceFile) -> str:
        """Return the text of a file with an expression for each variable.

        Raises `ImportRefused` for other template functions, and for expressions in the file.
        """
        text = file.text
        if (position := text.find("<+")) >= 0:
            line = text.count("\n", 0, position) + 1
            refuse(file.name, line, "contains <+, which would be an expression of Slipway: change the text")
        parts, end, line = [], 0, 1
        while (begin := text.find(_OPEN, end)) >= 0:
            line += text.count("\n", end, begin)
            close = text.find(_CLOSE, begin)
            if close < 0 or close - begin > _MOST_ACTION_CHARACTERS:
                refuse(file.name, line, "{{ has no }} after it in the next 1,000 characters")
            parts += [text[end:begin], self._convert(text[begin + len(_OPEN) : close], file.name, line)]
            line += text.count("\n", begin, close)
            end = close + len(_CLOSE)
        return "".join([*parts, text[end:]])

    def _convert(self, action: str, file: str, line: int) -> str:
        action = action.removeprefix("-").removesuffix("-").strip()
        call = _CALL.fullmatch(action)
        if call is None:
            self._refuse_function(action, file, line)
        function = call[1]
        arguments = [backticks or quoted for backticks, quoted in _ARGUMENT.findall(call[2])]
        if len(arguments) != _ARGUMENT_COUNTS[function] or not _NAME.fullmatch(arguments[0]):
            refuse(file, line, "write {{ must_env `NAME` }} or {{ env `NAME` `default` }}")
        name = arguments[0]
        if function == "must_env":
            self.required.setdefault(name, ImportNotice(file, line, name))
            return f"<+{_SERVICE_PREFIX}{name}>"
        known = self.defaults.setdefault(name, ImportNotice(file, line, arguments[1]))
        if known.message != arguments[1] and name not in self.values:
            message = f"{name} has another default in {known.file}, line {known.line}: use one of the two"
            refuse(file, line, message)
        return f"<+{_SERVICE_PREFIX}{name}>"

    def _refuse_function(self, action: str, file: str, line: int) -> NoReturn:
        function = _FUNCTION.match(action)
        subject = f"the template function {function[0]}" if function else "this template"
        refuse(file, line, f"{subject} needs {self.tool} to be evaluated. {self.render_advice}")

    def get_value(self, name: str) -> str | None:
        """Return the value of a variable, or its default; None if it has neither."""
        default = self.defaults.get(name)
        return self.values.get(name, default.message if default else None)

    def find_unknown(self, value: Any) -> list[str]:
        """Return the variables in a value that have neither value nor default."""
        return sorted(name for name in _find_names(value) if self.get_value(name) is None)

    def render(self, text: str) -> str:
        """Return a text with the value of each variable; all must be known."""
        return render_expressions(text, lambda path: self.get_value(path.removeprefix(_SERVICE_PREFIX)))

    def resolve_text(self, value: Any, file: str, line: int) -> Any:
        """Return a value of a configuration. Raises `ImportRefused` for an unknown variable."""
        if not isinstance(value, str):
            return value
        if unknown := self.find_unknown(value):
            refuse(file, line, f"{unknown[0]} is needed for the import: enter its value")
        return self.render(value)

    def refer(self, value: Any) -> Any:
        """Return a definition in which each unknown variable is an input of the pipeline."""
        if isinstance(value, Mapping):
            return {key: self.refer(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.refer(inner) for inner in value]
        return EXPRESSION_PATTERN.sub(self._refer_variable, value) if isinstance(value, str) else value

    def _refer_variable(self, match: re.Match[str]) -> str:
        name = match[1].removeprefix(_SERVICE_PREFIX)
        is_input = match[1].startswith(_SERVICE_PREFIX) and self.get_value(name) is None
        return f"<+{_PIPELINE_PREFIX}{name}>" if is_input else match[0]

    def list_service_variables(self, *definitions: Any) -> dict[str, str]:
        """Return the variables of the service that the definitions use."""
        names = sorted(set().union(*map(_find_names, definitions)))
        known = {name: self.get_value(name) for name in names}
        return {name: value for name, value in known.items() if value is not None}

    def list_inputs(self, *definitions: Any) -> list[str]:
        """Return the inputs of the pipeline that the definitions use."""
        return sorted(set().union(*map(self.find_unknown, definitions)))


def _find_names(value: Any) -> set[str]:
    return {
        match[1].removeprefix(_SERVICE_PREFIX)
        for _, scalar in iterate_scalars(value)
        if isinstance(scalar, str)
        for match in EXPRESSION_PATTERN.finditer(scalar)
        if match[1].startswith(_SERVICE_PREFIX)
    }
