"""What deploy/airflow/dag.py is to a real Airflow: its tasks, as JSON in a file. Runs in Airflow's own environment."""

import json
import runpy
import sys
from pathlib import Path

from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

FIELDS = ("cmds", "arguments", "skip_on_exit_code", "py_options", "py_file", "runner", "pipeline_options")


def main(path: str, found: str) -> None:
    """Load the file as Airflow's parser does, check it, and bring it to the form that its scheduler reads."""
    (dag,) = (value for value in runpy.run_path(path).values() if isinstance(value, DAG))
    dag.validate()
    DagSerialization.to_dict(dag)
    tasks = {task.task_id: {name: getattr(task, name, None) for name in FIELDS} for task in dag.tasks}
    Path(found).write_text(json.dumps(tasks))


if __name__ == "__main__":
    main(*sys.argv[1:])
