"""Registry of step kinds: spec, plan function, rollback partner and form fields of each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

from steps.actions.base import Action, BadStepSettingError
from steps.expressions import has_expression


@dataclass(frozen=True)
class SpecColumn:
    """One key of the entries: `kind` is text, lines, number, choice, flag, names, pairs or checks.

    `names` is a list of texts, `pairs` a mapping of names to values, `checks` some of the choices. Forms
    show the key where the first key of the entry has one of the values `shown_for`; always where empty.
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
    """A titled group of actions in a step's log."""

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
    """Return the metadata of a spec's field: a line of help for people, and what it can be.

    `columns` says what each entry of a list consists of; forms leave out what `is_rare` and not written.
    """
    said = {"choices": choices, "columns": columns, "is_rare": is_rare, "is_multiline": is_multiline}
    return {"help": help, **{name: value for name, value in said.items() if value}}


Plan = Iterator[Unit]
PlanFunction = Callable[[Any], Plan]


class BadStepError(ValueError):
    """A step in a pipeline has a type or a spec that does not exist; `path` is where, below the step."""

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class StepKind:
    """A kind of step that a pipeline can name."""

    type: str
    title: str
    spec: Any
    plan_of: PlanFunction
    undone_by: str
    undoes: tuple[str, ...]
    timeout_minutes: int
    sections: tuple[str, ...]
    # Fields of the spec that name a manifest which the step brings itself, with the kind of each.
    manifests: Mapping[str, str] = field(default_factory=dict)
    # Fields of the spec whose text runs somewhere else: values never become a part of it.
    scripts: tuple[str, ...] = ()
    # Whether delegates do it even where the connector makes its calls from this Slipway.
    goes_to_delegates: bool = False
    # The spec that a new step of this kind begins with.
    starter: Mapping[str, Any] = field(default_factory=dict)
    # Whether it makes what the stage deploys to: its outputs are <+provisioner.NAME> then (R189).
    provisions: bool = False
    # Whether AWS gets the secrets that it names, so that what AWS says may hold them.
    hands_secrets_to_aws: bool = False
    # Places of the spec that take secrets, with * for the entries of a list: what ends with `value` is one
    # as a whole, any other text may have some in it.
    secrets: tuple[str, ...] = ()
    # Outputs by name, each with a sentence, and those of a failure or a rollback by name alone. A spec class
    # with a `list_written_outputs` adds those that the step's own spec names.
    outputs: Mapping[str, str] = field(default_factory=dict)
    failure_outputs: tuple[str, ...] = ()
    # Names that only the fields of the step itself may use, each with a sentence.
    own_expressions: Mapping[str, str] = field(default_factory=dict)
    # Whether it calls ECS in the cluster of the stage, which a provisioner may still have to create.
    needs_cluster: bool = False

    def secrets_of(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the references of the secrets that a spec names; none of one that is wrong."""
        try:
            found: tuple[str, ...] = getattr(self.spec_from(values), "secret_references", ())
        except BadStepError:
            return ()
        return found

    @property
    def changes_ecs_service(self) -> bool:
        """Return whether it deploys, so that a rollback step has to undo it."""
        return bool(self.undone_by) and not self.provisions

    def is_undone_by(self, type_: str) -> bool:
        """Return whether a rollback step of this type puts back what it did."""
        return bool(self.undone_by) and (type_ == self.undone_by or self.type in get_step_kind(type_).undoes)

    @property
    def needed(self) -> tuple[str, ...]:
        """Return the fields that a spec cannot do without."""
        return tuple(name for name, field in self.spec.__dataclass_fields__.items() if _is_needed(field))

    def spec_from(self, values: Mapping[str, Any]) -> Any:
        """Return the typed spec; raises `BadStepError` naming an unknown or ill-typed field."""
        fields = self.spec.__dataclass_fields__
        if lacking := [name for name in self.needed if name not in values]:
            raise BadStepError(f"{self.type} needs {', '.join(lacking)} under spec; list the step there")
        for name, value in values.items():
            if name not in fields:
                known = ", ".join(fields) or "no fields at all"
                raise BadStepError(f"{self.type} has no field {name}; it has {known}")
            wanted = resolve_plain_type(fields[name].type)
            if (isinstance(value, str) and has_expression(value)) or _is_setting(wanted):
                continue
            if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
                raise BadStepError(f"{name} of {self.type} must be {_describe_type(wanted)}, not {value!r}")
        return self.spec(**{**values, **self._settings(values)})

    def _settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that hold settings of their own, read."""
        fields = self.spec.__dataclass_fields__
        try:
            return {
                name: fields[name].type.from_written(value)
                for name, value in values.items()
                if _is_setting(fields[name].type)
            }
        except BadStepSettingError as bad:
            raise BadStepError(f"{self.type}: {bad.message}", ("spec", *bad.path)) from bad

    def seconds_on_purpose(self, values: Mapping[str, Any]) -> int:
        """Return how long the spec asks the step to wait; that comes on top of its time-out."""
        if any(has_expression(value) for value in values.values() if isinstance(value, str)):
            # Known once the step begins, which asks again.
            return 0
        return int(getattr(self.spec_from(values), "seconds_on_purpose", 0))

    def units(self, values: Mapping[str, Any]) -> tuple[Unit, ...]:
        """Return the plan of this step; it depends on the spec alone."""
        return tuple(self.plan_of(self.spec_from(values)))


PROVISIONER_IDENTIFIER = "provisionerIdentifier"


def is_undone_by_step(rollback: str, said: Mapping[str, Any], of: str, written: Mapping[str, Any]) -> bool:
    """Return whether a rollback step undoes a step, by the type and the spec of each.

    A `provisionerIdentifier` of the rollback step limits it to what was made under that name. One that is
    still an expression limits nothing: better too much is taken back than nothing.
    """
    if not get_step_kind(of).is_undone_by(rollback):
        return False
    named = str(said.get(PROVISIONER_IDENTIFIER) or "")
    return not named or has_expression(named) or str(written.get(PROVISIONER_IDENTIFIER) or "") == named


_KINDS: dict[str, StepKind] = {}
F = TypeVar("F", bound=PlanFunction)


def step(  # noqa: PLR0913 - the words that a kind of step is registered with
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
    goes_to_delegates: bool = False,
    starter: Mapping[str, Any] | None = None,
    provisions: bool = False,
    hands_secrets_to_aws: bool = False,
    secrets: tuple[str, ...] = (),
    outputs: Mapping[str, str] | None = None,
    failure_outputs: tuple[str, ...] = (),
    own_expressions: Mapping[str, str] | None = None,
    needs_cluster: bool = False,
) -> Callable[[F], F]:
    """Register the plan function of a kind of step.

    A step that undoes others belongs under `rollbackSteps`, where its own plan is not used; one that
    `goes_forward` as well may also stand under `steps`, as the step that deletes a canary.
    """
    sections = (*(("steps",) if goes_forward or not undoes else ()), *(("rollbackSteps",) if undoes else ()))

    def register(plan_of: F) -> F:
        if type_ in _KINDS:
            raise ValueError(f"There are two step kinds of type {type_}")
        _KINDS[type_] = StepKind(
            type_,
            title,
            spec,
            plan_of,
            undone_by,
            tuple(undoes),
            timeout_minutes,
            sections,
            manifests or {},
            scripts,
            goes_to_delegates,
            starter or {},
            provisions,
            hands_secrets_to_aws,
            secrets,
            outputs or {},
            failure_outputs,
            own_expressions or {},
            needs_cluster,
        )
        return plan_of

    return register


def get_step_kinds() -> Mapping[str, StepKind]:
    """Return every kind of step by its type."""
    return _KINDS


def get_step_kind(type_: str) -> StepKind:
    """Return the kind with this type; raises `BadStepError` when there is none."""
    if type_ not in _KINDS:
        raise BadStepError(f"There is no step of type {type_}; there are {', '.join(sorted(_KINDS))}")
    return _KINDS[type_]


def needs_cluster(type_: str) -> bool:
    """Return whether a step of this type calls ECS in the cluster of its stage."""
    return type_ in _KINDS and _KINDS[type_].needs_cluster


def resolve_plain_type(of: Any) -> type:
    """Return the class that a value must have: of `dict[str, Any]` that is dict, of `bool | None` bool."""
    said = [one for one in get_args(of) if one is not NoneType] if isinstance(of, UnionType) else [of]
    found = get_origin(said[0]) or said[0]
    return found if len(said) == 1 and isinstance(found, type) else object


def _is_setting(of: Any) -> bool:
    """Return whether a field holds settings of a class, which reads them with `from_written`."""
    return hasattr(of, "from_written")


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _describe_type(wanted: Any) -> str:
    return {
        bool: "true or false",
        int: "a whole number",
        str: "a text",
        dict: "a mapping",
        list: "a list",
    }.get(wanted, str(wanted))
