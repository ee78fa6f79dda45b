"""AWS Secrets Manager, through an AWS connector."""

import re

from aws.caller import Caller
from connectors.models import Connector
from connectors.secret_managers.aws_reads import read_aws_secret
from connectors.secret_managers.base import SecretManager, SecretReference, register_manager

_NAME = re.compile(r"[\w/+=.@-]{1,512}\Z", re.ASCII)
_ARN = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]{1,519}\Z", re.ASCII)
# Version ids are UUIDs; anything else is a staging label.
_VERSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)


@register_manager
class AwsSecretsManager(SecretManager):
    """Secrets of AWS Secrets Manager: name or ARN, and a version id or staging label."""

    name = "AwsSecretsManager"
    title = "AWS Secrets Manager"
    connector_kind = Connector.Kind.AWS

    def find_path_problem(self, path: str) -> str:
        if _NAME.match(path) or _ARN.match(path):
            return ""
        return "Enter the name or the ARN of a secret: letters, digits and / _ + = . @ -."

    def find_version_problem(self, version: str) -> str:
        return ""

    def fetch(self, reference: SecretReference, caller: Caller | None = None) -> str:
        params = {"SecretId": reference.path}
        if reference.version:
            name = "VersionId" if _VERSION_ID.match(reference.version) else "VersionStage"
            params[name] = reference.version
        response = read_aws_secret(self, reference, ("secretsmanager", "GetSecretValue"), params, caller)
        text = response.get("SecretString")
        if not isinstance(text, str):
            raise self.describe_failure(
                reference, "the secret is binary", "Store it as text, for example Base64."
            )
        return self.select_key(reference, text)
