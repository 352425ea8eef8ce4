# The gateway in a container: slim, not root, and content with a read-only file system.
#   docker build -t keff .
#   docker run --read-only --tmpfs /tmp -v keff-state:/var/lib/keff -p 8080:8080 -e KEFF_TOKEN=... keff \
#     --upstream http://vllm:8000/v1 --state /var/lib/keff/drift.sqlite
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/keff \
 && /opt/keff/bin/pip install --no-cache-dir --disable-pip-version-check '.[serve,otel]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin keff \
 && install -d -o keff -g keff /var/lib/keff
COPY --from=build /opt/keff /opt/keff
# Only the name of a variable is set here, no token.
# hadolint ignore=DL3064
ENV PATH=/opt/keff/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    KEFF_HOST=0.0.0.0 KEFF_PORT=8080 KEFF_TOKEN_ENV=KEFF_TOKEN
USER 10001:10001
VOLUME /var/lib/keff
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ['KEFF_PORT']}/healthz\", timeout=2)"]
ENTRYPOINT ["keff", "serve"]
