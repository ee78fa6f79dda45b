"""Sources of stored documents for the test bench; `config.wiring` registers those of the packages above."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policies.subjects import Document
from rbac.models import Scope, User


@dataclass(frozen=True)
class NamedDocument:
    """Document with a title for its result."""

    title: str
    document: Document


DocumentLoader = Callable[[User, str], Sequence[NamedDocument]]
"""Returns the documents of one resource by its id. Raises `NotVisible`."""
ChoiceLister = Callable[[User, Scope], Sequence[tuple[str, str]]]
"""Returns ids and titles of the newest visible resources of a scope."""
RecentLister = Callable[[User, Scope, int], Sequence[Sequence[NamedDocument]]]
"""Returns the documents of each of the newest visible executions of a scope and those below."""


@dataclass(frozen=True)
class DocumentSource:
    """Kind of stored resource that rules of a subject can be evaluated on."""

    subject: str
    load: DocumentLoader
    list_choices: ChoiceLister
    list_recent: RecentLister | None = None


_sources: dict[str, DocumentSource] = {}


def register_document_source(source: DocumentSource) -> None:
    """Register the source of a subject."""
    _sources[source.subject] = source


def get_document_source(subject: str) -> DocumentSource:
    """Return the source of a subject."""
    return _sources[subject]
