"""Every named page of signing in and of one's own account, with all that can be asked of it."""

from tests.api.requests import Ask, Row, allow_get, get
from tests.api.required_access import Open, SignedIn

AWAY = Open(302, anonymous=302)


def build_post(done: int) -> Ask:
    """Return a POST that every signed-in user may send."""
    return Ask("post", SignedIn(done), is_form=True)


PEOPLE: dict[str, Row] = {
    "second-step": allow_get(AWAY),
    # No password was entered.
    "second-step-options": Row((Ask("post", Open(400, anonymous=400), is_form=True),)),
    "passkey-sign-in": Row((Ask("post", Open(302, anonymous=400), is_form=True),)),
    "passkey-sign-in-options": Row((Ask("post", Open(), is_form=True),)),
    # No provider is set.
    "single-sign-on": allow_get(Open(302, anonymous=404)),
    "single-sign-on-callback": allow_get(Open(404, anonymous=404)),
    "link-sign-on": Row((get(SignedIn(404)), build_post(404))),
    "unlink-sign-on": Row((build_post(302),)),
    "forgotten-password": allow_get(Open()),
    # No link was followed.
    "new-password": allow_get(Open(403, anonymous=403)),
    # Of nobody.
    "new-password-link": allow_get(
        Open(403, anonymous=403), lambda world: {"number": "A", "token": "no-token"}
    ),
    "account": Row((get(SignedIn()), build_post(302))),
    # What is posted lacks everything.
    "change-password": Row((get(SignedIn()), build_post(400))),
    "second-factor": Row((get(SignedIn()), build_post(400))),
    "turn-off-second-factor": Row((build_post(302),)),
    # Without a second factor there is nothing to replace.
    "renew-recovery-codes": Row((get(SignedIn(302)), build_post(302))),
    "passkeys": allow_get(SignedIn()),
    # The browser sent none.
    "new-passkey": Row((get(SignedIn()), build_post(400))),
    "new-passkey-options": Row((build_post(400),)),
    "passkey-proof-options": Row((build_post(200),)),
    "rename-passkey": Row((get(SignedIn(404)), build_post(404)), lambda world: {"pk": 0}),
    "remove-passkey": Row((get(SignedIn(404)), build_post(404)), lambda world: {"pk": 0}),
    "sessions": allow_get(SignedIn()),
    "end-sessions": Row((build_post(302),)),
    "end-session": Row((build_post(404),), lambda world: {"pk": 0}),
    "admin-change-password": allow_get(AWAY),
}
