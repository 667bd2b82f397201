"""Find the object store of a URL, and reach it with the pipeline options of this process.

Beam's FileSystems builds a client for every call (measured for S3: 0.2 s and 12 MB each), treats names as globs, and
requests an object's metadata before reading it. Operations on single objects therefore use clients that are kept.
Beam's sink still writes the shards of gs:// and of other stores.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.transforms.stores.protocol import ObjectStore, forget_at_new_options, split_url, web_url_problem

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

_CLIENTS = {  # module here, class, libraries that it needs, and the extra that brings them
    "gs": ("gcs", "GoogleStorage", "Google's clients", "gcp"),
    "s3": ("s3", "S3", "boto3 and obstore", "aws"),
    "az": ("azure", "AzureBlobs", "Azure's clients", "azure"),
}
_DOWNLOADS = {"hf": "; `hf download NAME --repo-type dataset --local-dir FOLDER` brings a data set to this disk"}

_lock = threading.Lock()
_reached: "list[PipelineOptions]" = []  # of all runs under way in this process, the latest one last
_before: "tuple[PipelineOptions | None, dict[str, str | None]]" = (None, {})  # options and variables before all of them


def object_store(url: str) -> ObjectStore:
    """Return the store of `url`, with the pipeline options that FileSystems was given; raise UserError if no store has
    this scheme, or its client library is not installed.

    Within the steps of a job, the store retries for minutes; see transforms.stores.patience.
    """
    from shardmill.transforms.stores.patience import RetryingStore, is_patient

    if url.startswith("zip://"):
        from shardmill.transforms.stores.zip_archive import ZipArchives

        return ZipArchives(object_store)
    store = _store(url)
    if not is_patient():
        _check_reachable(url, store.endpoint(url))
    return cast("ObjectStore", RetryingStore(store))


_CONNECTIONS, _PAUSE_S, _CONNECT_TIMEOUT_S = 3, 0.5, 10.0  # attempts at the first connection to a store
_PORTS = {"http": 80, "https": 443}
_reachable: set[str] = set()  # endpoints that this process has connected to


def _check_reachable(url: str, endpoint: str) -> None:
    """Raise ConnectionError if nothing listens at the endpoint of a store that this process has not connected to yet.

    The stores' clients would try again for minutes, without a word. A proxy connects to endpoints by itself.
    """
    parts = urlsplit(endpoint)
    if endpoint in _reachable or not parts.hostname or parts.scheme not in _PORTS:
        return
    from urllib.request import getproxies, proxy_bypass  # here, for it imports much, and --help need not wait

    proxies = getproxies()
    if ("all" in proxies or parts.scheme in proxies) and not proxy_bypass(parts.hostname):
        return
    for attempt in range(1, _CONNECTIONS + 1):
        try:
            port = parts.port or _PORTS[parts.scheme]
            socket.create_connection((parts.hostname, port), _CONNECT_TIMEOUT_S).close()
            break
        except OSError as error:
            if attempt == _CONNECTIONS or isinstance(error, TimeoutError):
                raise ConnectionError(
                    f"{url}: no store can be reached at {endpoint}: {error.strerror or error}; check the address and"
                    " the network"
                ) from None
            time.sleep(_PAUSE_S)
    _reachable.add(endpoint)


def _store(url: str) -> ObjectStore:
    scheme = url.partition("://")[0]
    if scheme in _CLIENTS:
        module, store, libraries, extra = _CLIENTS[scheme]
        prepare_clients()
        try:
            found = import_module(f"shardmill.transforms.stores.{module}")
        except ImportError:
            raise UserError(f"{url}: {scheme}:// needs {libraries}; {install_hint(extra)}") from None
        return getattr(found, store)(_options())
    if why := web_url_problem(url):
        raise UserError(f"{url}: {why}")
    from apache_beam.io.filesystems import FileSystems

    from shardmill.transforms.stores.beam_filesystems import BeamStore

    try:
        FileSystems.get_filesystem(url)
    except ValueError:
        raise UserError(
            f"{url}: no file system for {scheme}://; expected a local path, gs://, s3://, az://, or what Beam has"
            f" installed{_DOWNLOADS.get(scheme, '')}"
        ) from None
    return BeamStore()


def set_options(options: "PipelineOptions | None") -> None:
    """Reach object stores with the credentials and endpoints of `options`, before a pipeline sets them."""
    from apache_beam.io.filesystems import FileSystems

    for forget in forget_at_new_options.values():
        forget()
    FileSystems.set_options(options)
    if options is not None:
        from shardmill.transforms.stores.patience import set_retries

        set_retries(options)


@contextmanager
def using_options(options: "PipelineOptions") -> Iterator[None]:
    """Within this context, reach object stores with `options`; restore the earlier options afterwards."""
    from shardmill.transforms.stores.patience import VARIABLES

    global _before
    with _lock:
        if not _reached:
            _before = _options(), {name: os.environ.get(name) for name in VARIABLES}
        _reached.append(options)
        _apply_newest()
    try:
        yield
    finally:
        with _lock:
            _reached.remove(next(each for each in _reached if each is options))
            _apply_newest()


def _apply_newest() -> None:
    """Use the store options of the run that began last of those under way; without a run, those set before."""
    options, variables = _before
    if _reached:
        _set_variables(variables)  # or those of another run would count as the user's
        set_options(_reached[-1])
    else:
        set_options(options)
        _set_variables(variables)


def _set_variables(values: "dict[str, str | None]") -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def prepare_clients() -> None:
    """Make clients that Beam creates in this process for writing shards retry as ours do."""
    from shardmill.transforms.stores.patience import set_retries

    set_retries(_options())


def _options() -> "PipelineOptions":
    from shardmill.transforms.stores.beam_filesystems import process_options

    return process_options()


def check_url(url: str) -> None:
    """Raise UserError if the scheme of `url` is not supported, or the URL lacks the bucket that its scheme needs."""
    if url.startswith("zip://"):
        return
    _store(url)  # which asks for nothing
    if url.startswith(("gs://", "s3://")):
        split_url(url)
    elif url.startswith("az://"):
        from shardmill.transforms.stores.azure import split_az_url

        split_az_url(url)
