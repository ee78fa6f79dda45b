"""What an address needs, and what comes of it for each role at each place: computed, never written down.

The rules are said again here, plainly and apart from the policy that they are compared with.
"""

from dataclasses import dataclass

from rbac.permissions import ALWAYS_GRANTED, BUILTIN_ROLES, get_view_permission
from tests.api.sample_project import CANARY
from tests.lanes import is_thorough

ACCOUNT = "account"
ORGANIZATION = "account/default"
HERE = "account/default/demo"
SIBLING = "account/default/sibling"
ELSEWHERE = "account/other/elsewhere"
PLACES = (HERE, SIBLING, ORGANIZATION, ACCOUNT)
GRANTED = {role.identifier: role.permissions for role in BUILTIN_ROLES}
FORBIDDEN, MISSING = 403, 404


@dataclass(frozen=True)
class Standing:
    """A built-in role and its scope; both empty for a user without a role."""

    role: str = ""
    place: str = ""
    # A scope that is archived: there and below nobody has anything, and no role given there counts.
    archived: str = ""

    def __str__(self) -> str:
        return f"{self.role} at {self.place}" if self.role else "nobody"

    def has(self, permission: str, at: str) -> bool:
        """Whether the role grants it there: at its own place and below; to members (R080) above too."""
        if permission == ALWAYS_GRANTED:
            return self.is_member(at)
        return permission in GRANTED.get(self.role, ()) and self.reaches(at)

    def reaches(self, at: str) -> bool:
        """Return whether the role applies at this place."""
        return bool(self.role) and _covers(self.place, at) and self._is_alive(at)

    def has_anywhere(self, permission: str) -> bool:
        return self.has(permission, self.place)

    def is_member(self, at: str) -> bool:
        is_near = _covers(self.place, at) or _covers(at, self.place)
        return bool(self.role) and is_near and self._is_alive(at) and self._is_alive(self.place)

    def _is_alive(self, at: str) -> bool:
        return not self.archived or not _covers(self.archived, at)


def _covers(place: str, at: str) -> bool:
    return f"{at}/".startswith(f"{place}/")


NOBODY = Standing()
ADMIN = Standing("account_admin", ACCOUNT)
STRANGER = Standing("project_admin", ELSEWHERE)
EVERY_STANDING = (
    *(Standing(role, place) for role in GRANTED for place in PLACES),
    STRANGER,
    NOBODY,
)


@dataclass(frozen=True)
class Needs:
    """One permission on one thing: 404 without sight of it, 403 without the permission, else `done`."""

    permission: str
    done: int = 200
    at: str = HERE
    # What is needed besides; without it the answer is 403.
    also: tuple[str, ...] = ()
    # What shows that the thing is there, where it is not the permission to view the like of it.
    seen_by: str = ""
    # The answer to users who can view the object but lack the permission.
    refused: int = FORBIDDEN
    # Where the permission is needed, if not where the thing is.
    granted_at: str = ""

    def status(self, standing: Standing) -> int:
        if standing.has(self.permission, self.granted_at or self.at) and all(
            standing.has(other, self.at) for other in self.also
        ):
            return self.done
        return self.refused if self.shows(standing) else MISSING

    def shows(self, standing: Standing) -> bool:
        seen_by = self.seen_by or get_view_permission(self.permission)
        return standing.has(seen_by, self.at) or standing.has(self.permission, self.at)


@dataclass(frozen=True)
class Belongs:
    """To belong to a scope in any way, from above or from below."""

    at: str = HERE
    done: int = 200

    def status(self, standing: Standing) -> int:
        return self.done if standing.is_member(self.at) else MISSING

    def shows(self, standing: Standing) -> bool:
        return standing.is_member(self.at)


@dataclass(frozen=True)
class Lists:
    """A list for all signed-in users, filtered by `permission` or any of the `others`."""

    permission: str
    done: int = 200
    # What tells that the world's thing is among what is listed; "" where it is filtered out.
    sign: str = CANARY
    others: tuple[str, ...] = ()

    def status(self, standing: Standing) -> int:
        return self.done

    def shows(self, standing: Standing) -> bool:
        return any(standing.has(permission, HERE) for permission in (self.permission, *self.others))


