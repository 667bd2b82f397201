"""Buckets of object stores, for tests: real clients against emulators, each a process on loopback."""

import json
import os
import pickle
import random
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import boto3
import botocore.hooks
import botocore.session
import botocore.useragent
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as google_storage
from PIL import Image

from shardmill.pipelines import cli
from tests.support.command import REPOSITORY, local_files, write_files

SERVER = REPOSITORY / "tests/support/object_store_server.py"
AZURITE = REPOSITORY / "tests/support/azurite/node_modules/azurite/dist/src/blob/main.js"
# Those that all of Azurite's users have: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
Files = dict[str, bytes]


class Bucket(Protocol):
    """An emulator's bucket, through a client of its own or the emulator itself, rather than the code under test."""

    url: str
    flags: list[str]
    environment: dict[str, str]

    def put(self, name: str, data: bytes) -> None: ...

    def put_all(self, prefix: str, files: Files) -> None: ...

    def names(self, prefix: str = "") -> list[str]: ...

    def files(self, prefix: str = "") -> Files: ...

    def older(self, prefix: str, seconds: float) -> None: ...

    def requests(self) -> dict[str, Any]: ...


class Disk:
    """A folder of this machine, as a bucket is told of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url, self.flags, self.environment = str(folder), list[str](), dict[str, str]()

    def put(self, name: str, data: bytes) -> None:
        write_files(self._folder, {name: data})

    def put_all(self, prefix: str, files: Files) -> None:
        write_files(self._folder / prefix, files)

    def names(self, prefix: str = "") -> list[str]:
        return [name for name in local_files(self._folder) if name.startswith(prefix)]

    def files(self, prefix: str = "") -> Files:
        return {name: data for name, data in local_files(self._folder).items() if name.startswith(prefix)}

    def older(self, prefix: str, seconds: float) -> None:
        for name in self.names(prefix):
            status = (self._folder / name).stat()
            os.utime(self._folder / name, (status.st_atime - seconds, status.st_mtime - seconds))

    def requests(self) -> dict[str, Any]:
        return {"requests": [], "reads_at_once": 0}


class _Bucket:
    def __init__(self, url: str, endpoint: str, flags: list[str], environment: dict[str, str]) -> None:
        self.url, self.endpoint, self.flags, self.environment = url, endpoint, flags, environment

    def older(self, prefix: str, seconds: float) -> None:
        """Let the objects below a prefix be as if they had been written so much earlier."""
        asked = {"bucket": self.url.partition("://")[2], "prefix": prefix, "seconds": seconds}
        urllib.request.urlopen(f"{self.endpoint}/older?{urllib.parse.urlencode(asked)}").close()

    def put_all(self, prefix: str, files: Files) -> None:
        """Put files below a prefix."""
        self._objects(f"{prefix}/", pickle.dumps(files))

    def files(self, prefix: str = "") -> Files:
        """The contents of the objects that begin with a prefix, by their names, in the order of these."""
        return dict(pickle.loads(self._objects(prefix)))

    def _objects(self, prefix: str, data: bytes | None = None) -> bytes:
        asked = urllib.parse.urlencode({"bucket": self.url.partition("://")[2], "prefix": prefix})
        with urllib.request.urlopen(f"{self.endpoint}/objects?{asked}", data) as answer:
            return bytes(answer.read())

    def requests(self) -> dict[str, Any]:
        """The requests since this was last asked, and how many reads were under way at once."""
        with urllib.request.urlopen(f"{self.endpoint}/requests") as answer:
            return dict(json.load(answer))


class GoogleBucket(_Bucket):
    """A bucket of Google Cloud Storage's emulator."""

    def __init__(self, name: str, endpoint: str, environment: dict[str, str]) -> None:
        super().__init__(f"gs://{name}", endpoint, [], environment)
        client = google_storage.Client("test", AnonymousCredentials(), client_options={"api_endpoint": endpoint})  # type: ignore[no-untyped-call]
        self._bucket = client.create_bucket(name)

    def put(self, name: str, data: bytes) -> None:
        self._bucket.blob(name).upload_from_string(data, "image/jpeg")

    def names(self, prefix: str = "") -> list[str]:
        return [blob.name for blob in self._bucket.list_blobs(prefix=prefix)]


class S3Bucket(_Bucket):
    """A bucket of S3's emulator."""

    def __init__(self, name: str, endpoint: str) -> None:
        access = {
            "endpoint_url": endpoint,
            "access_key_id": "key",
            "secret_access_key": "secret",
            "region_name": "us-east-1",
        }
        super().__init__(f"s3://{name}", endpoint, [f"--s3_{flag}={value}" for flag, value in access.items()], {})
        names = {name: name if name.endswith(("url", "name")) else f"aws_{name}" for name in access}
        self.client = boto3.session.Session().client("s3", **{names[key]: value for key, value in access.items()})
        self.client.create_bucket(Bucket=name)
        self.name = name

    def put(self, name: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=name, Body=data)

    def names(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]


def azure_connection(endpoint: str) -> str:
    """How Azure's clients are told of a server, and who asks."""
    protocol = endpoint.partition("://")[0]
    account = f"AccountName={_ACCOUNT};AccountKey={_KEY};BlobEndpoint={endpoint}/{_ACCOUNT};"
    return f"DefaultEndpointsProtocol={protocol};{account}"


