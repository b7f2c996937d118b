"""Calls to the Kubernetes API."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson

from webhook.cluster.configuration import CredentialsError, authorization, find_source, load
from webhook.cluster.errors import ApiError
from webhook.cluster.lines import LineError, objects_in
from webhook.cluster.patience import Patience
from webhook.kube.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Self

FIELD_MANAGER = "podgate"
JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"

#: Seconds for the connection, TLS included.
CONNECT_SECONDS = 5.0
#: Seconds without a byte. The API server answers within its request timeout of 60 s or not at all, but what takes longer
#: than this is asked again by those who wait.
READ_SECONDS = 8.0
#: Seconds for the whole of an answer, however it trickles: the API server's own request timeout.
ANSWER_SECONDS = 60.0
#: A change waits for the webhooks in its way: 30 s is the longest time of one.
WRITE_SECONDS = 35.0
#: Bookmarks come about each minute where anything happens (kubernetes/apiserver:pkg/storage/cacher/cacher.go,
#: defaultBookmarkFrequency): a stream without a byte for longer may be one that nobody serves, and is opened anew.
SILENCE_SECONDS = 90.0
#: TCP keep-alive: a peer that is gone without a word is noticed within 15 + 3 * 5 s, also by a watch that waits.
KEEPALIVE = (15, 5, 3)

#: Objects in one page of a list: kubectl's and client-go's own number.
PAGE = 500
#: Bytes of an answer: a page of objects, most of which have some KiB; the largest possible would not fit into memory.
MAX_ANSWER = 256 * 1024 * 1024
_PIECE = 64 * 1024
#: Bytes of an error's body that are read.
_MAX_ERROR = 1024 * 1024


class Api:
    """A cluster's API: paths such as ``/api/v1/namespaces/x/configmaps/y`` and plain JSON objects.

    May be used by several threads or greenlets. Every call is bounded in time; none is repeated, but for one with renewed
    credentials where they were refused.

    Args:
        read_configuration: Gives the client library's ``Configuration``; asked again when credentials are refused, so
            that a token or a client certificate that was replaced is found. Told how long to wait for a plugin.

    Attributes:
        server: The API server's address.
    """

    def __init__(self, read_configuration: Callable[[Patience], Any]) -> None:
        self._read_configuration = read_configuration
        self._patience = Patience()
        self._lock = threading.Lock()
        self._take(read_configuration(self._patience))

    @classmethod
    def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Self:
        """The API of ``--kubeconfig``, else ``$KUBECONFIG``, else the pod's ServiceAccount, else ``~/.kube/config``.

        Args:
            kubeconfig: A file, None to look at the other places.
            context: Of a kubeconfig; None for its current one.

        Raises:
            ApiError: With status 0: there is no configuration, or it cannot be used. No call is made.
        """
        return cls(partial(load, find_source(kubeconfig, context)))

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """An object, a list or whatever stands at the path.

        Raises:
            ApiError: It could not be had.
        """
        return self._ask("GET", path, query)

    def find(self, path: str) -> dict[str, Any] | None:
        """An object, None where there is none.

        Raises:
            ApiError: It could not be had.
        """
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def create(self, path: str, body: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object (POST to its collection).

        Returns:
            The object as it is stored.

        Raises:
            ApiError: Reason ``AlreadyExists`` (409) if it is there.
        """
        return self._ask("POST", path, _change(dry_run), body)

    def update(self, path: str, body: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Replace an object (PUT).

        Raises:
            ApiError: Reason ``Conflict`` (409) if ``metadata.resourceVersion`` is not the stored one.
        """
        return self._ask("PUT", path, _change(dry_run), body)

    def apply(
        self, path: str, body: dict[str, Any], *, dry_run: bool = False, force: bool = True
    ) -> dict[str, Any]:
        """Server-side apply as the field manager ``podgate``.

        Args:
            path: The object's path.
            body: Only the fields that are ours.
            dry_run: Whether to store nothing.
            force: Whether to take over fields that others manage.

        Raises:
            ApiError: Reason ``Conflict`` (409) if others manage a field and ``force`` is not set.
        """
        return self._ask("PATCH", path, {**_change(dry_run), "force": str(force).lower()}, body, APPLY)

    def merge_patch(self, path: str, body: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Change some fields (RFC 7386: null removes one).

        Raises:
            ApiError: It could not be changed.
        """
        return self._ask("PATCH", path, _change(dry_run), body, MERGE_PATCH)

    def delete(self, path: str, *, dry_run: bool = False) -> None:
        """Delete an object; one that is not there is fine.

        Raises:
            ApiError: It could not be deleted.
        """
        try:
            self._ask("DELETE", path, {"dryRun": "All"} if dry_run else {})
        except ApiError as error:
            if error.status != 404:
                raise

    def pages(self, path: str, *, limit: int = PAGE, **query: str | int) -> Iterator[dict[str, Any]]:
        """The List objects of a collection, page by page; the first page's resourceVersion holds for all.

        Raises:
            ApiError: Status 410 where the list took so long that its snapshot is gone: begin again.
        """
        more = ""
        while True:
            page = self.get(path, limit=limit, **query, **({"continue": more} if more else {}))
            yield page
            metadata = page.get("metadata")
            more = str((metadata.get("continue") if isinstance(metadata, dict) else "") or "")
            if not more:
                return

    def watch(
        self,
        path: str,
        *,
        resource_version: str,
        timeout_seconds: int,
        silence_seconds: float = SILENCE_SECONDS,
        **query: str | int,
    ) -> Iterator[dict[str, Any]]:
        """The events after a resourceVersion, bookmarks included.

        The stream is open when this returns. It ends when the server ends it, or when nothing has come for a while: quiet
        kinds may get no bookmark for long, so silence is no fault.

        Args:
            path: The collection's path.
            resource_version: Of the list, or of the last event.
            timeout_seconds: How long the server is asked to keep the stream open.
            silence_seconds: How long it may be without any byte.
            query: More of the query, such as ``fieldSelector``.

        Raises:
            ApiError: At once where it is refused; from the iterator where the stream is cut or holds garbage (status 0), or
                an ``ERROR`` event (its status; 410 where the resourceVersion is too old: list again).
        """
        full = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
            **query,
        }
        answer = self._open("GET", path, full)
        # The answer's head comes at once, its body does not.
        _set_patience(answer, min(silence_seconds, timeout_seconds + READ_SECONDS))
        return self._events(answer, f"{self.server} WATCH {path}")

    def _events(self, answer: Any, call: str) -> Iterator[dict[str, Any]]:
        try:
            with self._said(call):
                for event in objects_in(_until_silent(answer)):
                    kind = event.get("type")
                    if kind == "ERROR":
                        raise ApiError.of_event(call, event.get("object"))
                    if not isinstance(kind, str):
                        raise LineError("a line that is no event")
                    yield event
        finally:
            answer.close()

    def _take(self, configuration: Any) -> None:
        from kubernetes.client.rest import RESTClientObject  # noqa: PLC0415  # late: see the package
        from urllib3 import disable_warnings  # noqa: PLC0415
        from urllib3.exceptions import InsecureRequestWarning  # noqa: PLC0415

        configuration.socket_options = _socket_options()
        if not configuration.verify_ssl:  # the kubeconfig's own word, which needs no warning at every call
            disable_warnings(InsecureRequestWarning)
        self._configuration = configuration
        self.server = str(configuration.host)
        self._http = RESTClientObject(configuration).pool_manager

    def _ask(
        self, method: str, path: str, query: dict[str, Any], body: Any = None, media_type: str = JSON
    ) -> dict[str, Any]:
        call = f"{self.server} {method} {path}"
        answer = self._open(method, path, query, body, media_type)
        try:
            with self._said(call):
                data = _whole(answer, MAX_ANSWER)
        except BaseException:
            answer.close()
            raise
        answer.release_conn()
        try:
            value = orjson.loads(data)
        except ValueError as error:
            raise ApiError(f"{call}: the answer is no JSON: is this an API server?") from error
        if not isinstance(value, dict):
            raise ApiError(f"{call}: the answer is no JSON object: is this an API server?")
        return value

    def _open(
        self, method: str, path: str, query: dict[str, Any], body: Any = None, media_type: str = JSON
    ) -> Any:
        """The answer to a call that succeeded, its body not yet read."""
        used = self._credentials()
        answer = self._send(method, path, query, body, media_type)
        if answer.status == 401 and self._renewed(used):
            answer.close()
            answer = self._send(method, path, query, body, media_type)
        if 200 <= answer.status < 300:
            return answer
        call = f"{self.server} {method} {path}"
        try:
            with self._said(call):
                data = _whole(answer, _MAX_ERROR)
        finally:
            answer.close()
        raise ApiError.of_answer(call, answer.status, answer.headers, data)

    def _send(self, method: str, path: str, query: dict[str, Any], body: Any, media_type: str) -> Any:
        from urllib3 import Timeout  # noqa: PLC0415  # late: see the package

        with self._said(f"{self.server} {method} {path}"):
            return self._http.request(
                method,
                f"{self.server}{path}{'?' if query else ''}{urlencode(query)}",
                body=None if body is None else orjson.dumps(body),
                headers=self._headers(None if body is None else media_type),
                timeout=Timeout(
                    connect=CONNECT_SECONDS, read=READ_SECONDS if method == "GET" else WRITE_SECONDS
                ),
                preload_content=False,
                retries=False,
                redirect=False,
            )

    def _headers(self, media_type: str | None) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": "podgate"}
        if media_type:
            headers["Content-Type"] = media_type
        if sent := authorization(self._configuration, self._patience):
            headers["Authorization"] = sent
        return headers

    def _renewed(self, used: tuple[Any, ...]) -> bool:
        """Whether there are other credentials by now: another call found them, or the configuration holds them, read anew."""
        with self._lock:
            if self._credentials() == used:
                with suppress(ApiError):
                    self._take(self._read_configuration(self._patience))
            return self._credentials() != used

    def _credentials(self) -> tuple[Any, ...]:
        c = self._configuration
        return c.api_key.get("BearerToken"), c.cert_file, c.key_file

    @contextmanager
    def _said(self, call: str) -> Iterator[None]:
        """Errors of the network, said as ours."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # late: see the package

        try:
            yield
        except (LineError, CredentialsError) as error:
            raise ApiError(f"{call}: {error}") from error
        except (HTTPError, OSError) as error:
            raise ApiError(f"{call}: {_advice(error)}") from error


def _change(dry_run: bool) -> dict[str, Any]:
    return {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}


def _whole(answer: Any, most: int) -> bytes:
    data = bytearray()
    end = time.monotonic() + ANSWER_SECONDS
    for piece in _pieces(answer):
        data += piece
        if time.monotonic() > end:
            raise TimeoutError
        if len(data) > most:
            raise LineError(f"an answer of more than {most} bytes")
    return bytes(data)


def _pieces(answer: Any) -> Iterator[bytes]:
    """The answer's body as it comes; `read1` waits for nothing more than the next piece."""
    while piece := answer.read1(_PIECE):
        yield piece


