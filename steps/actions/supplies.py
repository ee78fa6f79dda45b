"""What a step is made of, as actions see it: manifests, templates, files of programs, and where they lie."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Loaded:
    """A manifest, fetched, with its expressions resolved, checked against AWS's own model.

    `overrides` says what was laid over it, the weakest first (R178).
    """

    value: dict[str, Any]
    paths: tuple[str, ...]
    warnings: tuple[str, ...]
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """A text that a step hands to AWS as it is, with its expressions filled in, and where it came from."""

    name: str
    text: str


@dataclass(frozen=True)
class Source:
    """Where a manifest lies."""

    identifier: str
    store: str
    paths: tuple[str, ...]


class Supplies(Protocol):
    """The manifests of the stage, or those that the step brings itself: fetched once, then pinned."""

    def sources(self, kind: str) -> tuple[Source, ...]:
        """Where the manifests of a kind lie; none where there are none."""
        ...

    def load(self, kind: str) -> Loaded:
        """Fetch, resolve and check the manifest of `kind`; raises `ActionFailed` naming file and line.

        Expressions may name what this step has learned, such as `<+targetGroupArn>`.
        """
        ...

    def load_all(self, kind: str) -> tuple[Loaded, ...]:
        """As `load`, every manifest of a kind of which a service may have several."""
        ...

    def template(self, kind: str) -> Template:
        """Fetch the template that the step brings. Raises `ActionFailed` naming the file."""
        ...

    def program_files(self, kind: str) -> Mapping[str, str]:
        """The texts of the files of a program that the step brings itself, by path; fetched where needed."""
        ...
