"""Registry of step kinds: spec, plan function, rollback partner and form fields of each kind."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

from steps.actions.base import Action, BadStepSettingError
from steps.expressions import has_expression


@dataclass(frozen=True)
class SpecColumn:
    """Key of list entries; `kind` is text, lines, number, choice, flag, names, pairs or
    checks.

    `names` is a list of texts, `pairs` a mapping of names to values, `checks` a subset of the choices. Forms
    show the key if the first key of the entry has one of the values `shown_for`; always if empty.
    """

    name: str
    kind: str = "text"
    help: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    is_needed: bool = False
    shown_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unit:
    """Titled group of actions in a step's log."""

    title: str
    actions: tuple[Action, ...]


def unit(title: str, *actions: Action) -> Unit:
    """Group actions under a title."""
    return Unit(title, actions)


def describe_field(
    help: str = "",
    *choices: str,
    columns: tuple[SpecColumn, ...] = (),
    is_rare: bool = False,
    is_multiline: bool = False,
) -> dict[str, Any]:
    """Return the metadata of a spec's field: a line of help and the possible values.

    `columns` are the keys of each entry of a list; forms hide a field that `is_rare` until it has a value.
    """
    metadata = {"choices": choices, "columns": columns, "is_rare": is_rare, "is_multiline": is_multiline}
    return {"help": help, **{name: value for name, value in metadata.items() if value}}


Plan = Iterator[Unit]
PlanFunction = Callable[[Any], Plan]


