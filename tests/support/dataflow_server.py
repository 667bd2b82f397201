"""Dataflow's service on loopback, as far as Beam's launcher asks it: `python -m tests.support.dataflow_server PORT`.

It accepts jobs, takes their pipelines from where the launcher has staged them, and runs them with Beam's local runner:
what a job does here comes from the staged bytes and the options that the launcher sent, and from nothing else of it.

A job runs as soon as it is accepted, one after the other; one with the label `wait` when `GET /run?job=ID` asks for
it. `GET /jobs` tells of all. A project that is called `refused` may not create any.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_provision_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.transforms.environments import EmbeddedPythonEnvironment

Job = dict[str, Any]
REFUSED = "refused"  # the project


def run(job: Job) -> None:
    """Run a job's staged pipeline to its end, by workers that know what Dataflow tells its own."""
    told = job["environment"]["sdkPipelineOptions"]["options"]
    options = PipelineOptions.from_dictionary(told)
    FileSystems.set_options(options)  # as apache_beam/runners/worker/sdk_worker_main.py does
    with FileSystems.open(told["pipelineUrl"]) as staged:
        pipeline = beam_runner_api_pb2.Pipeline.FromString(staged.read())
    here = EmbeddedPythonEnvironment.default().to_runner_api(None)
    for environment in pipeline.components.environments.values():
        environment.CopyFrom(here)
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = fn_runner.ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded))
    fn_runner.FnApiRunner(provision_info=provision).run_via_runner_api(pipeline, options)


def _serve(port: int) -> None:
    jobs: dict[str, Job] = {}
    running = threading.Lock()

    def run_to_its_end(job: Job) -> None:
        with running:
            job["currentState"] = "JOB_STATE_RUNNING"
            try:
                run(job)
                ended = {"currentState": "JOB_STATE_DONE"}
            except Exception as error:
                ended = {"currentState": "JOB_STATE_FAILED", "said": f"{type(error).__name__}: {error}"}
            job.update(ended if job["currentState"] == "JOB_STATE_RUNNING" else {})

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, content: Any, status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _refuse(self, status: int, word: str, message: str) -> None:
            self._answer({"error": {"code": status, "message": message, "status": word}}, status)

        def _body(self) -> Job:
            return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"])), parse_float=_number))

        def do_POST(self) -> None:
            body = self._body()
            _, version, projects, project, locations, location, collection = urlsplit(self.path).path.split("/")
            if (version, projects, locations, collection) != ("v1b3", "projects", "locations", "jobs"):
                self._refuse(404, "NOT_FOUND", self.path)
            elif project == REFUSED:
                self._refuse(403, "PERMISSION_DENIED", "The caller has no permission dataflow.jobs.create")
            else:
                job = {**body, "id": f"job-{len(jobs)}", "projectId": project, "location": location}
                job["currentState"] = "JOB_STATE_PENDING"
                jobs[job["id"]] = job
                if "wait" not in job.get("labels", {}):
                    threading.Thread(target=run_to_its_end, args=(job,), daemon=True).start()
                self._answer(_answered(job))

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            parts = url.path.split("/")
            if url.path == "/jobs":
                self._answer(list(jobs.values()))
            elif url.path == "/run":
                job = jobs[parse_qs(url.query)["job"][0]]
                run_to_its_end(job)
                self._answer(_answered(job))
            elif parts[-1] == "messages":
                self._answer(_messages(jobs[parts[-2]]))
            elif parts[-2] == "jobs" and parts[-1] in jobs:
                self._answer(_answered(jobs[parts[-1]]))
            else:
                self._refuse(404, "NOT_FOUND", self.path)

        def do_PUT(self) -> None:
            job = jobs[urlsplit(self.path).path.split("/")[-1]]
            asked = self._body()["requestedState"]
            if asked == "JOB_STATE_CANCELLED" and job["currentState"] not in ("JOB_STATE_DONE", "JOB_STATE_FAILED"):
                job["currentState"] = asked
            self._answer(_answered(job))

        def log_message(self, *_: object) -> None:
            """Spare it."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def _messages(job: Job) -> Job:
    """What a job that failed says of it."""
    said = {"id": "1", "time": "2026-01-01T00:00:00Z", "messageImportance": "JOB_MESSAGE_ERROR"}
    return {"jobMessages": [{**said, "messageText": job["said"]}] if "said" in job else []}


def _number(text: str) -> int | float:
    """A number as JSON knows it: Beam's client writes whole ones as 0.0, which the service does not hand on."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _answered(job: Job) -> Job:
    """What the service says of a job: not all that it was sent."""
    return {name: value for name, value in job.items() if name not in ("environment", "said")}


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
