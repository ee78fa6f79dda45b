"""AWS Systems Manager Parameter Store, through an AWS connector."""

import re

from aws.caller import Caller
from connectors.models import Connector
from connectors.secret_managers.aws_reads import read_aws_secret
from connectors.secret_managers.base import SecretManager, SecretReference, register_manager

_NAME = re.compile(r"/?[\w.-]+(/[\w.-]+){0,14}\Z", re.ASCII)
_ARN = re.compile(r"arn:aws[a-z-]*:ssm:[a-z0-9-]+:\d{12}:parameter/[\w./-]{1,1000}\Z", re.ASCII)
_VERSION = re.compile(r"[1-9]\d{0,9}\Z|(?!aws|ssm)[A-Za-z_][\w.-]{0,99}\Z", re.ASCII)


@register_manager
class AwsParameterStore(SecretManager):
    """Parameters of Systems Manager, decrypted by it: name or ARN, and a version or label."""

    name = "AwsParameterStore"
    title = "AWS Systems Manager Parameter Store"
    connector_kind = Connector.Kind.AWS

    def find_path_problem(self, path: str) -> str:
        if len(path) <= 1011 and (_NAME.match(path) or _ARN.match(path)):
            return ""
        return "Enter the name or the ARN of a parameter, such as /prod/db/password."

    def find_version_problem(self, version: str) -> str:
        return "" if _VERSION.match(version) else "Enter the number or the label of a version."

    def fetch(self, reference: SecretReference, caller: Caller | None = None) -> str:
        name = f"{reference.path}:{reference.version}" if reference.version else reference.path
        response = read_aws_secret(
            self, reference, ("ssm", "GetParameter"), {"Name": name, "WithDecryption": True}, caller
        )
        parameter = response.get("Parameter") or {}
        if parameter.get("Type") == "StringList":
            raise self.describe_failure(reference, "it is a list", "Use a parameter of type SecureString.")
        return self.select_key(reference, str(parameter.get("Value", "")))