def _until_silent(answer: Any) -> Iterator[bytes]:
    from urllib3.exceptions import ReadTimeoutError  # noqa: PLC0415  # late: see the package

    with suppress(ReadTimeoutError):
        yield from _pieces(answer)


def _set_patience(answer: Any, seconds: float) -> None:
    connection = answer.connection
    if connection is not None and connection.sock is not None:
        connection.sock.settimeout(seconds)


def _socket_options() -> list[tuple[int, int, int]]:
    """urllib3's own option, and keep-alive where the system has its parts."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    parts = [(getattr(socket, name, None), value) for name, value in zip(names, KEEPALIVE, strict=True)]
    return [*options, *((socket.IPPROTO_TCP, part, value) for part, value in parts if part is not None)]


def _advice(error: BaseException) -> str:
    """What went wrong on the way, and what to do."""
    from urllib3 import exceptions as http  # noqa: PLC0415  # late: see the package

    if isinstance(error, ssl.SSLError | http.SSLError):
        return f"TLS failed: {_plain(error)}; do the CA and the client certificate belong to this server?"
    # A NewConnectionError is also a TimeoutError.
    if isinstance(error, http.NewConnectionError | http.NameResolutionError):
        return f"no connection: {_plain(error)}; is the API server up, and is this its address?"
    if isinstance(error, http.TimeoutError | TimeoutError):
        return "no answer in time; is the API server up, and can it be reached from here?"
    return f"the connection broke: {_plain(error)}"


def _plain(error: BaseException) -> str:
    """An error's own words, without the addresses of Python objects that urllib3 puts in front."""
    words = str(error.args[0]) if error.args and isinstance(error.args[0], str) else str(error)
    return plain(words.rpartition(">: ")[2] or type(error).__name__, 200)