class AzureBucket(_Bucket):
    """A container of Azurite, which lets nobody ask what it was asked, nor make objects older."""

    def __init__(self, name: str, endpoint: str) -> None:
        from azure.storage.blob import ContainerClient

        connection = azure_connection(endpoint)
        super().__init__(f"az://{_ACCOUNT}/{name}", endpoint, [f"--azure_connection_string={connection}"], {})
        self._container = ContainerClient.from_connection_string(connection, name)
        self._container.create_container()

    def put(self, name: str, data: bytes) -> None:
        self._container.upload_blob(name, data, overwrite=True)

    def put_all(self, prefix: str, files: Files) -> None:
        """Put files below a prefix."""
        for name, data in files.items():
            self.put(f"{prefix}/{name}", data)

    def names(self, prefix: str = "") -> list[str]:
        return list(self._container.list_blob_names(name_starts_with=prefix))

    def files(self, prefix: str = "") -> Files:
        """As of other buckets."""
        return {name: self._container.download_blob(name).readall() for name in self.names(prefix)}

    def older(self, prefix: str, seconds: float) -> None:
        raise NotImplementedError(
            "Azurite lets nobody make objects older; the test runs on Google's and S3's emulators"
        )

    def requests(self) -> dict[str, Any]:
        raise NotImplementedError(
            "Azurite tells nobody what it was asked; the test runs on Google's and S3's emulators"
        )


def _by_name(ask: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
    """Asks for each name once, whichever client does."""
    known: dict[str, str] = {}
    return lambda asking, name: known[name] if name in known else known.setdefault(name, ask(asking, name))


@contextmanager
def s3_named_once() -> Iterator[None]:
    """Each request looks hundreds of times for what its events and the parts of its user agent are called."""
    aliases = botocore.hooks.EventAliaser
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aliases, "_alias_event_name", _by_name(aliases._alias_event_name))
        name = "sanitize_user_agent_string_component"
        patch.setattr(botocore.useragent, name, cache(getattr(botocore.useragent, name)))
        yield


def flags_by(bucket: Bucket, endpoint: str) -> list[str]:
    """The flags of a job that reaches a bucket by another endpoint than its own; Google's has none for that."""
    if bucket.url.startswith("az:"):
        return [f"--azure_connection_string={azure_connection(endpoint)}"]
    if bucket.url.startswith("gs:"):
        return bucket.flags
    return [*(flag for flag in bucket.flags if "endpoint" not in flag), f"--s3_endpoint_url={endpoint}"]


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server listens, whose process must not end before."""
    while True:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)


@contextmanager
def server(kind: str, log: Path) -> Iterator[str]:
    """An emulator's address; it ends with the block."""
    port = free_port()
    program = [sys.executable, str(SERVER), kind, str(port)]
    if kind == "az":
        assert AZURITE.exists(), "Azurite is not installed: `make check NAME=azure` does it, with npm"
        keep = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        program = ["node", str(AZURITE), *keep, "--blobPort", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(program, stdout=output, stderr=output)
    try:
        wait_for_port(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def google_credentials(folder: Path, endpoint: str) -> dict[str, str]:
    """The environment of whoever uses an emulator of Google's.

    Credentials are as a job has them, so that Beam does not look for some elsewhere; the token comes from the emulator.
    """
    (folder / "token").write_text("a token to exchange")
    credentials = {
        "type": "external_account",
        "audience": "//emulator",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{endpoint}/token",
        "credential_source": {"file": str(folder / "token")},
    }
    (folder / "credentials.json").write_text(json.dumps(credentials))
    return {
        "STORAGE_EMULATOR_HOST": endpoint,
        "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "credentials.json"),
        "GOOGLE_CLOUD_PROJECT": "test",
    }


def jpeg(seed: int) -> bytes:
    """A small image, another for each seed."""
    colours = random.Random(seed)
    output = BytesIO()
    Image.frombytes("RGB", (8, 8), colours.randbytes(192)).save(output, "JPEG")
    return output.getvalue()


def upload(bucket: Bucket, prefix: str, files: Files) -> str:
    """Put files below a prefix, whose URL is returned."""
    bucket.put_all(prefix, files)
    return f"{bucket.url}/{prefix}"


def make_images(bucket: Bucket | None, *flags: str) -> int:
    """Run `shardmill images` with the options of the bucket's store; its exit status."""
    return cli.main(["images", "--name", "flowers", *flags, *(bucket.flags if bucket else [])])


def without_source(files: Files) -> dict[str, Any]:
    """The files of an output folder, but for where the input lay and checksums of what says it."""
    compared: dict[str, Any] = {}
    for name, data in files.items():
        if "/builds/" in name:  # records, which hold times
            continue
        compared[name] = data
        if name.endswith("manifest.json"):
            compared[name] = json.loads(data)
            del compared[name]["input"]["pattern"], compared[name]["files"]["dataset_info.json"]
        elif name.endswith("dataset_info.json"):
            compared[name] = json.loads(data)
            del compared[name]["description"]
        elif name.endswith("/_SUCCESS"):  # which has the checksum of the manifest
            compared[name] = len(data)
    return compared


def below(files: Files, prefix: str) -> Files:
    """The files below a prefix, by their names relative to it."""
    return {name.removeprefix(f"{prefix}/"): data for name, data in files.items() if name.startswith(f"{prefix}/")}
