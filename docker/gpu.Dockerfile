# Verification of folders and Parquet files on NVIDIA GPUs, with CUDA and TensorRT from NVIDIA's image:
#   docker build -f docker/gpu.Dockerfile -t coverlock-gpu .
#   docker run --gpus all -v ./bundle:/bundle:ro -v ./pictures:/pictures:ro coverlock-gpu \
#       verify /pictures --bundle /bundle --id order-4711
FROM python:3.12-slim AS build
COPY . /src
RUN pip wheel --no-deps --wheel-dir /wheels /src

FROM nvcr.io/nvidia/tensorrt:25.08-py3
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(ls /wheels/*.whl)[gpu,rtx,serve,sign]" \
    && useradd --system --uid 10001 coverlock
USER coverlock
ENV OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
HEALTHCHECK --interval=30s --timeout=10s CMD ["coverlock", "plugins"]
ENTRYPOINT ["coverlock"]
CMD ["--help"]
