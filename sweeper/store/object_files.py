"""Files in a bucket that are whole or not there: the one PUT to the final key is the publication.

A check before a replacement is part of the PUT, which names the object that may be replaced (`If-Match`), or says that
there is to be none (`If-None-Match`). A server that does not know these headers ignores them; there the check and the
replacement are two steps.
"""

import contextlib
import datetime
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, NotSupportedError, PreconditionError
from pyarrow import fs

from sweeper.messages import did_you_mean, nearest_name, redacted
from sweeper.store.files import BUFFER, DurableFiles, FileState, Result, StoreError, within

PART = 10_000_000  # bytes from which a file that replaces any other goes up in parts

ANSWER_SECONDS = 60.0
"""The longest silence of a server within one request: a busy one takes long to list a hundred thousand files."""

RETRY_SECONDS, LOOK_SECONDS = 300.0, 10.0
"""For how long the client tries again while a server is busy or out of reach: in general, and when it only looks
whether there is a store, for which a person waits, and which never ends at a mistyped address."""

TRIES = 3
"""How often a file that others replace meanwhile is looked at and put."""

_PARAMETERS = {"endpoint_override": "endpoint", "region": "region"}
"""What a URL may say of an S3 server, beside `scheme`, and the client's name for it."""


class ObjectFiles(DurableFiles):
    """Objects of a bucket, by any store that obstore knows."""

    def __init__(self, url: str, bucket: str, prefix: str, options: Mapping[str, Any]) -> None:
        super().__init__(url, f"{bucket}/{prefix}".rstrip("/"))
        self._scheme, self._bucket, self._options = urlsplit(url).scheme, bucket, dict(options)
        self._store = self._client(RETRY_SECONDS)
        self._prefix = f"{prefix}/" if prefix else ""

    def _client(self, seconds: float) -> Any:
        """A client that tries again for so many seconds."""
        retries: Any = {"max_retries": 1000, "retry_timeout": datetime.timedelta(seconds=seconds)}
        with _explained("open", self.url):
            return obstore.store.from_url(f"{self._scheme}://{self._bucket}", retry_config=retries, **self._options)

    @classmethod
    def at(cls, address: str) -> "ObjectFiles":
        """The files below a URL such as `s3://bucket/results`; keys, unknown schemes and parameters are refused."""
        parts = urlsplit(address)
        bucket, prefix = parts.netloc, unquote(parts.path).strip("/")
        if "@" in bucket:
            raise StoreError(f"{redacted(address)}: keys stand in the environment or in a profile, not in the address")
        if not bucket:
            raise StoreError(f"{redacted(address)} names no bucket: write {parts.scheme}://bucket/folder")
        client: dict[str, Any] = {"timeout": datetime.timedelta(seconds=ANSWER_SECONDS)}
        options: dict[str, Any] = {}
        query = dict(parse_qsl(parts.query))
        scheme = query.pop("scheme", "https")
        for name, value in query.items():
            if name not in _PARAMETERS:
                hint = did_you_mean(nearest_name(name, ["scheme", *_PARAMETERS]))
                raise StoreError(f"{redacted(address)}: unknown parameter {name!r}{hint}")
            options[_PARAMETERS[name]] = value
        if "endpoint" in options and "://" not in options["endpoint"]:
            options["endpoint"] = f"{scheme}://{options['endpoint']}"
        if options.get("endpoint", "").startswith("http://"):
            client["allow_http"] = True
        if parts.scheme == "s3" and "AWS_ACCESS_KEY_ID" not in os.environ and _has_profile():
            options["credential_provider"] = _credentials_of_profile(address)
        return cls(address, bucket, prefix, options | {"client_options": client})

    @property
    def filesystem(self) -> fs.FileSystem:
        from obstore.fsspec import FsspecStore  # for the few readers that scan files in place

        protocol: Any = self._scheme
        return fs.PyFileSystem(fs.FSSpecHandler(FsspecStore(protocol, **self._options)))

    def _key(self, relative: str) -> str:
        return self._prefix + within(relative)

    def exists(self) -> bool:
        client = self._client(LOOK_SECONDS)
        with _explained("open", self.root):
            return bool(next(iter(obstore.list(client, self._prefix or None, chunk_size=1)), ()))

    def listing(self, folder: str) -> dict[str, FileState]:
        listed: dict[str, FileState] = {}
        with _explained("list", f"{self.root}/{folder}"):
            for chunk in obstore.list(self._store, self._key(folder), chunk_size=1000):
                for each in chunk:
                    name = each["path"].removeprefix(self._prefix)
                    if not any(part.startswith(".") for part in name.split("/")):
                        modified = int(each["last_modified"].timestamp() * 1e9)
                        listed[name] = FileState(each["size"], modified, each["e_tag"] or "")
        return dict(sorted(listed.items()))

    def read(self, relative: str) -> bytes | None:
        with _explained("read", f"{self.root}/{relative}"), contextlib.suppress(FileNotFoundError):
            return bytes(obstore.get(self._store, self._key(relative)).bytes())
        return None

    def parsed(self, relative: str, parse: Callable[[pa.NativeFile], Result], piece: int = BUFFER) -> Result | None:
        with _explained("read", f"{self.root}/{relative}"):
            try:
                reader = _Reader(self._store, self._key(relative), piece)
            except FileNotFoundError:
                return None
            with pa.BufferReader(reader.end) if reader.is_whole else pa.PythonFile(reader, "r") as file:
                return parse(file)

    def write(self, relative: str, data: bytes, keep: Callable[[bytes | None], bool] | None = None) -> bool:
        key, what = self._key(relative), f"{self.root}/{relative}"
        with _explained("write", what):
            if keep is None:
                obstore.put(self._store, key, data, chunk_size=PART)
                return True
            for _ in range(TRIES):
                mode: Any = "create"
                content: bytes | None = None
                with contextlib.suppress(FileNotFoundError):
                    found = obstore.get(self._store, key)
                    versions = {name: found.meta[name] for name in ("e_tag", "version")}
                    mode = {name: version for name, version in versions.items() if version is not None}
                    content = bytes(found.bytes())
                if keep(content):
                    return False
                try:
                    obstore.put(self._store, key, data, mode=mode, use_multipart=False)
                except (AlreadyExistsError, PreconditionError):  # 409 or 412: another writer came first
                    time.sleep(random.uniform(0.1, 0.5))  # writers that have met must not meet again
                    continue
                except NotSupportedError:
                    obstore.put(self._store, key, data, chunk_size=PART)
                return True
        raise StoreError(f"cannot write {what}: others write it all the time")

    def delete(self, relative: str) -> None:
        with _explained("delete", f"{self.root}/{relative}"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, self._key(relative))

    def move(self, relative: str, target: str) -> None:
        path = PurePosixPath(self._key(target))
        with _explained("move", f"{self.root}/{relative}"), contextlib.suppress(FileNotFoundError):
            with contextlib.suppress(FileNotFoundError):
                obstore.head(self._store, f"{path}")
                path = path.with_stem(f"{path.stem}-{secrets.token_hex(4)}")
            obstore.rename(self._store, self._key(relative), f"{path}")

    def remove_leftovers(self) -> None:
        """Does nothing: an object appears whole or not at all."""


