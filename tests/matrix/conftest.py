"""One world and one set of people for all cells of the matrix; each request is undone."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker

from delegates.models.delegates import create_first_rows
from rbac.models import Scope, User
from rbac.permissions import ensure_builtin_roles
from tests.api.required_access import ADMIN, HERE, Standing
from tests.api.sample_project import World, make_world
from tests.matrix.principals import Browser, browser_of, make_people


@dataclass(frozen=True)
class Stage:
    """Everybody with a browser, and one of everything in a project."""

    people: dict[Standing, User]
    browsers: dict[Standing, Browser]
    anonymous: Browser
    world: World


@pytest.fixture(scope="module")
def undone(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """What a module makes goes when it ends, and thousands of refusals write nothing to the log."""
    logging.disable(logging.CRITICAL)
    with django_db_blocker.unblock(), transaction.atomic():
        ensure_builtin_roles()
        create_first_rows()
        yield
        transaction.set_rollback(True)
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def people(undone: None) -> dict[Standing, User]:
    return make_people()


@pytest.fixture(scope="module")
def stage(people: dict[Standing, User]) -> Stage:
    owner = people[ADMIN]
    return Stage(
        people=people,
        browsers={standing: browser_of(person) for standing, person in people.items()},
        anonymous=browser_of(None),
        world=make_world(Scope.objects.get(path=HERE), owner, owner),
    )
