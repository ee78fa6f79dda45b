#!/bin/sh
# Installs or upgrades the delegate of this folder from a wheel: sh install.sh slipway_delegate-VERSION-py3-none-any.whl
# With SLIPWAY_DELEGATE_ROOT=FOLDER everything goes below a folder, without a user and without systemd.
set -eu
wheel=${1:?Name the wheel of the delegate.}
root=${SLIPWAY_DELEGATE_ROOT:-}
here=$(cd "$(dirname "$0")" && pwd)
settings=$root/etc/slipway-delegate home=$root/var/lib/slipway-delegate program=$root/opt/slipway-delegate

if [ -z "$root" ] && ! id slipway-delegate >/dev/null 2>&1; then
  useradd --system --home-dir "$home" --shell /usr/sbin/nologin slipway-delegate
fi
if [ -z "$root" ] && systemctl is-active --quiet slipway-delegate; then
  # Its tasks end with the files that they began with.
  systemctl stop slipway-delegate
  # Also if a line below fails.
  trap 'systemctl start slipway-delegate' EXIT
fi
[ -x "$program/bin/python" ] || "${PYTHON:-python3}" -m venv "$program"
"$program/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "$wheel"

mkdir -p "$settings" "$home"
chmod 750 "$settings" "$home"
for file in delegate.env delegate-token.txt; do
  (umask 077 && cp "$here/$file" "$settings/$file.new")
  chmod 600 "$settings/$file.new"
  mv "$settings/$file.new" "$settings/$file"
done
"$program/bin/slipway-delegate" --version
if [ -n "$root" ]; then
  echo "Installed below $root."
  exit 0
fi
chown -R slipway-delegate "$settings" "$home"
cp "$here/slipway-delegate.service" /etc/systemd/system/slipway-delegate.service
systemctl daemon-reload
systemctl enable slipway-delegate
systemctl restart slipway-delegate
