"""HashiCorp Vault: version 2 of its key-value engine, over its HTTP API."""

import re
from collections.abc import Iterator, Mapping

from aws.caller import Caller
from connectors.models import Connector
from connectors.secret_managers.base import SecretManager, SecretReference, SecretUnreadable, register_manager
from connectors.secret_managers.vault_client import VaultClient, VaultDenial, VaultRefusal
from connectors.specs.base import build_spec_problem
from connectors.specs.vault import has_relative_part

_PATH = re.compile(r"[^\x00-\x1f\x7f?#%\\]{1,1024}\Z")
_VERSION = re.compile(r"[1-9]\d{0,8}\Z", re.ASCII)


@register_manager
class Vault(SecretManager):
    """Secrets of a KV 2 engine: the path below its mount, a key, and a version number."""

    name = "Vault"
    title = "Vault"
    connector_kind = Connector.Kind.VAULT

    def find_path_problem(self, path: str) -> str:
        if not _PATH.match(path) or has_relative_part(path) or path != path.strip("/"):
            return "Enter the path below the mount, such as prod/db, without ? # % \\ and empty parts."
        return ""

    def find_version_problem(self, version: str) -> str:
        return "" if _VERSION.match(version) else "Enter the number of a version."

    def find_problems(self, reference: SecretReference) -> Iterator[dict[str, str]]:
        """Return the problems of a reference; it needs a key, because logs hide single values."""
        yield from super().find_problems(reference)
        if not reference.key:
            yield build_spec_problem("key", "Enter the key: a secret of Vault is a set of keys and values.")

    def fetch(self, reference: SecretReference, caller: Caller | None = None) -> str:
        client = VaultClient(reference.connector, caller)
        mount = client.spec.mount.strip("/")
        try:
            response = client.request(
                lambda vault: vault.secrets.kv.v2.read_secret_version(
                    reference.path,
                    version=int(reference.version) if reference.version else None,
                    mount_point=mount,
                    raise_on_deleted_version=True,
                )
            )
        except VaultDenial as denial:
            policy = f'path "{mount}/data/{reference.path}" {{ capabilities = ["read"] }}'
            fix = f"Add this to a policy of the login: {policy}. Or the token has expired: renew it."
            raise self.describe_failure(reference, denial.reason, fix) from denial
        except VaultRefusal as refusal:
            raise self.describe_failure(reference, refusal.reason, refusal.fix) from refusal
        fields = _get_mapping(_get_mapping(response, "data"), "data")
        if fields is None:
            fix = f"Check the address, and that {mount} is a key-value engine of version 2."
            raise self.describe_failure(reference, "the answer is not that of such an engine", fix)
        return self.select_field(reference, fields)


def check_login(connector: Connector, caller: Caller | None = None) -> str:
    """Log in, and return a sentence that names the login. Raises `SecretUnreadable`.

    `caller` makes the requests in place of this process.
    """
    client = VaultClient(connector, caller)
    try:
        response = client.request(lambda vault: vault.auth.token.lookup_self())
    except VaultRefusal as refusal:
        raise SecretUnreadable(f"Vault: {refusal.reason}. {refusal.fix}") from refusal
    token = _get_mapping(response, "data")
    if token is None:
        raise SecretUnreadable(f"There is no Vault at {client.spec.url}. Check the address.")
    policies = token.get("policies")
    names = ", ".join(map(str, policies[:10])) if isinstance(policies, list) else ""
    name = str(token.get("display_name", ""))[:100]
    return f"Logged in to {client.spec.url} as {name}{f', with the policies {names}' if names else ''}."


def _get_mapping(document: object, key: str) -> dict[str, object] | None:
    """Return a JSON object inside an answer, or None; a proxy may answer with anything."""
    inner = document.get(key) if isinstance(document, Mapping) else None
    return dict(inner) if isinstance(inner, Mapping) else None
