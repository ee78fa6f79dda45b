#!/bin/sh
# What a container does: one role each, in the foreground, so that signals reach the program itself.
set -eu
case "${1:-web}" in
  web)
    # A proxy that uses a connection which this side closes answers 502: idle ones live longer here than there (120 s).
    # Started again where it no longer answers: neither Docker nor compose does that for a container that still runs.
    exec python -m ops.supervision.liveness "${PORT:-8000}" \
      python -W 'ignore:StreamingHttpResponse must consume' -m uvicorn config.asgi:application --host "${HOST:-0.0.0.0}" --port "${PORT:-8000}" \
      --ws websockets-sansio --ws-per-message-deflate false --ws-max-size 65536 \
      --lifespan on --no-server-header --no-access-log --timeout-graceful-shutdown 10 \
      --timeout-keep-alive 125
    ;;
  worker)
    if [ "${SLIPWAY_WORKER_METRICS_PORT:-0}" != 0 ]; then
      # The children of the worker count in files of this folder, and its main process serves the sums.
      export PROMETHEUS_MULTIPROC_DIR="${TMPDIR:-/tmp}/slipway-metrics-$$"
      rm -rf "$PROMETHEUS_MULTIPROC_DIR" && mkdir -p "$PROMETHEUS_MULTIPROC_DIR"
    fi
    exec python -m celery --quiet -A config worker --loglevel "${LOG_LEVEL:-INFO}" --without-gossip --without-mingle
    ;;
  beat)
    # What it keeps is when it last asked; losing that costs nothing.
    exec python -m celery --quiet -A config beat --loglevel "${LOG_LEVEL:-INFO}" --pidfile "" --schedule "${TMPDIR:-/tmp}/beat-schedule"
    ;;
  migrate)
    exec python manage.py migrate --no-input
    ;;
  manage)
    shift
    exec python manage.py "$@"
    ;;
  health)
    # Whether this container works. Only a web process has a port; the others are alive while they run.
    if tr '\0' ' ' < /proc/1/cmdline | grep -q ops.supervision.liveness; then
      exec python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:${PORT:-8000}/healthz', timeout=4)"
    fi
    ;;
  *)
    echo "There is no role $1. Use web, worker, beat, migrate, health, or manage with a command." >&2
    exit 2
    ;;
esac
