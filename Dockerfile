# One image for every role: docker run slipway web|worker|beat|migrate
# And the agent's own, much smaller: docker build --target delegate -t slipway-delegate .
FROM python:3.12-slim-bookworm AS build
COPY requirements.lock /tmp/requirements.lock
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements.lock

FROM python:3.12-slim-bookworm AS delegate-build
COPY delegates/agent/requirements.lock /tmp/requirements.lock
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements.lock

FROM python:3.12-slim-bookworm AS delegate
# git and ssh fetch manifests; what else scripts need, a configuration's script or an image of one's own brings.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/slipway-delegate --create-home slipway \
    # The users that tasks run as: ssh runs for nobody without a name.
    && seq 200000 200999 | sed 's|.*|slipway-task-&:x:&:&:a task of Slipway:/nonexistent:/usr/sbin/nologin|' >> /etc/passwd
COPY --from=delegate-build /opt/venv /opt/venv
COPY --chown=root:root aws /srv/slipway/aws
COPY --chown=root:root guards /srv/slipway/guards
COPY --chown=root:root delegates/__init__.py /srv/slipway/delegates/__init__.py
COPY --chown=root:root delegates/agent /srv/slipway/delegates/agent
COPY --chown=root:root ops/slipway-delegate /srv/slipway/ops/slipway-delegate
RUN ln -s /srv/slipway/ops/slipway-delegate /opt/venv/bin/slipway-delegate
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SLIPWAY_DELEGATE_HOME=/var/lib/slipway-delegate \
    SLIPWAY_DELEGATE_PORT=8080
WORKDIR /var/lib/slipway-delegate
# The agent is root so that it can give each task a user of its own; no task of the manager runs as root. With another
# user (--user slipway) namespaces keep tasks apart where the kernel allows them, and else nothing does: docs/explanation/delegate-isolation.md.
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/api/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["slipway-delegate"]

FROM python:3.12-slim-bookworm AS docs
COPY requirements-dev.lock /tmp/requirements.lock
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements.lock
COPY . /srv/slipway
WORKDIR /srv/slipway
RUN SLIPWAY_MODE=embedded SLIPWAY_HOME=/tmp/docs /opt/venv/bin/python manage.py build_docs

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /var/lib/slipway --create-home slipway
COPY --from=build /opt/venv /opt/venv
COPY --chown=root:root . /srv/slipway
COPY --chown=root:root --from=docs /srv/slipway/site /srv/slipway/site
WORKDIR /srv/slipway
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SLIPWAY_MODE=production \
    SLIPWAY_HOME=/var/lib/slipway
# Hashed static files are part of the image; the values only satisfy the settings while they are collected.
RUN SLIPWAY_MODE=embedded SLIPWAY_HOME=/tmp/collect python manage.py collectstatic --no-input \
    && mv /tmp/collect/static /var/lib/slipway/static && rm -rf /tmp/collect \
    && chown -R slipway:slipway /var/lib/slipway
USER slipway
EXPOSE 8000
ENTRYPOINT ["/srv/slipway/ops/role.sh"]
CMD ["web"]
