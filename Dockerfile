# Two images: slipway (roles web, worker, beat, migrate, manage) and slipway-delegate.
#   make image                       builds both for this machine
#   make push REGISTRY=…             builds both for amd64 and arm64, and pushes them
# All steps are in deploy/images/install.sh, which a test runs too.
ARG BASE=python:3.12.14-slim-bookworm@sha256:0f5b26b9518d002b6173fd61daad821fa340635ebfec5bba471013f9ca114579

FROM ${BASE} AS slipway-build
COPY deploy/images /build/deploy/images
COPY requirements.lock /build/
RUN /build/deploy/images/install.sh python slipway /
COPY . /build
RUN /build/deploy/images/install.sh sources slipway / && /build/deploy/images/install.sh static slipway /

FROM ${BASE} AS docs
COPY requirements-dev.lock /tmp/
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements-dev.lock
COPY . /srv/slipway
WORKDIR /srv/slipway
RUN SLIPWAY_MODE=embedded SLIPWAY_HOME=/tmp/docs /opt/venv/bin/python manage.py build_docs

FROM ${BASE} AS delegate-build
COPY deploy/images /build/deploy/images
COPY delegates/agent/requirements.lock /build/delegates/agent/
RUN /build/deploy/images/install.sh python delegate /
COPY . /build
RUN /build/deploy/images/install.sh sources delegate /

FROM ${BASE} AS delegate
ARG VERSION=unknown
LABEL org.opencontainers.image.title="slipway-delegate" org.opencontainers.image.version="${VERSION}"
COPY deploy/images /build/deploy/images
RUN /build/deploy/images/install.sh packages delegate && /build/deploy/images/install.sh users delegate && rm -rf /build
COPY --from=delegate-build /opt/venv /opt/venv
COPY --from=delegate-build /srv/slipway /srv/slipway
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

FROM ${BASE} AS slipway
ARG VERSION=unknown
LABEL org.opencontainers.image.title="slipway" org.opencontainers.image.version="${VERSION}"
COPY deploy/images /build/deploy/images
RUN /build/deploy/images/install.sh packages slipway && /build/deploy/images/install.sh users slipway && rm -rf /build
COPY --from=slipway-build /opt/venv /opt/venv
COPY --from=slipway-build /srv/slipway /srv/slipway
COPY --from=docs /srv/slipway/site /srv/slipway/site
COPY --from=slipway-build --chown=slipway:slipway /var/lib/slipway /var/lib/slipway
WORKDIR /srv/slipway
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SLIPWAY_MODE=production \
    SLIPWAY_HOME=/var/lib/slipway
USER slipway
EXPOSE 8000
# Web processes answer; other roles have no port, and Slipway itself reports those that are silent.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["/srv/slipway/ops/role.sh", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/srv/slipway/ops/role.sh"]
CMD ["web"]