@dataclass(frozen=True)
class Anywhere:
    """A page to make something, for whoever may make it in any scope."""

    permission: str
    done: int = 200

    def status(self, standing: Standing) -> int:
        return self.done if standing.has_anywhere(self.permission) else FORBIDDEN

    def shows(self, standing: Standing) -> bool:
        return standing.has_anywhere(self.permission)


@dataclass(frozen=True)
class Makes:
    """Creation in this scope; users with access elsewhere only get a validation error."""

    permission: str
    done: int = 302

    def status(self, standing: Standing) -> int:
        if standing.has(self.permission, HERE):
            return self.done
        return 400 if standing.has_anywhere(self.permission) else FORBIDDEN

    def shows(self, standing: Standing) -> bool:
        return standing.has_anywhere(self.permission)


@dataclass(frozen=True)
class Saves:
    """Saving of a text; users who cannot view it are offered a new one if they may create one."""

    permission: str
    offered: int

    def status(self, standing: Standing) -> int:
        if self.shows(standing):
            return 302 if standing.has(self.permission, HERE) else FORBIDDEN
        return self.offered if standing.has_anywhere(self.permission) else FORBIDDEN

    def shows(self, standing: Standing) -> bool:
        return standing.has(get_view_permission(self.permission), HERE)


@dataclass(frozen=True)
class SignedIn:
    """Access for every signed-in user."""

    done: int = 200

    def status(self, standing: Standing) -> int:
        return self.done

    def shows(self, standing: Standing) -> bool:
        return bool(standing.role)


@dataclass(frozen=True)
class Owner:
    """Access for one person, the world's member, whatever the roles of others."""

    done: int = 200

    def status(self, standing: Standing) -> int:
        return self.done if standing.place == ACCOUNT and standing.role == ADMIN.role else MISSING

    def shows(self, standing: Standing) -> bool:
        return self.status(standing) == self.done


@dataclass(frozen=True)
class Open:
    """Access for everybody, signed in or not."""

    done: int = 200
    anonymous: int = 200

    def status(self, standing: Standing) -> int:
        return self.done

    def shows(self, standing: Standing) -> bool:
        return False


Need = Needs | Belongs | Lists | Anywhere | Makes | Saves | SignedIn | Owner | Open


# Between these three only what concerns an organization or the account differs.
ADMINS = ("account_admin", "organization_admin", "project_admin")


def select_standings(need: Need, turn: int) -> tuple[Standing, ...]:
    """Return the standings that test a need best; the others would repeat the same answer.

    Here every role is asked, for a wrong permission shows with some role only, and of roles that are all but
    the same another one in each `turn`. Next door it is the mightiest: whatever gets past would get past with
    it. From above, where only inheritance is left to see, it is one who may or may not, from another place in
    each `turn`. The gate asks one of the roles with the same answer, and either from above or next door.
    """
    if isinstance(need, SignedIn | Open):
        return NOBODY, STRANGER, Standing("viewer", HERE), ADMIN
    standings: list[Standing] = []
    for place in (HERE, ORGANIZATION if turn % 2 else ACCOUNT):
        groups: dict[tuple[bool, int], list[Standing]] = {}
        for role in GRANTED:
            standing = Standing(role, place)
            groups.setdefault((role in ADMINS or place != HERE, need.status(standing)), []).append(standing)
        some = [several[turn % len(several)] for (is_alike, _), several in groups.items() if is_alike]
        other_standings = [
            candidate
            for (is_alike, _), several in groups.items()
            if not is_alike
            for candidate in (several if is_thorough() else several[turn % len(several) :][:1])
        ]
        if place != HERE and not is_thorough() and turn // 4 % 2:
            continue
        standings += [*some, *other_standings] if place == HERE else some[turn // 2 % 2 :][:1] or some[:1]
    outside = (Standing("account_admin", SIBLING), STRANGER, NOBODY)[turn % 3]
    owner = (ADMIN,) if isinstance(need, Owner) else ()
    is_outside_asked = is_thorough() or turn // 4 % 2
    return (*standings, *owner, *((outside,) if is_outside_asked else ()))
