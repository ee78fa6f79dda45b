#!/bin/sh
# Builds slipway and slipway-delegate for several platforms, pushes them to a registry and prints their digests.
#
#   push.sh REGISTRY VERSION PLATFORMS
#
# REGISTRY is a host, with a path if wanted: 123456789012.dkr.ecr.eu-west-1.amazonaws.com, ghcr.io/acme. For Amazon ECR it
# signs in with the AWS CLI, and creates the two repositories if they are missing, with tags that cannot be overwritten.
set -eu
registry=${1:-} version=${2:?name a version} platforms=${3:-linux/amd64,linux/arm64}
if [ -z "$registry" ]; then
  echo "Name a registry: make push REGISTRY=123456789012.dkr.ecr.eu-west-1.amazonaws.com" >&2
  exit 2
fi
source=$(cd "$(dirname "$0")/../.." && pwd)
host=${registry%%/*}

case "$host" in
  *.dkr.ecr.*.amazonaws.com*)
    region=${host#*.dkr.ecr.}
    region=${region%%.amazonaws.com*}
    aws ecr get-login-password --region "$region" | docker login --username AWS --password-stdin "$host"
    path=${registry#"$host"}
    path=${path#/}
    for image in slipway slipway-delegate; do
      name=${path:+$path/}$image
      aws ecr describe-repositories --region "$region" --repository-names "$name" >/dev/null 2>&1 ||
        aws ecr create-repository --region "$region" --repository-name "$name" \
          --image-tag-mutability IMMUTABLE --image-scanning-configuration scanOnPush=true >/dev/null
    done
    ;;
esac

digests=$(mktemp -d)
trap 'rm -rf "$digests"' EXIT
for image in slipway slipway-delegate; do
  target=$image
  [ "$image" = slipway-delegate ] && target=delegate
  docker buildx build --target "$target" --platform "$platforms" --build-arg "VERSION=$version" \
    --tag "$registry/$image:$version" --metadata-file "$digests/$image.json" --push "$source"
  digest=$(sed -n 's/.*"containerimage.digest": *"\([^"]*\)".*/\1/p' "$digests/$image.json" | head -1)
  echo "$registry/$image:$version@$digest"
done
