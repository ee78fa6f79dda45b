"""Client for STS: identity behind credentials."""

from dataclasses import dataclass

from aws.caller import Caller
from aws.paging import require_member


@dataclass(frozen=True)
class AwsIdentity:
    """The account and the principal behind some credentials."""

    account_id: str
    arn: str


@dataclass(frozen=True)
class StsClient:
    """Speaks STS through a caller."""

    caller: Caller

    def get_identity(self) -> AwsIdentity:
        """Who AWS takes us for; needs no permission at all."""
        response = self.caller.call("sts", "GetCallerIdentity", {})
        return AwsIdentity(
            require_member(response, "Account", "sts", "GetCallerIdentity"), response.get("Arn", "")
        )

    def get_account_id(self) -> str:
        """The account id."""
        return self.get_identity().account_id
