"""Variables of a pipeline: parsing, validation, and checks of the values of a run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from guards.limits import INPUT_CHARACTERS
from guards.patterns import describe_pattern_problem, is_full_match
from steps.expressions import format_value

InputValue = str | int | float | bool
STRING, NUMBER, BOOLEAN, SECRET = "String", "Number", "Boolean", "Secret"
TYPES = (STRING, NUMBER, BOOLEAN, SECRET)
_VARIABLE_KEYS = ("type", "value", "default", "required", "allowedValues", "pattern", "description")
_RUNTIME_INPUT = "<+input>"
_INPUT_CALL = re.compile(r"\.(default|allowedValues|regex)\(")
_TYPE_DESCRIPTIONS = {STRING: "a text", NUMBER: "a number", BOOLEAN: "true or false", SECRET: "a text"}
# Placeholder for secrets and missing values in previews.
PLACEHOLDER = "•••"


class InvalidVariableError(ValueError):
    """An invalid variable of a pipeline; `key` is the invalid key of its definition."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class PipelineVariable:
    """A variable. `value` is the default; without one a run must set it."""

    name: str
    type: str = ""
    """One of `TYPES`; empty for a value that is written plainly, which takes any scalar."""
    value: InputValue | None = None
    is_runtime_input: bool = False
    """Whether the run form has a field for it."""
    is_required: bool = False
    allowed: tuple[InputValue, ...] = ()
    pattern: str = ""
    description: str = ""

    @property
    def is_secret(self) -> bool:
        """Return whether the value is never shown."""
        return self.type == SECRET

    def describe_problem(self, value: Any) -> str:
        """Describe the problem with a value; empty if it is valid."""
        if not self._has_type(value):
            return self._type_problem
        if isinstance(value, str) and len(value) > INPUT_CHARACTERS:
            return f"must have at most {INPUT_CHARACTERS}"
        if self.allowed and not any(
            value == choice and type(value) is type(choice) for choice in self.allowed
        ):
            return f"must be one of {', '.join(map(format_variable_value, self.allowed))}"
        # Earlier releases compared the spelling of Python, such as True.
        if self.pattern and not any(
            is_full_match(self.pattern, text) for text in (format_variable_value(value), str(value))
        ):
            return f"must match the pattern {self.pattern}"
        return ""

    def describe_choice_problem(self) -> str:
        """Describe the problem with the allowed values; empty if each one is valid."""
        wrong = [choice for choice in self.allowed if not self._has_type(choice)]
        return f"{format_variable_value(wrong[0])} {self._type_problem}" if wrong else ""

    def parse_value(self, text: str) -> InputValue:
        """Parse the text of a form field: numbers and Booleans are converted, other texts stay.

        Without a type, they are if the value is one and no digit is lost.
        """
        if not self.type and isinstance(self.value, bool | int | float):
            type_ = BOOLEAN if isinstance(self.value, bool) else NUMBER
            parsed = replace(self, type=type_).parse_value(text)
            return parsed if format_variable_value(parsed) == text.strip() else text
        if self.type == BOOLEAN and text in ("true", "false"):
            return text == "true"
        if self.type == NUMBER and re.fullmatch(r"-?\d{1,15}", text.strip()):
            return int(text)
        if self.type == NUMBER and re.fullmatch(r"-?\d{1,15}\.\d{1,15}", text.strip()):
            return float(text)
        return next((choice for choice in self.allowed if format_variable_value(choice) == text), text)

    @property
    def _type_problem(self) -> str:
        return f"must be {_TYPE_DESCRIPTIONS.get(self.type, 'a text, a number, true or false')}"

    def _has_type(self, value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.type == NUMBER:
            return is_number
        if self.type == BOOLEAN:
            return isinstance(value, bool)
        return isinstance(value, str) or (not self.type and (is_number or isinstance(value, bool)))


@dataclass(frozen=True)
class RunInputs:
    """The valid inputs of a run; `secrets` are kept apart from values that may be shown."""

    plain: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


def format_variable_value(value: Any) -> str:
    """Format a value as text."""
    return format_value(value)


def parse_variables(definitions: Mapping[str, Any]) -> tuple[PipelineVariable, ...]:
    """Return the variables of a pipeline.

    Raises `InvalidVariableError` for problems that `find_variable_problems` reports of YAML that has run.
    """
    return tuple(_parse_variable(str(name), value, has_run=True) for name, value in definitions.items())


def find_variable_problems(
    definitions: Mapping[str, Any], *, has_run: bool = False
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the problems of variables: path below `variables`, and message.

    The types of allowed values are not compared in YAML that `has_run`: earlier releases did not.
    """
    for name, value in definitions.items():
        try:
            _parse_variable(str(name), value, has_run=has_run)
        except InvalidVariableError as bad:
            yield (str(name), *((bad.key,) if bad.key else ())), str(bad)


def get_default_values(variables: tuple[PipelineVariable, ...]) -> dict[str, Any]:
    """Return the default values; secrets have none that may be shown."""
    return {
        variable.name: variable.value
        for variable in variables
        if variable.value is not None and not variable.is_secret
    }


def validate_inputs(
    variables: tuple[PipelineVariable, ...], values: Mapping[str, Any], *, is_preview: bool = False
) -> tuple[RunInputs, list[dict[str, str]]]:
    """Validate the inputs of a run; return the inputs and the problems by `inputs.NAME`.

    A preview needs no secrets, and uses placeholders for missing values. An optional variable without a value
    is empty.
    """
    by_name = {v.name: v for v in variables}
    names = ", ".join(sorted(by_name)) or "none"
    errors = [
        _build_error(name, f"unknown variable; the pipeline has: {names}")
        for name in sorted(set(values) - set(by_name))
    ]
    plain: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    for name, variable in by_name.items():
        value = values.get(name)
        if value is None or (value == "" and variable.is_runtime_input):
            is_missing = variable.value is None and not (variable.is_secret and is_preview)
            if is_missing and variable.is_required and not is_preview:
                errors.append(_build_error(name, "is required: the pipeline needs this input at each run"))
            elif is_missing and not variable.is_secret:
                plain[name] = _get_placeholder(variable) if variable.is_required else ""
        elif problem := "" if variable.is_secret and is_preview else variable.describe_problem(value):
            errors.append(_build_error(name, problem))
        elif not variable.is_secret:
            plain[name] = value
        if variable.is_secret:
            secrets[name] = PLACEHOLDER if is_preview else str(value or variable.value or "")
    return RunInputs(plain, secrets), errors


def _get_placeholder(variable: PipelineVariable) -> InputValue:
    return variable.allowed[0] if variable.allowed else PLACEHOLDER


def validate_input_set_values(
    variables: tuple[PipelineVariable, ...], values: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Validate the values of an input set: all are optional, secrets are not allowed."""
    by_name = {v.name: v for v in variables}
    names = ", ".join(sorted(by_name)) or "none"
    errors = []
    for name, value in values.items():
        variable = by_name.get(name)
        if variable is None:
            errors.append(_build_error(name, f"unknown variable; the pipeline has: {names}"))
        elif variable.is_secret:
            errors.append(
                _build_error(name, "is a secret: enter it at each run, it cannot be stored in an input set")
            )
        elif problem := variable.describe_problem(value):
            errors.append(_build_error(name, problem))
    return errors


def _build_error(name: str, message: str) -> dict[str, str]:
    return {"path": f"inputs.{name}", "message": message}


def _parse_variable(name: str, definition: Any, *, has_run: bool) -> PipelineVariable:
    if isinstance(definition, Mapping):
        variable = _parse_typed_variable(name, definition)
    elif isinstance(definition, str) and definition.startswith(_RUNTIME_INPUT):
        variable = _parse_runtime_input(name, definition, "")
    elif isinstance(definition, str | int | float | bool):
        return PipelineVariable(name, value=definition)
    else:
        raise InvalidVariableError(
            "must be a text, a number, true or false, or a mapping with type and value"
        )
    if variable.pattern and (fault := describe_pattern_problem(variable.pattern)):
        raise InvalidVariableError(
            f"the pattern {fault}", "pattern" if isinstance(definition, Mapping) else ""
        )
    if not has_run and (problem := variable.describe_choice_problem()):
        is_key = isinstance(definition, Mapping) and "allowedValues" in definition
        raise InvalidVariableError(problem, "allowedValues" if is_key else "")
    if variable.value is not None and (problem := variable.describe_problem(variable.value)):
        raise InvalidVariableError(f"the value {problem}")
    return variable


def _parse_typed_variable(name: str, definition: Mapping[str, Any]) -> PipelineVariable:
    _validate_mapping(definition)
    type_, value = definition.get("type", STRING), definition.get("value")
    is_call = isinstance(value, str) and value.startswith(_RUNTIME_INPUT)
    base = (
        _parse_runtime_input(name, str(value), type_)
        if is_call
        else PipelineVariable(name, type_, value, is_runtime_input=value is None)
    )
    settled = definition.get("default") if base.value is None else base.value
    return replace(
        base,
        value=settled,
        is_required=definition.get("required", settled is None),
        allowed=tuple(definition.get("allowedValues", base.allowed)),
        pattern=definition.get("pattern", base.pattern),
        description=definition.get("description", ""),
    )


def _validate_mapping(definition: Mapping[str, Any]) -> None:
    if unknown := [str(key) for key in definition if key not in _VARIABLE_KEYS]:
        raise InvalidVariableError(f"unknown key; use one of {', '.join(_VARIABLE_KEYS)}", unknown[0])
    if definition.get("type", STRING) not in TYPES:
        raise InvalidVariableError(f"must be one of {', '.join(TYPES)}", "type")
    if not isinstance(definition.get("allowedValues", []), list):
        raise InvalidVariableError("must be a list", "allowedValues")
    if not isinstance(definition.get("required", False), bool):
        raise InvalidVariableError("must be true or false", "required")
    for key in ("pattern", "description"):
        if not isinstance(definition.get(key, ""), str):
            raise InvalidVariableError("must be a text", key)


def _parse_runtime_input(name: str, text: str, type_: str) -> PipelineVariable:
    """Parse `<+input>` with `.default(…)`, `.allowedValues(…)` and `.regex(…)`."""
    remainder, arguments = text[len(_RUNTIME_INPUT) :], dict[str, str]()
    while remainder:
        call = _INPUT_CALL.match(remainder)
        end = _find_closing_bracket(remainder, call.end()) if call else -1
        if call is None or end < 0:
            raise InvalidVariableError(
                f"{remainder} after <+input> is not .default(…), .allowedValues(…) or .regex(…)"
            )
        arguments[call[1]] = remainder[call.end() : end]
        remainder = remainder[end + 1 :]
    reader = PipelineVariable(name, type_)
    allowed = [
        reader.parse_value(choice.strip())
        for choice in arguments.get("allowedValues", "").split(",")
        if choice.strip()
    ]
    default = reader.parse_value(arguments["default"].strip()) if "default" in arguments else None
    return PipelineVariable(
        name, type_, default, is_runtime_input=True, is_required=default is None, allowed=tuple(allowed),
        pattern=arguments.get("regex", ""),
    )  # fmt: skip


def _find_closing_bracket(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one before `start`."""
    depth = 1
    for at in range(start, len(text)):
        if text[at - 1] != "\\":
            depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at
    return -1
