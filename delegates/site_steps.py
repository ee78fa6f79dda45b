"""What to do next where a Git server, a registry or ECR refuses: one sentence, found by what was said."""

from typing import Final

from aws.errors import AwsError, Denied, NotFound
from connectors.aws_accounts import read_spec
from connectors.models import Connector
from delegates.next_steps import next_step, role_of

# Of what a program says, in small letters; the first that is found counts.
_BECAUSE: Final = (
    (
        "private address",
        "Let the connector go through a delegate in that network, or allow the network here.",
    ),
    ("no registered delegate", "Start a delegate, or give one the tags that the connector asks for."),
    (
        "permission denied (publickey",
        "Register the public half of the key at the Git server, then test again.",
    ),
    (
        "host key of",
        "Compare the fingerprint with the server's own, then accept the new key on the connector's page.",
    ),
    ("libcrypto", "The secret is no private SSH key: give the whole file, from BEGIN to END."),
    ("authentication failed", "Look whether user name and token are right and the token is not expired."),
    ("could not read username", "The server wants a login: choose user name and password."),
    ("lists no repositories", "Type the path of the image, such as library/nginx."),
    (
        "does not list its",
        "Type the path of the image, or give the connector a login that may see the catalog.",
    ),
    ("has no repository", "Look at the image path; Docker Hub's own images are library/NAME."),
    ("has no tag", "Push the tag, or choose another one."),
    ("does not show", "Give the connector a login that may read this repository, and look at the path."),
    ("too often", "Wait a few minutes; a connector with a login may ask more often."),
    ("has trouble", "Try again in a minute."),
    ("find remote ref", "Push this branch or tag, or name another one."),
    ("there is no file", "Look at the path, which counts from the top of the repository."),
    ("was not resolved", "Look at the host in the URL, and at the name servers of who asks."),
    ("not found", "Look at the URL; for the URL of an account, name a repository for the test."),
    ("wants a login", "The registry wants a login: choose user name and password."),
    ("gave no token", "Look whether user name and password are right."),
    ("accept the token", "Make a token of a user or a team there, and give it as this connector's secret."),
    ("an organization's token", "Make a token of a user or a team there: those can make runs."),
    ("terraform cloud at this", "Look at the URL: https://app.terraform.io, or that of your own server."),
    ("certificate", "Give whoever calls the certificate authority of this server, then test again."),
    ("is not the json", "Look at the URL: what answers there is no container registry."),
)


def step_after(problem: str) -> str:
    """What to do next after a site said this; nothing where no step is known."""
    said = problem.lower()
    return next((step for part, step in _BECAUSE if part in said), "")


def told_with_step(connector: Connector, error: AwsError, region: str) -> str:
    """An error of a registry or of ECR in words, and what to do next."""
    said = error.sentence.rstrip(".")
    if connector.kind != Connector.Kind.AWS:
        step = step_after(said)
    elif isinstance(error, NotFound):
        step = f"Look at the image path, and whether the repository is in {region}."
    elif isinstance(error, Denied):
        step = f"Allow {error.action} to {role_of(error.principal) or 'whom the connector stands for'}."
    else:
        step = next_step(error, read_spec(connector.spec), region).text
    return f"{said[:1].upper()}{said[1:]}. {step}".strip()
