# One image for every role: docker run slipway web|worker|beat|migrate
FROM python:3.12-slim-bookworm AS build
COPY requirements.lock /tmp/requirements.lock
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements.lock

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /var/lib/slipway --create-home slipway
COPY --from=build /opt/venv /opt/venv
COPY --chown=root:root . /srv/slipway
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
