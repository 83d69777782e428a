# MyXTTS in a container; docs/docker.md has how to use it.
#
#   docker build -t myxtts .                                      to speak and to serve, without TensorFlow
#   docker build -t myxtts:train --build-arg VARIANT=train .      to train on a CPU
#   docker build -t myxtts:cuda --build-arg VARIANT=cuda .        to train on GPUs of NVIDIA

# serve, train or cuda: the stage below that the image is made of.
ARG VARIANT=serve
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS base
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/myxtts
# What decides the dependencies comes first, so that a change of the code does not install them again.
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY myxtts/__init__.py myxtts/

# Each stage installs the dependencies of its extras. CUDA's libraries are in the wheels; the host has the driver.
FROM base AS serve
RUN pip install --no-cache-dir -c constraints.txt '.[speech,wyoming]'

FROM base AS train
RUN pip install --no-cache-dir -c constraints.txt '.[train,speech,wyoming,prepare,export,plot]'

FROM base AS cuda
RUN pip install --no-cache-dir -c constraints.txt '.[gpu,speech,wyoming,prepare,export,plot]'
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# The stage that VARIANT names, with the code.
FROM ${VARIANT} AS final
WORKDIR /opt/myxtts
COPY myxtts myxtts
RUN pip install --no-cache-dir --no-deps --force-reinstall . \
    && useradd --create-home --uid 1000 myxtts \
    && mkdir /data \
    && chown myxtts: /data
USER 1000
# Data sets, runs and bundles: `docker run -v "$PWD:/data" …`.
WORKDIR /data
EXPOSE 8020
ENTRYPOINT ["myxtts"]
CMD ["--help"]
