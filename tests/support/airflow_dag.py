"""What deploy/airflow/dag.py is to a real Airflow: its tasks, as JSON in a file. Runs in Airflow's own environment."""

import json
import logging
import runpy
import sys
from pathlib import Path
from typing import Any

from airflow.providers.apache.beam.hooks.beam import run_beam_command
from airflow.sdk import DAG
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowException
from airflow.serialization.serialized_objects import DagSerialization
from kubernetes.client import CoreV1Api
from kubernetes.client import models as k8s

FIELDS = ("cmds", "arguments", "skip_on_exit_code", "py_options", "py_file", "runner", "pipeline_options")


STATUSES = (1, 2, 3, 4, 5, 129, 130, 143)


def run_pod(task: Any, status: int) -> None:
    """Let the operator look at a pod that has ended with a status, whose command has said so as the file has it do."""
    ended = k8s.V1ContainerStateTerminated(exit_code=status, message=f"shardmill ended with status {status}\n")
    container = k8s.V1ContainerStatus(
        name=task.base_container_name,
        state=k8s.V1ContainerState(terminated=ended),
        **{"image": "", "image_id": "", "ready": False, "restart_count": 0},
    )
    status_of = k8s.V1PodStatus(phase="Failed", container_statuses=[container])
    pod = k8s.V1Pod(metadata=k8s.V1ObjectMeta(name="p", namespace="n"), spec=k8s.V1PodSpec(containers=[]))
    pod.status = status_of
    task.client = CoreV1Api()  # of no cluster, so what would ask it does nothing
    task.is_istio_enabled = task.patch_already_checked = task.process_pod_deletion = lambda *_, **__: None
    task.log_events_on_failure = False
    task.cleanup(pod, pod)


def run_process(_: Any, status: int) -> None:
    """Let the hook of the operator run a process that ends with a status."""
    run_beam_command(["sh", "-c", f"echo; exit {status}"], logging.getLogger("beam"))


RUNS = {"flowers_in_a_pod": run_pod, "flowers_on_flink": run_process}


def statuses_that_fail_at_once(task: Any) -> list[int]:
    """The statuses after which the task is not tried again."""
    found = []
    for status in STATUSES:
        try:
            RUNS[task.task_id](task, status)
        except AirflowException as error:
            if task.retry_policy.evaluate(error, 1, task.retries).action is RetryAction.FAIL:
                found.append(status)
        else:
            raise AssertionError(f"{task.task_id} takes status {status} for success")
    return found


def main(path: str, found: str) -> None:
    """Load the file as Airflow's parser does, check it, and bring it to the form that its scheduler reads."""
    (dag,) = (value for value in runpy.run_path(path).values() if isinstance(value, DAG))
    dag.validate()
    DagSerialization.to_dict(dag)
    tasks = {task.task_id: {name: getattr(task, name, None) for name in FIELDS} for task in dag.tasks}
    for task in dag.tasks:
        tasks[task.task_id]["fails_at_once"] = statuses_that_fail_at_once(task)
    Path(found).write_text(json.dumps(tasks))


if __name__ == "__main__":
    main(*sys.argv[1:])
