"""Update of a user's own name and e-mail address."""

from django.db import transaction

from rbac import audit
from rbac.models import User

PROFILE_FIELDS = ("first_name", "last_name", "email")


@transaction.atomic
def update_profile(*, actor: User, first_name: str, last_name: str, email: str) -> None:
    """Update the profile of `actor`."""
    before = {name: getattr(actor, name) for name in PROFILE_FIELDS}
    after = {"first_name": first_name, "last_name": last_name, "email": email}
    changed = {name for name in PROFILE_FIELDS if before[name] != after[name]}
    if not changed:
        return
    for name in changed:
        setattr(actor, name, after[name])
    actor.save(update_fields=sorted(changed))
    audit.record_audit_entry(
        actor=actor,
        action="user.update",
        thing=actor,
        before={name: before[name] for name in sorted(changed)},
        after={name: after[name] for name in sorted(changed)},
    )
