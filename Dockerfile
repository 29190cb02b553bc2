# Assay on a CPU.
#
#     docker build -t assay .
#     docker run --rm -v "$PWD/runs:/home/assay/runs" assay demo
FROM python:3.12-slim

# The build of torch for CPUs is a fraction of the usual one; name an index that has it with --build-arg TORCH_INDEX=…
ARG TORCH_INDEX=""

WORKDIR /opt/assay
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' constraints.txt)" \
    && pip install --no-cache-dir -c constraints.txt '.[hf,api,view]'

RUN useradd --create-home assay
USER assay
WORKDIR /home/assay
ENV ASSAY_HOME=/home/assay/.assay
ENTRYPOINT ["assay"]
CMD ["--help"]
