"""Organizations with their first projects."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber

from rbac.models import Scope

# More projects than this are on the page of their organization.
MOST_LISTED_PROJECTS = 10


@dataclass(frozen=True)
class OrganizationProjects:
    """Organization with its first projects and their number."""

    organization: Scope
    projects: tuple[Scope, ...]
    count: int

    @property
    def hidden_count(self) -> int:
        """Return the number of projects after the first ones."""
        return self.count - len(self.projects)


def list_organization_projects(
    organizations: Iterable[Scope], visible: QuerySet[Scope]
) -> list[OrganizationProjects]:
    """Return each organization with the first of its projects among `visible`, by name; one query for all."""
    parents = list(organizations)
    project_rows = visible.filter(kind=Scope.Kind.PROJECT, parent__in=[parent.pk for parent in parents])
    ranked = project_rows.annotate(
        rank=Window(RowNumber(), partition_by=F("parent"), order_by=["name", "pk"]),
        siblings=Window(Count("pk"), partition_by=F("parent")),
    )
    projects: dict[int | None, list[Scope]] = {}
    for project in ranked.filter(rank__lte=MOST_LISTED_PROJECTS).order_by("name", "pk"):
        projects.setdefault(project.parent_id, []).append(project)
    return [_build_organization_projects(parent, projects.get(parent.pk, [])) for parent in parents]


def _build_organization_projects(organization: Scope, projects: list[Scope]) -> OrganizationProjects:
    count = projects[0].siblings if projects else 0  # type: ignore[attr-defined]
    return OrganizationProjects(organization, tuple(projects), count)