class BadStepError(ValueError):
    """An unknown type or an invalid spec of a step; `path` is the location below the step."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class StepKind:
    """Kind of step that a pipeline can use."""

    type: str
    title: str
    spec: Any
    plan_function: PlanFunction
    undone_by: str
    undoes: tuple[str, ...]
    timeout_minutes: int
    sections: tuple[str, ...]
    # Fields of the spec with the step's own manifests, and the kind of each.
    manifests: Mapping[str, str] = field(default_factory=dict)
    # Fields of the spec that run as code elsewhere: values never become a part of the code.
    scripts: tuple[str, ...] = ()
    # Whether delegates run it even if the connector makes its calls from this Slipway.
    runs_on_delegates: bool = False
    # Spec of a new step of this kind.
    starter: Mapping[str, Any] = field(default_factory=dict)
    # Whether it creates the infrastructure of the stage: its outputs are <+provisioner.NAME> then (R189).
    provisions: bool = False
    # Whether AWS receives its secrets, so that responses may contain them.
    sends_secrets_to_aws: bool = False
    # Paths of the spec that accept secrets, with * for the entries of a list: a path that ends with `value`
    # is one secret, any other text may contain several.
    secrets: tuple[str, ...] = ()
    # Outputs by name, each with a description, and the names of those of a failure or a rollback. A spec
    # class with `list_declared_outputs` adds the outputs that the step's own spec declares.
    outputs: Mapping[str, str] = field(default_factory=dict)
    failure_outputs: tuple[str, ...] = ()
    # Names available only in the fields of the step itself, each with a description.
    own_expressions: Mapping[str, str] = field(default_factory=dict)
    # Whether it calls ECS in the cluster of the stage, which a provisioner may have to create first.
    needs_cluster: bool = False
    # Types of steps of the stage that it needs before and after it; empty if it needs none.
    comes_between: tuple[str, ...] = ()
    # Whether it may write to AWS or run work, so that policy rules want its approvals before it.
    deploys: bool = True

    def list_secret_references(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the references of the secrets in a spec; none for an invalid spec."""
        try:
            references: tuple[str, ...] = getattr(self.parse_spec(values), "secret_references", ())
        except BadStepError:
            return ()
        return references

    @property
    def changes_ecs_service(self) -> bool:
        """Return whether it deploys, so that a rollback step has to undo it."""
        return bool(self.undone_by) and not self.provisions

    def may_deploy(self, values: Mapping[str, Any]) -> bool:
        """Return whether a step with this spec may write to AWS or run work; one that is invalid may."""
        try:
            return self.deploys and bool(getattr(self.parse_spec(values), "deploys", True))
        except BadStepError:
            return True

    def is_undone_by(self, type_: str) -> bool:
        """Return whether a rollback step of this type undoes it; an unknown type does not."""
        undoes = _KINDS[type_].undoes if type_ in _KINDS else ()
        return bool(self.undone_by) and (type_ == self.undone_by or self.type in undoes)

    @property
    def required_fields(self) -> tuple[str, ...]:
        """Return the required fields of the spec."""
        return tuple(name for name, field in self.spec.__dataclass_fields__.items() if _is_required(field))

    def parse_spec(self, values: Mapping[str, Any]) -> Any:
        """Return the typed spec; raises `BadStepError` naming an unknown or ill-typed field."""
        fields = self.spec.__dataclass_fields__
        if missing := [name for name in self.required_fields if name not in values]:
            raise BadStepError(f"{self.type} needs {', '.join(missing)} under spec; list the step there")
        for name, value in values.items():
            if name not in fields:
                names = ", ".join(fields) or "no fields at all"
                raise BadStepError(f"{self.type} has no field {name}; it has {names}")
            expected = resolve_plain_type(fields[name].type)
            if (isinstance(value, str) and has_expression(value)) or _is_setting(expected):
                continue
            if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
                raise BadStepError(f"{name} of {self.type} must be {_describe_type(expected)}, not {value!r}")
        return self.spec(**{**values, **self._parse_settings(values)})

    def _parse_settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parsed fields that have settings of their own."""
        fields = self.spec.__dataclass_fields__
        try:
            return {
                name: fields[name].type.from_document(value)
                for name, value in values.items()
                if _is_setting(fields[name].type)
            }
        except BadStepSettingError as bad:
            raise BadStepError(f"{self.type}: {bad.message}", ("spec", *bad.path)) from bad

    def planned_wait_seconds(self, values: Mapping[str, Any]) -> int:
        """Return how long the spec asks the step to wait, in addition to its timeout."""
        if any(has_expression(value) for value in values.values() if isinstance(value, str)):
            # Known when the step starts, which computes it again.
            return 0
        return int(getattr(self.parse_spec(values), "planned_wait_seconds", 0))

    def build_units(self, values: Mapping[str, Any]) -> tuple[Unit, ...]:
        """Return the plan of this step; it depends only on the spec."""
        return tuple(self.plan_function(self.parse_spec(values)))


PROVISIONER_IDENTIFIER = "provisionerIdentifier"


def is_undone_by_step(
    rollback_type: str, rollback_spec: Mapping[str, Any], type_: str, spec: Mapping[str, Any]
) -> bool:
    """Return whether a rollback step undoes a step, by the type and the spec of each.

    A `provisionerIdentifier` of the rollback step limits it to infrastructure with that name. An unresolved
    expression limits nothing, and each rollback step may undo a step of an unknown kind: it is safer to undo
    too much than nothing.
    """
    if type_ in _KINDS and not _KINDS[type_].is_undone_by(rollback_type):
        return False
    identifier = str(rollback_spec.get(PROVISIONER_IDENTIFIER) or "")
    return (
        not identifier
        or has_expression(identifier)
        or str(spec.get(PROVISIONER_IDENTIFIER) or "") == identifier
    )


_KINDS: dict[str, StepKind] = {}
F = TypeVar("F", bound=PlanFunction)


def step(  # noqa: PLR0913 - the settings of a step kind
    type_: str,
    *,
    spec: type,
    title: str,
    undone_by: str = "",
    undoes: tuple[str, ...] = (),
    goes_forward: bool = False,
    timeout_minutes: int = 30,
    manifests: Mapping[str, str] | None = None,
    scripts: tuple[str, ...] = (),
    runs_on_delegates: bool = False,
    starter: Mapping[str, Any] | None = None,
    provisions: bool = False,
    sends_secrets_to_aws: bool = False,
    secrets: tuple[str, ...] = (),
    outputs: Mapping[str, str] | None = None,
    failure_outputs: tuple[str, ...] = (),
    own_expressions: Mapping[str, str] | None = None,
    needs_cluster: bool = False,
    comes_between: tuple[str, ...] = (),
    deploys: bool = True,
) -> Callable[[F], F]:
    """Register the plan function of a kind of step.

    A step that undoes others belongs under `rollbackSteps`, where its own plan is not used; one that
    `goes_forward` may also stand under `steps`, such as the step that deletes a canary.
    """
    sections = (*(("steps",) if goes_forward or not undoes else ()), *(("rollbackSteps",) if undoes else ()))

    def register(plan_function: F) -> F:
        if type_ in _KINDS:
            raise ValueError(f"There are two step kinds of type {type_}")
        _KINDS[type_] = StepKind(
            type_,
            title,
            spec,
            plan_function,
            undone_by,
            tuple(undoes),
            timeout_minutes,
            sections,
            manifests or {},
            scripts,
            runs_on_delegates,
            starter or {},
            provisions,
            sends_secrets_to_aws,
            secrets,
            outputs or {},
            failure_outputs,
            own_expressions or {},
            needs_cluster,
            comes_between,
            deploys,
        )
        return plan_function

    return register


def get_step_kinds() -> Mapping[str, StepKind]:
    """Return every kind of step by its type."""
    return _KINDS


def get_step_kind(type_: str) -> StepKind:
    """Return the kind with this type; raises `BadStepError` when there is none."""
    if type_ not in _KINDS:
        near = get_close_matches(type_, _KINDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(_KINDS))}"
        raise BadStepError(f"there is no step of type {type_}; {hint}", ("type",))
    return _KINDS[type_]


def needs_cluster(type_: str) -> bool:
    """Return whether a step of this type calls ECS in the cluster of its stage."""
    return type_ in _KINDS and _KINDS[type_].needs_cluster


def may_change_ecs_service(type_: str) -> bool:
    """Return whether a step of this type deploys; one of an unknown kind may."""
    return type_ not in _KINDS or _KINDS[type_].changes_ecs_service


def resolve_plain_type(annotation: Any) -> type:
    """Return the class for an isinstance check: dict for `dict[str, Any]`, bool for `bool | None`."""
    members = (
        [member for member in get_args(annotation) if member is not NoneType]
        if isinstance(annotation, UnionType)
        else [annotation]
    )
    plain = get_origin(members[0]) or members[0]
    return plain if len(members) == 1 and isinstance(plain, type) else object


def _is_setting(annotation: Any) -> bool:
    """Return whether a field has settings of a class with `from_document`."""
    return hasattr(annotation, "from_document")


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _describe_type(type_: Any) -> str:
    return {
        bool: "true or false",
        int: "a whole number",
        str: "a text",
        dict: "a mapping",
        list: "a list",
    }.get(type_, str(type_))
