"""The policy says what a slow, plain reading of the same rows says, whatever the rows are."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from connectors.models import Secret
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import ApiKeyLimits, ResourceGroup, Role, RoleAssignment, Scope, User, UserGroup
from rbac.policy import (
    Grants,
    ResourceLocation,
    cache_permissions,
    can,
    can_anywhere,
    explain_permissions,
    filter_visible,
    get_permissions,
    get_permissions_anywhere,
    get_permissions_over_scope,
    get_resource_locations,
    list_member_scopes,
    list_permission_holders,
    list_permitted_scopes,
)
from tests.fixtures.people import make_person
from tests.lanes import examples
from tests.rbac.people import project
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db

ACCOUNT, ORG = "account", "account/one"
DEMO, OTHER, AWAY = "account/one/demo", "account/one/other", "account/two/away"
PATHS = (ACCOUNT, ORG, DEMO, OTHER, "account/two", AWAY)
VIEW, EXECUTE, SEE_SECRET, USE_SECRET = (
    "core_pipeline_view",
    "core_pipeline_execute",
    "core_secret_view",
    "core_secret_access",
)
DELEGATES = "core_delegate_view"
PERMISSIONS = (VIEW, EXECUTE, SEE_SECRET, USE_SECRET, DELEGATES)
NAMES = ("web", "api")
Thing = Scope | Pipeline | Secret | Execution


@dataclass(frozen=True)
class Given:
    """An assignment: where, what for, on which (kind, name or "") entries (None: everything)."""

    at: str
    permissions: frozenset[str]
    entries: frozenset[tuple[str, str]] | None
    by_group: bool
    expired: bool


@dataclass(frozen=True)
class State:
    """All that decides: assignments of one person, what is archived, what the key allows."""

    given: tuple[Given, ...]
    archived: frozenset[str]
    active: bool
    key_at: str | None
    key_permissions: frozenset[str]


def kind_of(permission: str) -> str:
    return permission.split("_")[1]


def is_at_or_below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")


def is_live(state: State, path: str) -> bool:
    return not any(is_at_or_below(path, archived) for archived in state.archived)


def covers_path(path: str, of: str, permission: str) -> bool:
    is_shared = permission in (SEE_SECRET, DELEGATES)
    return is_at_or_below(path, of) or (is_shared and is_at_or_below(of, path))


def allowed(state: State, permission: str, kind: str, name: str, path: str) -> bool:
    """Apply the rules in order; an empty `name` stands for everything of the kind."""
    if not state.active or not is_live(state, path) or not is_allowed_by_key(state, permission, path):
        return False
    return any(
        covers(assignment, permission, kind, name)
        for assignment in state.given
        if not assignment.expired
        and is_live(state, assignment.at)
        and covers_path(path, assignment.at, permission)
    )


def is_allowed_by_key(state: State, permission: str, path: str) -> bool:
    if state.key_permissions and permission not in state.key_permissions:
        return False
    if state.key_at is None:
        return True
    return is_live(state, state.key_at) and covers_path(path, state.key_at, permission)


def covers(assignment: Given, permission: str, kind: str, name: str) -> bool:
    if permission == DELEGATES:
        return True
    entries = {(kind_of(permission), "")} if assignment.entries is None else assignment.entries
    called = (kind, name) if name and kind == kind_of(permission) else (kind_of(permission), "")
    return permission in assignment.permissions and bool({(kind_of(permission), ""), called} & entries)


def says(state: State, permission: str, thing: Thing) -> bool:
    if isinstance(thing, Scope):
        return allowed(state, permission, "", "", thing.path)
    kind = "secret" if isinstance(thing, Secret) else "pipeline"
    name = thing.pipeline.identifier if isinstance(thing, Execution) else thing.identifier
    return allowed(state, permission, kind, name, thing.scope.path)


ENTRIES = st.frozensets(st.tuples(st.sampled_from(("pipeline", "secret")), st.sampled_from(("", *NAMES))))
GIVEN = st.builds(
    Given,
    at=st.sampled_from(PATHS),
    permissions=st.frozensets(st.sampled_from(PERMISSIONS[:4])),
    entries=st.none() | ENTRIES,
    by_group=st.booleans(),
    expired=st.sampled_from((False, False, False, True)),
)
STATES = st.builds(
    State,
    given=st.lists(GIVEN, max_size=4).map(tuple),
    archived=st.just(frozenset()) | st.frozensets(st.sampled_from(PATHS[1:]), max_size=2),
    active=st.sampled_from((True, True, True, False)),
    key_at=st.none() | st.sampled_from(PATHS),
    key_permissions=st.just(frozenset()) | st.frozensets(st.sampled_from(PERMISSIONS)),
)


# Somebody whose only role is in a project that is archived: what is shared above is not theirs any more.
GONE = State(
    (Given(DEMO, frozenset({SEE_SECRET}), None, by_group=False, expired=False),),
    frozenset({DEMO}),
    active=True,
    key_at=None,
    key_permissions=frozenset(),
)


class PolicyAgainstModel(TestCase):
    """The same tree and things, and any rows of access."""

    scopes: ClassVar[dict[str, Scope]]
    things: ClassVar[list[Pipeline | Secret | Execution]]

    @classmethod
    def setUpTestData(cls) -> None:
        for path in (DEMO, OTHER, AWAY):
            project(path.removeprefix("account/"))
        cls.scopes = {scope.path: scope for scope in Scope.objects.filter(path__in=PATHS)}
        cls.things = []
        for path in (ACCOUNT, ORG, DEMO, OTHER, AWAY):
            scope = cls.scopes[path]
            for name in NAMES:
                pipeline = Pipeline.objects.create(scope=scope, identifier=name, name=name, yaml="")
                run = Execution.objects.create(
                    pipeline=pipeline, scope=scope, number=1, yaml="", status="SUCCESS", due_at=timezone.now()
                )
                cls.things += [pipeline, run]
                cls.things.append(
                    Secret.objects.create(scope=scope, identifier=name, name=name, value=planted("1"))
                )

    def person(self, state: State) -> User:
        """Write the rows of `state` and return the person that they are about, as a request would."""
        person = User.objects.create(username="person", is_active=state.active)
        group = UserGroup.objects.create(scope=self.scopes[ACCOUNT], identifier="g", name="G")
        group.users.add(person)
        for number, assignment in enumerate(state.given):
            role = Role.objects.create(scope=self.scopes[ACCOUNT], identifier=f"r{number}", name="R")
            role.set_permissions(assignment.permissions)
            narrow = None
            if assignment.entries is not None:
                narrow = ResourceGroup.objects.create(
                    scope=self.scopes[ACCOUNT], identifier=f"n{number}", name="N"
                )
                for resource, identifier in assignment.entries:
                    narrow.entries.create(resource=resource, identifier=identifier)
            RoleAssignment.objects.create(
                scope=self.scopes[assignment.at],
                role=role,
                resource_group=narrow,
                expires_at=timezone.now() - timedelta(hours=1) if assignment.expired else None,
                **({"group": group} if assignment.by_group else {"user": person}),
            )
        Scope.objects.filter(path__in=state.archived).update(archived_at=timezone.now())
        if state.key_at is not None or state.key_permissions:
            key_scope = None if state.key_at is None else Scope.objects.get(path=state.key_at)
            person.key_limits = ApiKeyLimits(key_scope, state.key_permissions)
        return person

    @settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
    @given(STATES, st.sampled_from(PERMISSIONS), st.integers(0, 19))
    @example(GONE, SEE_SECRET, 0)
    def test_every_question_has_the_answer_of_the_plain_model(
        self, state: State, permission: str, first: int
    ) -> None:
        person = self.person(state)
        self.compare(state, person, permission, first)
        with cache_permissions():
            self.compare(state, person, permission, first)

    def compare(self, state: State, person: User, permission: str, first: int) -> None:
        """Ask the policy everything about `permission`, and compare with the rules."""
        paths = {path for path in PATHS if allowed(state, permission, "", "", path)}
        assert {scope.path for scope in list_permitted_scopes(person, permission)} == paths
        expected = {thing for thing in self.things if says(state, permission, thing)}
        for model in (Pipeline, Execution, Secret):
            rows = model._default_manager.all()
            own_things = {thing for thing in expected if isinstance(thing, model)}
            assert set(filter_visible(person, permission, rows)) == own_things
            for path, scope in self.scopes.items():
                local_things = {thing for thing in own_things if is_at_or_below(thing.scope.path, path)}
                assert set(filter_visible(person, permission, rows, scope)) == local_things
                lines = {
                    scope_row.path: scope_row.pk
                    for scope_row in self.scopes.values()
                    if is_at_or_below(path, scope_row.path)
                }
                above = [pk for at, pk in lines.items() if at != path]
                shared = {thing for thing in own_things if thing.scope.path in lines}
                assert set(filter_visible(person, permission, rows, scope, above)) == local_things | shared
        bare = replace(state, key_at=None, key_permissions=frozenset())
        for thing in (self.things[first % len(self.things)], list(self.scopes.values())[first % len(PATHS)]):
            local_things = {name for name in PERMISSIONS if says(state, name, thing)}
            assert get_permissions(person, thing) & set(PERMISSIONS) == local_things
            assert can(person, permission, thing) == (permission in local_things)
            assert can_anywhere(person, permission) == bool(paths)
            holders = list_permission_holders(thing, [permission], RoleAssignment.objects.all())
            assert [holder.user for holder in holders] == [person] * says(bare, permission, thing)
            verdicts = explain_permissions(person, thing, PERMISSIONS)
            assert {verdict.permission for verdict in verdicts if verdict.is_granted} == local_things
            assert all(
                bool(verdict.assignments) == verdict.is_granted and verdict.reason for verdict in verdicts
            )

    @settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
    @given(STATES)
    @example(GONE)
    def test_what_is_remembered_is_what_would_be_read(self, state: State) -> None:
        person = self.person(state)
        members, anywhere = set(list_member_scopes(person)), get_permissions_anywhere(person)
        with cache_permissions():
            assert set(list_member_scopes(person)) == members
            assert get_permissions_anywhere(person) == anywhere

    @settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
    @given(STATES)
    @example(GONE)
    def test_many_who_are_asked_about_together_have_the_same_answers(self, state: State) -> None:
        person = self.person(state)
        witness = make_person("witness", "viewer", self.scopes[DEMO])
        grants = Grants([witness, person])
        places: dict[Thing, ResourceLocation] = {
            thing: ResourceLocation(thing.pk, {}) for thing in self.scopes.values()
        }
        for model in (Pipeline, Execution, Secret):
            things = {thing.pk: thing for thing in self.things if isinstance(thing, model)}
            places |= {things[pk]: place for pk, place in get_resource_locations(model, things).items()}
        for user in (person, witness):
            for permission in PERMISSIONS:
                scope_ids = {scope.pk for scope in list_permitted_scopes(user, permission)}
                assert grants.get_permitted_scope_ids(user, permission) == scope_ids
            for thing in (*self.scopes.values(), *self.things[::4]):
                assert grants.get_permissions(user, places[thing]) == get_permissions(user, thing)

    @settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
    @given(STATES)
    def test_what_one_may_hand_out_holds_for_everything_at_and_below(self, state: State) -> None:
        person = self.person(state)
        for path, scope in self.scopes.items():
            below = [p for p in PATHS if is_at_or_below(p, path) and is_live(state, p)]
            for permission in get_permissions_over_scope(person, scope) & set(PERMISSIONS[:4]):
                assert all(allowed(state, permission, "", "", p) for p in below)

    @settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
    @given(STATES)
    def test_a_key_never_adds_anything(self, state: State) -> None:
        person = self.person(state)
        narrowed = {s.path for s in list_member_scopes(person)}
        granted = {path: get_permissions(person, scope) for path, scope in self.scopes.items()}
        person.key_limits = None
        assert narrowed <= {s.path for s in list_member_scopes(person)}
        for path, scope in self.scopes.items():
            assert granted[path] <= get_permissions(person, scope)
        bare = replace(state, key_at=None, key_permissions=frozenset())
        assert {s.path for s in list_permitted_scopes(person, VIEW)} == {
            p for p in PATHS if allowed(bare, VIEW, "", "", p)
        }
