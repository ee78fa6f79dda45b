"""Every named page of signing in and of one's own account, with all that can be asked of it."""

from tests.api.asks import EVERYBODY, PAGE, Ask, Row, Statuses, get, only

AWAY: Statuses = (302,) * 5
NOTHING_THERE: Statuses = (302, 404, 404, 404, 404)
# What is posted lacks everything.
INCOMPLETE: Statuses = (302, 400, 400, 400, 400)


def posting(statuses: Statuses) -> Ask:
    return Ask("post", statuses, is_form=True)


PEOPLE: dict[str, Row] = {
    "second-step": only(AWAY),
    "single-sign-on": only((404, 302, 302, 302, 302)),
    "single-sign-on-callback": only((404,) * 5),
    "forgotten-password": only(EVERYBODY),
    "new-password": only((403,) * 5),
    "new-password-link": only(AWAY, lambda world: {"number": "MQ", "token": "no-token"}),
    "account": Row((get(PAGE), posting(AWAY))),
    "change-password": Row((get(PAGE), posting(INCOMPLETE))),
    "second-factor": Row((get(PAGE), posting(INCOMPLETE))),
    "turn-off-second-factor": Row((posting(AWAY),)),
    "renew-recovery-codes": Row((posting(AWAY),)),
    "sessions": only(PAGE),
    "end-sessions": Row((posting(AWAY),)),
    "end-session": Row((posting(NOTHING_THERE),), lambda world: {"pk": 0}),
    "link-sign-on": Row((posting(NOTHING_THERE),)),
    "unlink-sign-on": Row((posting(AWAY),)),
    "admin-change-password": only(AWAY),
}
