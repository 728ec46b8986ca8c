"""Files in a bucket that are whole or not there: the one PUT to the final key is the publication.

A check before a replacement is part of the PUT, which names the object that may be replaced (`If-Match`), or says that
there is to be none (`If-None-Match`). A server that does not know these headers ignores them; there the check and the
replacement are two steps.
"""

import contextlib
import datetime
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError
from pyarrow import fs

from sweeper.messages import did_you_mean, nearest_name, redacted
from sweeper.store.files import (
    DurableFiles,
    FileState,
    Replaced,
    StoreError,
    StoreTrouble,
    TooLargeError,
    check_size,
    looks,
    numbered,
    unsettled,
    within,
)

PART = 10_000_000  # bytes from which a file that replaces any other goes up in parts
END = 64 * 2**10  # bytes that are read from the end of an object at first: nearly every row with its curves is smaller

ANSWER_SECONDS = 60.0
"""The longest silence of a server within one request: a busy one takes long to list a hundred thousand files."""

_PARAMETERS = {"endpoint_override": "endpoint", "region": "region"}
"""What a URL may say of an S3 server, beside `scheme`, and the client's name for it."""

_CONFLICTS = (AlreadyExistsError, PreconditionError)
"""Answers 409 and 412: another writer was at work, or the object is not the one that was expected."""

_REFUSED = re.compile(r"status code: 4(?!29|08)\d\d")
"""How the client words an answer that will stay the same; all others may pass."""


class ObjectFiles(DurableFiles):
    """Objects of a bucket, by any store that obstore knows."""

    def __init__(self, url: str, bucket: str, prefix: str, options: Mapping[str, Any]) -> None:
        super().__init__(url, f"{bucket}/{prefix}".rstrip("/"))
        self._scheme, self._options = urlsplit(url).scheme, dict(options)
        with _explained("open", url):
            self._store = obstore.store.from_url(f"{self._scheme}://{bucket}", **self._options)
        self._prefix = f"{prefix}/" if prefix else ""

    @classmethod
    def at(cls, address: str) -> "ObjectFiles":
        """The files below a URL such as `s3://bucket/results`; an unknown scheme or parameter is refused."""
        parts = urlsplit(address)
        bucket, prefix = parts.netloc.rpartition("@")[2], unquote(parts.path).strip("/")
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
        if parts.scheme == "s3":
            if parts.username is not None:
                options |= {
                    "access_key_id": unquote(parts.username),
                    "secret_access_key": unquote(parts.password or ""),
                }
            elif "AWS_ACCESS_KEY_ID" not in os.environ and _has_profile():
                options["credential_provider"] = _credentials_of_profile(address)
        retries = {"max_retries": 3, "retry_timeout": datetime.timedelta(seconds=ANSWER_SECONDS)}
        return cls(address, bucket, prefix, options | {"client_options": client, "retry_config": retries})

    @property
    def filesystem(self) -> fs.FileSystem:
        from obstore.fsspec import FsspecStore  # for the few readers that scan files in place

        protocol: Any = self._scheme
        return fs.PyFileSystem(fs.FSSpecHandler(FsspecStore(protocol, **self._options)))

    def _key(self, relative: str) -> str:
        return self._prefix + within(relative)

    def exists(self) -> bool:
        with _explained("open", self.root):
            return bool(next(iter(obstore.list(self._store, self._prefix or None, chunk_size=1)), ()))

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

    def folders(self, folder: str) -> list[str]:
        with _explained("list", f"{self.root}/{folder}"):
            found = obstore.list_with_delimiter(self._store, self._key(folder))["common_prefixes"]
        return sorted(name.removeprefix(self._prefix).rstrip("/") for name in found)

    def read(self, relative: str) -> bytes | None:
        with _explained("read", f"{self.root}/{relative}"), contextlib.suppress(FileNotFoundError):
            found = obstore.get(self._store, self._key(relative))
            check_size(relative, found.meta["size"])
            return bytes(found.bytes())
        return None

    def opened(self, relative: str) -> pa.NativeFile | None:
        with _explained("read", f"{self.root}/{relative}"), contextlib.suppress(FileNotFoundError):
            return pa.PythonFile(_Object(self._store, self._key(relative), f"{self.root}/{relative}"), "r")
        return None

    def write(self, relative: str, data: bytes, keep: Callable[[bytes | None], bool] | None = None) -> bool:
        key, what = self._key(relative), f"{self.root}/{relative}"
        for _ in looks():
            with _explained("write", what):
                if keep is None:
                    obstore.put(self._store, key, data, chunk_size=PART)
                    return True
                mode: Any = "create"
                content: bytes | None = None
                with contextlib.suppress(FileNotFoundError, TooLargeError):
                    found = obstore.get(self._store, key)
                    versions = {name: found.meta[name] for name in ("e_tag", "version")}
                    mode = {name: version for name, version in versions.items() if version is not None}
                    content = b""
                    check_size(relative, found.meta["size"])
                    content = bytes(found.bytes())
                if keep(content):
                    return False
                try:
                    obstore.put(self._store, key, data, mode=mode, use_multipart=False)
                except _CONFLICTS:
                    continue  # another writer came first: look again
                except NotSupportedError:
                    obstore.put(self._store, key, data, chunk_size=PART)
                return True
        raise unsettled(what)

    def delete(self, relative: str, keep: Callable[[], bool] | None = None) -> None:
        if keep is not None and keep():
            return
        with _explained("delete", f"{self.root}/{relative}"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, self._key(relative))

    def move(self, relative: str, target: str) -> None:
        with _explained("move", f"{self.root}/{relative}"), contextlib.suppress(FileNotFoundError):
            free = next(name for name in numbered(self._key(target)) if not self._is_taken(name))
            obstore.rename(self._store, self._key(relative), free)

    def _is_taken(self, key: str) -> bool:
        try:
            obstore.head(self._store, key)
        except FileNotFoundError:
            return False
        return True

    def remove_leftovers(self) -> None:
        """Does nothing: an object appears whole or not at all."""


