"""The STS verbs: who the credentials are."""

from dataclasses import dataclass

from aws.caller import Caller
from aws.paging import member_of


@dataclass(frozen=True)
class Identity:
    """The account and the principal behind some credentials."""

    account_id: str
    arn: str


@dataclass(frozen=True)
class Sts:
    """Speaks STS through a caller."""

    caller: Caller

    def identity(self) -> Identity:
        """Who AWS takes us for; needs no permission at all."""
        answer = self.caller.call("sts", "GetCallerIdentity", {})
        return Identity(member_of(answer, "Account", "sts", "GetCallerIdentity"), answer.get("Arn", ""))

    def caller_identity(self) -> str:
        """The account id."""
        return self.identity().account_id
