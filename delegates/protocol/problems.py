"""Refusals of the agent protocol, each with its code and a sentence for the operator."""

from typing import Any

from web.http.problems import Conflict, Problem


class SessionInvalid(Problem):
    """The session is unknown, over, or was replaced by a newer one: the agent registers again."""

    status = 401
    code = "session_invalid"


class TokenUnknown(Problem):
    """Error raised for an unknown token."""

    status = 401
    code = "token_unknown"


class TokenMalformed(Problem):
    """Error raised for a text that is not a delegate token."""

    status = 401
    code = "token_malformed"


class TokenExpired(Problem):
    """The token's time is over."""

    status = 401
    code = "token_expired"


class TokenRevoked(Problem):
    """Error raised for a revoked token."""

    status = 403
    code = "token_revoked"


class WrongAccount(Problem):
    """The agent means another installation."""

    status = 403
    code = "wrong_account"


class DelegateRejected(Problem):
    """Error raised for a rejected delegate."""

    status = 403
    code = "delegate_rejected"


class DelegateDisabled(Problem):
    """Error raised for a disabled delegate."""

    status = 403
    code = "delegate_disabled"


class ScopeArchived(Problem):
    """Error raised for an archived project or organization, which may be restored."""

    status = 403
    code = "scope_archived"


class NameTaken(Problem):
    """The name belongs to something that no agent may be."""

    status = 403
    code = "name_taken"


class SignatureWrong(Problem):
    """Error raised for an invalid signature of the agent's public key."""

    status = 403
    code = "signature_wrong"


class InstanceTaken(Problem):
    """Error raised while another live process is this instance; it ends when that process has stopped."""

    status = 409
    code = "instance_taken"

    def __init__(
        self, detail: str, *, retry_after: int, instance_id: int, delegate_id: int, reason: str
    ) -> None:
        super().__init__(detail)
        self.retry_after = retry_after
        self.instance_id, self.delegate_id, self.reason = instance_id, delegate_id, reason


class NotEncrypted(Problem):
    """Tokens and secrets do not travel in the clear."""

    status = 403
    code = "not_encrypted"


class TooOften(Problem):
    """Error raised above a rate limit; the agent waits."""

    status = 429
    code = "too_often"

    def __init__(self, detail: str, *, retry_after: int) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class NoSuchTask(Problem):
    """Error raised for a task that is missing or was never assigned to this instance."""

    status = 404
    code = "not_found"


class StaleFence(Conflict):
    """Error raised for an old fencing token; the report is stored and changes nothing."""

    code = "stale_fence"


class TaskAnswered(Conflict):
    """The task has had its answer: its log is closed."""

    code = "task_answered"


class LogThrottled(Problem):
    """Error raised above the rate limit of a log; the agent sends the same lines again later."""

    status = 429
    code = "log_throttled"
    # A message is smaller than the rate of one second.
    retry_after = 1


class LogGap(Conflict):
    """Error raised for missing log lines; `more` has the next expected number."""

    code = "log_gap"

    def __init__(self, detail: str, *, expected: int) -> None:
        super().__init__(detail)
        self.more: dict[str, Any] = {"next": expected}
