"""Base and registry of secret managers: where a reference leads, and how its value is read."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import ClassVar

from aws.caller import Caller
from connectors.models import Connector, Secret
from connectors.specs.base import DELEGATE, build_spec_problem
from guards.limits import SECRET_BYTES
from guards.masks import MIN_SECRET_CHARACTERS
from guards.text import find_size_problem, find_text_problem

_PATH_CHARACTERS = 2048
_KEY_CHARACTERS = 255
_VERSION = re.compile(r"[\w.:/@+=-]{1,128}\Z", re.ASCII)


class SecretUnreadable(Exception):
    """Error raised when the value of a secret cannot be read.

    The text names the manager, the path, the reason and the fix, and never a value.
    """


class SecretPending(SecretUnreadable):
    """Error raised while a delegate reads the value of a secret; a later read returns it."""


@dataclass(frozen=True)
class SecretReference:
    """Place of a value in a secret manager.

    `key` is a field of a JSON value; without a `version` the newest is read.
    """

    manager: str
    connector: Connector = field(repr=False)
    path: str
    key: str = ""
    version: str = ""

    @classmethod
    def from_secret(cls, secret: Secret) -> "SecretReference":
        """Return the reference of a stored secret. Raises `SecretUnreadable` if it has none."""
        if secret.manager_connector is None:
            raise SecretUnreadable(f"The secret {secret} refers to no secret manager. Rotate it.")
        return cls(
            secret.manager,
            secret.manager_connector,
            secret.reference_path,
            secret.reference_key,
            secret.reference_version,
        )

    @property
    def is_remote(self) -> bool:
        """Return whether a delegate reads the value."""
        return self.connector.spec.get("connect_through") == DELEGATE

    @property
    def place(self) -> str:
        """Return the place in words, such as `prod/db, key password, version 3`."""
        key = f", key {self.key}" if self.key else ""
        return f"{self.path}{key}{f', version {self.version}' if self.version else ''}"


class SecretManager(ABC):
    """One secret manager. A subclass in a module of this package registers with `register_manager`."""

    name: ClassVar[str]
    title: ClassVar[str]
    connector_kind: ClassVar[str]

    @abstractmethod
    def find_path_problem(self, path: str) -> str:
        """Return why a path cannot exist in this manager, or an empty text."""

    @abstractmethod
    def find_version_problem(self, version: str) -> str:
        """Return why a version cannot exist in this manager, or an empty text."""

    @abstractmethod
    def fetch(self, reference: SecretReference, caller: Caller | None = None) -> str:
        """Return the value at a reference, with its key applied. Raises `SecretUnreadable`.

        `caller` makes the calls in place of this process.
        """

    def find_problems(self, reference: SecretReference) -> Iterator[dict[str, str]]:
        """Return the problems of a reference, each as {"path", "message"}."""
        kind = Connector.Kind(self.connector_kind)
        if reference.connector.kind != kind:
            yield build_spec_problem("connector", f"{self.title} needs a connector to {kind.label}.")
        yield from _find_text_problems(reference)
        if reference.path and (why := self.find_path_problem(reference.path)):
            yield build_spec_problem("path", why)
        if reference.version and (why := self.find_version_problem(reference.version)):
            yield build_spec_problem("version", why)

    def describe_failure(self, reference: SecretReference, reason: str, fix: str) -> SecretUnreadable:
        """Return the error of a failed read: manager, path, reason, fix."""
        return SecretUnreadable(
            f"{self.title} (connector {reference.connector}) did not return {reference.place}: "
            f"{reason.rstrip('.')}. {fix}"
        )

    def select_key(self, reference: SecretReference, text: str) -> str:
        """Return a field of a JSON value, or the value itself without a key."""
        if not reference.key:
            return text
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self.describe_failure(reference, "the value is not a JSON object", "Remove the key.")
        return self.select_field(reference, document)

    def select_field(self, reference: SecretReference, fields: dict[str, object]) -> str:
        """Return one field as text. Raises `SecretUnreadable` if it is missing, empty or not a text."""
        value = fields.get(reference.key)
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        if not isinstance(value, str):
            reason = "it has no such key" if value is None else "the key holds no text"
            raise self.describe_failure(reference, reason, "Correct the key of the reference.")
        return value


def _find_text_problems(reference: SecretReference) -> Iterator[dict[str, str]]:
    if not reference.path:
        yield build_spec_problem("path", "Enter the name or path of the secret in the manager.")
    for name, text, limit in (
        ("path", reference.path, _PATH_CHARACTERS),
        ("key", reference.key, _KEY_CHARACTERS),
    ):
        if len(text) > limit:
            yield build_spec_problem(name, f"Use {limit} characters at most.")
        elif not text.isprintable() or text != text.strip():
            yield build_spec_problem(name, "Use printable characters, without spaces at the ends.")
    if reference.version and not _VERSION.match(reference.version):
        yield build_spec_problem("version", "Use up to 128 letters, digits and . : / @ + = - _.")


_MANAGERS: dict[str, SecretManager] = {}


def register_manager(manager_class: type[SecretManager]) -> type[SecretManager]:
    """Register a secret manager by its name."""
    _MANAGERS[manager_class.name] = manager_class()
    return manager_class


@cache
def get_managers() -> dict[str, SecretManager]:
    """Return the secret managers by name."""
    package = import_module("connectors.secret_managers")
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)
    return dict(sorted(_MANAGERS.items()))


def find_reference_problems(reference: SecretReference) -> list[dict[str, str]]:
    """Return the problems of a reference, each as {"path", "message"}."""
    manager = get_managers().get(reference.manager)
    if manager is None:
        return [build_spec_problem("manager", f"Use one of {', '.join(get_managers())}.")]
    return list(manager.find_problems(reference))


def fetch_reference(reference: SecretReference, caller: Caller | None = None) -> str:
    """Return the current value at a reference. Raises `SecretUnreadable`, also for an unusable value.

    `caller` makes the calls in place of this process.
    """
    manager = get_managers().get(reference.manager)
    if manager is None:
        raise SecretUnreadable(f"This release has no secret manager {reference.manager}. Rotate the secret.")
    value = manager.fetch(reference, caller)
    if problem := find_value_problem(value):
        raise manager.describe_failure(reference, problem, "Change the value in the secret manager.")
    return value


def find_value_problem(value: str) -> str:
    """Return why a value cannot be used and masked, or an empty text."""
    if not value:
        return "the value is empty"
    if len(value) < MIN_SECRET_CHARACTERS:
        return f"the value has fewer than {MIN_SECRET_CHARACTERS} characters, which logs cannot hide"
    if fault := find_text_problem(value) or find_size_problem(value, SECRET_BYTES):
        return f"the value cannot be used: {fault.display_message}"
    return ""
