# The one image: of workers (--environment_type DOCKER --environment_config IMAGE, Dataflow's --sdk_container_image
# IMAGE), where they unpickle shardmill; of a launcher; and of a Flex Template of Dataflow, deploy/dataflow/metadata.json.
ARG BEAM_VERSION=2.77.0
FROM gcr.io/dataflow-templates-base/python311-template-launcher-base:20230622_RC00 AS template_launcher

FROM apache/beam_python3.11_sdk:${BEAM_VERSION}

WORKDIR /shardmill
COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY src src
COPY transforms transforms
COPY pipelines pipelines
RUN pip install --no-cache-dir -c constraints.txt '.[aws,azure,gcp,reshard,tokenizers]'

# A Flex Template: Dataflow starts the launcher, which runs the file with the parameters as flags.
COPY --from=template_launcher /opt/google/dataflow/python_template_launcher /opt/google/dataflow/python_template_launcher
COPY deploy/dataflow/launch.py /template/launch.py
ENV FLEX_TEMPLATE_PYTHON_PY_FILE=/template/launch.py

# Without arguments the SDK's own entry point runs, as a worker. As a launcher:
#   docker run --entrypoint shardmill IMAGE images --input gs://… --output gs://… --name …
ENTRYPOINT ["/opt/apache/beam/boot"]
