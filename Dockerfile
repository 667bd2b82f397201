# The image for workers of portable runners: --environment_type DOCKER --environment_config IMAGE, or Dataflow's
# --sdk_container_image IMAGE. It holds shardmill where the workers unpickle it.
ARG BEAM_VERSION=2.77.0
FROM apache/beam_python3.11_sdk:${BEAM_VERSION}

WORKDIR /shardmill
COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY shardmill shardmill
COPY transforms transforms
COPY pipelines pipelines
RUN pip install --no-cache-dir -c constraints.txt '.[aws,gcp,reshard]'

# Without arguments the SDK's own entry point runs, as a worker. As a launcher:
#   docker run --entrypoint shardmill IMAGE images --input gs://… --output gs://… --name …
ENTRYPOINT ["/opt/apache/beam/boot"]
