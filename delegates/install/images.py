"""Image references of delegates: registry, version, and the mirror of an image in Amazon ECR."""

import re
from dataclasses import dataclass

_REFERENCE = re.compile(
    r"(?:(?P<registry>[^/]+)/)?(?P<repository>[^:@]+)(?::(?P<tag>[^@]+))?(?:@(?P<digest>.+))?\Z"
)
_ECR_HOST = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)\Z"
)
_DIGEST_CHARACTERS = 12


@dataclass(frozen=True)
class ImageReference:
    """Parts of an image reference; absent parts are empty."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def is_local(self) -> bool:
        """Return whether only the machine that built the image has it: no registry and no namespace."""
        return not self.registry and "/" not in self.repository

    @property
    def is_mutable(self) -> bool:
        """Return whether the name may mean another release tomorrow: no digest, and no version as tag."""
        return not self.digest and not any(character.isdigit() for character in self.tag)

    @property
    def ecr_account(self) -> str:
        """Return the AWS account of a private ECR registry; empty for any other registry."""
        match = _ECR_HOST.match(self.registry)
        return match["account"] if match else ""

    def with_tag(self, tag: str) -> str:
        """Return the reference with another tag; a digest, which means one image for ever, is left out."""
        return f"{self.registry}/{self.repository}:{tag}" if self.registry else f"{self.repository}:{tag}"

    def build_mirror(self, registry: str) -> str:
        """Return the reference of the mirror; a digest becomes a tag, because a push makes another one."""
        digest = self.digest.partition(":")[2][:_DIGEST_CHARACTERS]
        return f"{registry}/{self.repository}:{self.tag or digest or 'latest'}"


def parse_image(reference: str) -> ImageReference:
    """Return the parts of a reference, with Docker's rule: a registry has a dot, a port or is localhost."""
    match = _REFERENCE.match(reference)
    if match is None:
        return ImageReference("", reference, "", "")
    registry, repository = match["registry"] or "", match["repository"]
    if registry and not re.search(r"[.:]|^localhost$", registry):
        registry, repository = "", f"{registry}/{repository}"
    return ImageReference(registry, repository, match["tag"] or "", match["digest"] or "")


def build_ecr_registry(account: str, region: str) -> str:
    """Return the host of an account's private registry in a region."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{domain}"