class _Reader:
    """A file as pyarrow wants one, of an object that is read in pieces: its end first, then what is asked for."""

    closed = False

    def __init__(self, client: Any, key: str, piece: int) -> None:
        self._client, self._key, self._piece = client, key, piece
        try:
            found = obstore.get(client, key, options={"range": {"suffix": piece}})
        except (NotSupportedError, GenericError):  # Azure, and empty objects: the size is asked first
            size = obstore.head(client, key)["size"]
            found = obstore.get(client, key, options={"range": (max(0, size - piece), size)} if size else {})
        self._size, self.end = found.meta["size"], found.bytes().to_bytes()
        self._first, self._held, self._at = self._size - len(self.end), self.end, 0

    @property
    def is_whole(self) -> bool:
        """Whether the end is all of it."""
        return len(self.end) == self._size

    def read(self, count: int = -1) -> bytes:
        start = self._at
        stop = self._size if count < 0 else min(self._size, start + count)
        self._at = max(start, stop)
        if start >= stop:
            return b""
        if start >= (first := self._size - len(self.end)):
            return self.end[start - first : stop - first]
        if not self._first <= start <= stop <= self._first + len(self._held):
            last = min(self._size, max(stop, start + self._piece))
            self._first, self._held = start, bytes(obstore.get_range(self._client, self._key, start=start, end=last))
        return self._held[start - self._first : stop - self._first]

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        pass


@contextlib.contextmanager
def _explained(action: str, what: str) -> Iterator[None]:
    """Turn an error of the client into a `StoreError`; that a file is not there is for who reads, deletes or moves."""
    try:
        yield
    except StoreError:
        raise
    except (BaseError, ValueError, OSError) as error:
        if isinstance(error, FileNotFoundError) and action not in ("write", "list", "open"):
            raise
        reason = " ".join(str(error).partition("Debug source:")[0].split())
        raise StoreError(redacted(f"cannot {action} {what}: {reason}")) from None


def _has_profile() -> bool:
    """Whether keys are in a file of the user, as the tools of AWS keep them."""
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    return "AWS_PROFILE" in os.environ or os.path.isfile(os.path.expanduser(file))


def _credentials_of_profile(address: str) -> Any:
    """The keys in the user's file, which boto3 reads."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise StoreError(f"{redacted(address)}: keys of a profile need boto3 (pip install boto3)") from None
    return Boto3CredentialProvider()