class _Object(io.RawIOBase):
    """An object of which parts are read; its end comes with the first request."""

    def __init__(self, store: Any, key: str, what: str) -> None:
        self._store, self._key, self._what, self._at = store, key, what, 0
        try:
            found = obstore.get(store, key, options={"range": {"suffix": END}})
        except (BaseError, ValueError):
            found = obstore.get(store, key)  # an empty object has no range, and some stores know no range from the end
        self._end, self._size, self._etag = bytes(found.bytes()), found.meta["size"], found.meta["e_tag"]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        start, known = self._at, self._size - len(self._end)
        self._at = self._size if size is None or size < 0 else min(start + size, self._size)
        if start >= known:
            return self._end[start - known : self._at - known]
        options: Any = {"range": (start, self._at)} | ({"if_match": self._etag} if self._etag else {})
        with _explained("read", self._what):
            try:
                return bytes(obstore.get(self._store, self._key, options=options).bytes())
            except (PreconditionError, FileNotFoundError):
                raise Replaced(f"{self._what} was replaced while it was read") from None


@contextlib.contextmanager
def _explained(action: str, what: str) -> Iterator[None]:
    """Turn an error of the client into a `StoreTrouble` if it may pass, into a `StoreError` if not.

    That a file is not there is for the caller, except in a PUT.
    """
    try:
        yield
    except StoreError:
        raise
    except (BaseError, ValueError, OSError) as error:
        if isinstance(error, FileNotFoundError) and action not in ("write", "list", "open"):
            raise
        reason = " ".join(str(error).partition("Debug source:")[0].split())
        refused = _REFUSED.search(str(error)) is not None
        passing = isinstance(error, _CONFLICTS) or (type(error).__name__ == "GenericError" and not refused)
        raise (StoreTrouble if passing else StoreError)(redacted(f"cannot {action} {what}: {reason}")) from None


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
