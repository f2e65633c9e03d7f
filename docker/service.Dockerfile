# The HTTP service on processors, to be run behind a proxy (see examples/deploy):
#   docker build -f docker/service.Dockerfile -t coverlock-service .
#   docker run -p 127.0.0.1:8000:8000 -v ./bundle:/bundle:ro -v ./tokens.json:/tokens.json:ro coverlock-service
FROM python:3.12-slim AS build
COPY . /src
RUN pip wheel --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    --mount=type=bind,source=docker/service.lock,target=/service.lock \
    pip install --no-cache-dir --require-hashes -r /service.lock \
    && pip install --no-cache-dir --no-deps /wheels/*.whl \
    && useradd --system --uid 10001 coverlock
USER coverlock
ENV OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["coverlock", "serve"]
CMD ["/bundle", "--listen", "0.0.0.0:8000", "--behind-proxy", "--tokens", "/tokens.json"]
