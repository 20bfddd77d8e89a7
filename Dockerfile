# What training needs, with CUDA (about 6 GB):       docker build -t asr-ablations .
# without: docker build -t asr-ablations --build-arg TORCH_INDEX=<address of a torch build> .
# docker run --rm --gpus all --shm-size 8g -v "$PWD:/data" asr-ablations train      leaves outputs/ and .cache/ here
FROM python:3.12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends g++ make cmake git && rm -rf /var/lib/apt/lists/*
ARG TORCH_INDEX=""
ARG EXTRAS=""
WORKDIR /opt/asr-ablations
COPY pyproject.toml setup.py MANIFEST.in constraints.txt Makefile README.md ./
COPY conf conf
COPY sweeps sweeps
COPY src src
RUN pip install --no-cache-dir -c constraints.txt uv && uv pip install --system --no-cache -c constraints.txt ./src/asr_verdicts \
    ${TORCH_INDEX:+--index "$TORCH_INDEX" --index-strategy unsafe-best-match} ".[decode${EXTRAS:+,$EXTRAS}]"
ENV HOME=/data
WORKDIR /data
ENTRYPOINT ["asr-ablations"]
CMD ["--help"]
