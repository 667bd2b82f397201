"""Two ways to rebuild data sets every night by Airflow 3: in a pod, or as a job on Flink that a worker of Airflow
submits.

The pod ends with shardmill's exit status: 99, which --unchanged_status asks for, skips what follows. A status that
another try does not mend fails the task at once; ../README.md lists them.
"""

import re
from datetime import datetime, timedelta

from airflow.providers.apache.beam.hooks.beam import BeamRunnerType
from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
from kubernetes.client import models as k8s

RECIPE = "gs://my-bucket/recipes/flowers.yaml"
UNCHANGED = 99
NOT_RETRIED = (2, 3, 4, 5)  # a mistake, failed checks, another builder, late data


class RetryByStatus(RetryPolicy):
    """Fails a task at once if shardmill's exit status is one of NOT_RETRIED; others are retried as often as `retries`.

    The operators raise an error with the status: of a pod in its termination message, of a process as a return code.
    """

    def evaluate(self, exception, try_number, max_tries, context=None):
        """Return the decision for an error of an operator."""
        found = re.search(r"shardmill ended with status (\d+)|process failed with return code (\d+)", str(exception))
        status = int(found[1] or found[2]) if found else 0
        if status in NOT_RETRIED:
            return RetryDecision.fail(f"exit status {status}: another try would end the same")
        return RetryDecision.default()


with DAG(
    dag_id="shardmill",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,  # a backfill gives its own --date; LATEST does not move backwards for it
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10), "retry_policy": RetryByStatus()},
) as dag:
    KubernetesPodOperator(
        task_id="flowers_in_a_pod",
        name="shardmill-flowers",
        image="my-registry/shardmill:1.0.0",
        cmds=["sh", "-c"],
        # The last line, the record of the build, is what the task returns (XCom).
        arguments=[
            f"shardmill rebuild {RECIPE} --date {{{{ ds }}}} --unchanged_status {UNCHANGED} --json"
            " > /airflow/xcom/return.json"
            ' || { status=$?; echo "shardmill ended with status $status" > /dev/termination-log; exit $status; }'
        ],
        do_xcom_push=True,
        skip_on_exit_code=UNCHANGED,
        container_resources=k8s.V1ResourceRequirements(requests={"cpu": "4", "memory": "4Gi"}),
    )
    BeamRunPythonPipelineOperator(
        task_id="flowers_on_flink",
        # python3 -m shardmill rebuild RECIPE --runner=FlinkRunner …, by a worker of Airflow that has shardmill.
        # For Dataflow: BeamRunnerType.DataflowRunner, its options, and the provider `google`.
        py_options=["-m", "shardmill", "rebuild"],
        py_file="/opt/airflow/recipes/flowers.yaml",
        py_interpreter="python3",
        runner=BeamRunnerType.FlinkRunner,
        pipeline_options={"date": "{{ ds }}", "flink_master": "flink:8081", "environment_type": "LOOPBACK"},
    )
