"""Variables of a pipeline: parsing, validation, and checks of the values of a run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from guards.limits import INPUT_CHARACTERS
from guards.patterns import describe_pattern_problem, is_full_match

InputValue = str | int | float | bool
STRING, NUMBER, BOOLEAN, SECRET = "String", "Number", "Boolean", "Secret"
TYPES = (STRING, NUMBER, BOOLEAN, SECRET)
_VARIABLE_KEYS = ("type", "value", "default", "required", "allowedValues", "pattern", "description")
_RUNTIME_INPUT = "<+input>"
_INPUT_CALL = re.compile(r"\.(default|allowedValues|regex)\(")
_TYPE_DESCRIPTIONS = {STRING: "a text", NUMBER: "a number", BOOLEAN: "true or false", SECRET: "a text"}
# What stands for a secret, or for what nobody has said, where a run is only shown.
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
    """Whether the form of a run asks for it."""
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
            return f"must be {_TYPE_DESCRIPTIONS.get(self.type, 'a text, a number, true or false')}"
        if isinstance(value, str) and len(value) > INPUT_CHARACTERS:
            return f"must have at most {INPUT_CHARACTERS}"
        if self.allowed and not any(value == one and type(value) is type(one) for one in self.allowed):
            return f"must be one of {', '.join(map(format_variable_value, self.allowed))}"
        if self.pattern and not is_full_match(self.pattern, str(value)):
            return f"must match the pattern {self.pattern}"
        return ""

    def parse_value(self, text: str) -> InputValue:
        """Parse the text of a form field: numbers and Booleans are converted, other texts stay."""
        if self.type == BOOLEAN and text in ("true", "false"):
            return text == "true"
        if self.type == NUMBER and re.fullmatch(r"-?\d{1,15}", text.strip()):
            return int(text)
        if self.type == NUMBER and re.fullmatch(r"-?\d{1,15}\.\d{1,15}", text.strip()):
            return float(text)
        return next((one for one in self.allowed if format_variable_value(one) == text), text)

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
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_variables(written: Mapping[str, Any]) -> tuple[PipelineVariable, ...]:
    """Return the variables of a pipeline.

    Raises `InvalidVariableError` for problems that `find_variable_problems` reports.
    """
    return tuple(_parse_variable(str(name), value) for name, value in written.items())


def find_variable_problems(written: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the problems of variables: path below `variables`, and message."""
    for name, value in written.items():
        try:
            _parse_variable(str(name), value)
        except InvalidVariableError as bad:
            yield (str(name), *((bad.key,) if bad.key else ())), str(bad)


def get_default_values(variables: tuple[PipelineVariable, ...]) -> dict[str, Any]:
    """Return the default values; secrets have none that may be shown."""
    return {one.name: one.value for one in variables if one.value is not None and not one.is_secret}


def validate_inputs(
    variables: tuple[PipelineVariable, ...], given: Mapping[str, Any], *, is_preview: bool = False
) -> tuple[RunInputs, list[dict[str, str]]]:
    """Validate the inputs of a run; return the inputs and the problems by `inputs.NAME`.

    A preview needs no secrets, and uses placeholders for missing values.
    """
    known = {one.name: one for one in variables}
    names = ", ".join(sorted(known)) or "none"
    errors = [
        _build_error(name, f"unknown variable; the pipeline has: {names}")
        for name in sorted(set(given) - set(known))
    ]
    plain: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    for name, one in known.items():
        value = given.get(name)
        if value is None or (value == "" and one.is_runtime_input):
            if one.value is None and (one.is_required or one.is_runtime_input) and not is_preview:
                errors.append(_build_error(name, "is required: the pipeline needs this input at each run"))
            elif one.value is None and is_preview and not one.is_secret:
                plain[name] = one.allowed[0] if one.allowed else PLACEHOLDER
        elif problem := "" if one.is_secret and is_preview else one.describe_problem(value):
            errors.append(_build_error(name, problem))
        elif not one.is_secret:
            plain[name] = value
        if one.is_secret:
            secrets[name] = PLACEHOLDER if is_preview else str(value or one.value or "")
    return RunInputs(plain, secrets), errors


