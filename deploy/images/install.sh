#!/bin/sh
# Installs an image's content. The Dockerfile calls each step; a test calls the same steps into an empty folder.
#
#   install.sh packages IMAGE             Debian packages; as root
#   install.sh users IMAGE                the users that processes run as; as root
#   install.sh python IMAGE ROOT          ROOT/opt/venv with what the lock of IMAGE pins
#   install.sh sources IMAGE ROOT         ROOT/srv/slipway with the code of IMAGE
#   install.sh static IMAGE ROOT          collected static files, in ROOT/var/lib/slipway
#
# IMAGE is slipway or delegate. ROOT is / in the Dockerfile.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
step=${1:?name a step} image=${2:?name an image: slipway or delegate}
root=${3:-/}
root=${root%/}

case "$image" in
  slipway) lock="$source/requirements.lock" ;;
  delegate) lock="$source/delegates/agent/requirements.lock" ;;
  *) echo "There is no image $image. Use slipway or delegate." >&2; exit 2 ;;
esac

# git and ssh fetch manifests. The certificates are for both and for Python.
packages="ca-certificates git openssh-client"
# `manage backup` and `restore` use 16 for servers up to 16, and 18 for 17 and 18 (ops/backups/postgres_clients.py).
postgresql_clients="postgresql-client-16 postgresql-client-18"

# shellcheck disable=SC2086 - lists
install_packages() {
  apt-get update
  install_debian $packages
  if [ "$image" = slipway ]; then
    # Debian has one version of PostgreSQL only. The script adds the repository of its developers, and updates.
    install_debian postgresql-common
    /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y
    install_debian $postgresql_clients
  fi
  rm -rf /var/lib/apt/lists/*
}

install_debian() {
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

create_users() {
  case "$image" in
    slipway) home=/var/lib/slipway ;;
    delegate) home=/var/lib/slipway-delegate ;;
  esac
  useradd --system --uid 10001 --home-dir "$home" --create-home slipway
  if [ "$image" = delegate ]; then
    # The users that tasks run as: ssh runs for nobody without a name.
    seq 200000 200999 | sed 's|.*|slipway-task-&:x:&:&:a task of Slipway:/nonexistent:/usr/sbin/nologin|' >> /etc/passwd
  fi
}

install_python() {
  "${PYTHON:-python3}" -m venv "$root/opt/venv"
  "$root/opt/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir \
    --no-deps --require-hashes -r "$lock"
  # Nothing installs packages in a running image.
  "$root/opt/venv/bin/python" -m pip uninstall --quiet --yes pip
  if [ "$image" = delegate ]; then
    ln -sf ../../../srv/slipway/ops/slipway-delegate "$root/opt/venv/bin/slipway-delegate"
  else
    ln -sf ../../../srv/slipway/ops/slipway "$root/opt/venv/bin/slipway"
  fi
}

# Copies files and folders of the checkout, without what Python and tests leave beside them.
copy() {
  for name in "$@"; do
    mkdir -p "$root/srv/slipway/$(dirname "$name")"
    (cd "$source" && tar --create --exclude=__pycache__ --exclude='*.pyc' "$name") | tar --extract --no-same-owner --directory "$root/srv/slipway"
  done
}

copy_sources() {
  case "$image" in
    slipway)
      copy accounts aws catalog cli config connectors delegates deployments gitsync guards inventory notifications ops pipelines \
        policies rbac sandbox static steps templates web manage.py pyproject.toml
      # Only the demo, and who releases, needs these.
      (cd "$root/srv/slipway/ops" && rm -rf __main__.py demo release.py supervision/supervisor.py \
        management/commands/seed_demo.py management/commands/prepare.py)
      # A rehearsal starts the sandbox as a process of its own; nothing else does.
      rm -rf "$root/srv/slipway/sandbox/management"
      if [ -d "$source/site" ]; then copy site; fi
      ;;
    delegate)
      copy aws guards delegates/__init__.py delegates/agent ops/slipway-delegate pyproject.toml
      ;;
  esac
  chmod -R go-w "$root/srv/slipway"
}

# The values only satisfy the settings: collecting reads no database and signs nothing.
collect_static() {
  (
    cd "$root/srv/slipway"
    SLIPWAY_MODE=production SLIPWAY_HOME="$root/var/lib/slipway" PUBLIC_URL=https://build.invalid \
      DATABASE_URL=postgres://build.invalid/slipway REDIS_URL=redis://build.invalid \
      SECRET_KEY=only-while-static-files-are-collected-0123456789-abcdef \
      FIELD_ENCRYPTION_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY= \
      PYTHONDONTWRITEBYTECODE=1 "$root/opt/venv/bin/python" manage.py collectstatic --no-input --verbosity 0
  )
}

case "$step" in
  packages) install_packages ;;
  users) create_users ;;
  python) install_python ;;
  sources) copy_sources ;;
  static) collect_static ;;
  *) echo "There is no step $step. Use packages, users, python, sources or static." >&2; exit 2 ;;
esac