def validate_input_set_values(
    variables: tuple[PipelineVariable, ...], given: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Validate the values of an input set: all are optional, secrets are not allowed."""
    known = {one.name: one for one in variables}
    names = ", ".join(sorted(known)) or "none"
    errors = []
    for name, value in given.items():
        one = known.get(name)
        if one is None:
            errors.append(_build_error(name, f"unknown variable; the pipeline has: {names}"))
        elif one.is_secret:
            errors.append(
                _build_error(name, "is a secret: enter it at each run, it cannot be stored in an input set")
            )
        elif problem := one.describe_problem(value):
            errors.append(_build_error(name, problem))
    return errors


def _build_error(name: str, message: str) -> dict[str, str]:
    return {"path": f"inputs.{name}", "message": message}


def _parse_variable(name: str, written: Any) -> PipelineVariable:
    if isinstance(written, Mapping):
        found = _parse_typed_variable(name, written)
    elif isinstance(written, str) and written.startswith(_RUNTIME_INPUT):
        found = _parse_runtime_input(name, written, "")
    elif isinstance(written, str | int | float | bool):
        return PipelineVariable(name, value=written)
    else:
        raise InvalidVariableError(
            "must be a text, a number, true or false, or a mapping with type and value"
        )
    if found.pattern and (fault := describe_pattern_problem(found.pattern)):
        raise InvalidVariableError(f"the pattern {fault}", "pattern" if isinstance(written, Mapping) else "")
    if found.value is not None and (problem := found.describe_problem(found.value)):
        raise InvalidVariableError(f"the value {problem}")
    return found


def _parse_typed_variable(name: str, written: Mapping[str, Any]) -> PipelineVariable:
    _validate_mapping(written)
    type_, value = written.get("type", STRING), written.get("value")
    is_call = isinstance(value, str) and value.startswith(_RUNTIME_INPUT)
    base = (
        _parse_runtime_input(name, str(value), type_)
        if is_call
        else PipelineVariable(name, type_, value, is_runtime_input=value is None)
    )
    settled = written.get("default") if base.value is None else base.value
    return replace(
        base,
        value=settled,
        is_required=written.get("required", settled is None),
        allowed=tuple(written.get("allowedValues", base.allowed)),
        pattern=written.get("pattern", base.pattern),
        description=written.get("description", ""),
    )


def _validate_mapping(written: Mapping[str, Any]) -> None:
    if unknown := [str(key) for key in written if key not in _VARIABLE_KEYS]:
        raise InvalidVariableError(f"unknown key; use one of {', '.join(_VARIABLE_KEYS)}", unknown[0])
    if written.get("type", STRING) not in TYPES:
        raise InvalidVariableError(f"must be one of {', '.join(TYPES)}", "type")
    if not isinstance(written.get("allowedValues", []), list):
        raise InvalidVariableError("must be a list", "allowedValues")
    if not isinstance(written.get("required", False), bool):
        raise InvalidVariableError("must be true or false", "required")
    for key in ("pattern", "description"):
        if not isinstance(written.get(key, ""), str):
            raise InvalidVariableError("must be a text", key)


def _parse_runtime_input(name: str, written: str, type_: str) -> PipelineVariable:
    """Parse `<+input>` with `.default(…)`, `.allowedValues(…)` and `.regex(…)`."""
    rest, said = written[len(_RUNTIME_INPUT) :], dict[str, str]()
    while rest:
        call = _INPUT_CALL.match(rest)
        end = _find_closing_bracket(rest, call.end()) if call else -1
        if call is None or end < 0:
            raise InvalidVariableError(
                f"{rest} after <+input> is not .default(…), .allowedValues(…) or .regex(…)"
            )
        said[call[1]] = rest[call.end() : end]
        rest = rest[end + 1 :]
    reader = PipelineVariable(name, type_)
    allowed = [
        reader.parse_value(one.strip()) for one in said.get("allowedValues", "").split(",") if one.strip()
    ]
    default = reader.parse_value(said["default"].strip()) if "default" in said else None
    return PipelineVariable(
        name, type_, default, is_runtime_input=True, is_required=default is None, allowed=tuple(allowed),
        pattern=said.get("regex", ""),
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
