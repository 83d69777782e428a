"""The folder of one store: who may build, where it is built, and how a finished version becomes the current one.

    <fingerprint>/
        CURRENT      the name of the current version, replaced by rename
        v000002/     a published version: never changed, removed when a newer one is current and nobody has it open
        building/    the next version while it is made; what a killed builder leaves here is continued
        salvage/     what a killed builder had done, if it cannot be continued in place
        shards/      blocks of clips that other processes or machines have computed for the next version
        lock         held by the builder and its workers; the text in it says who that is

A builder fills `building/`, whose last file is the manifest. With that on disk, the folder is complete and gets its
version number by rename; then the pointer moves. A kill between any two of these steps loses nothing: a building
folder with a manifest is a version that only lacks its name, a version without a pointer is found by the next
builder.

Those who build a shard share the lock: many build at a time, and no version is made meanwhile. Each shard has a lock
of its own beside its files.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from myxtts.data.store.feature_store import POINTER_FILE, VERSION_NAME, read_pointer
from myxtts.data.store.format import DATA_SUFFIX, INDEX_SUFFIX, MANIFEST_FILE
from myxtts.errors import NO_ROOM, StoreError

logger = logging.getLogger(__name__)

LOCK_FILE = "lock"
BUILDING = "building"
SALVAGE = "salvage"
SHARDS = "shards"
_POLL_SECONDS = 0.1


class StorageError(StoreError):
    """The disk has no room for a store, or does not let it be written."""


@dataclass(frozen=True)
class StoreFolder:
    """A store's folder, which need not exist yet."""

    path: Path

    @property
    def building(self) -> Path:
        return self.path / BUILDING

    @property
    def salvage(self) -> Path:
        """What a killed builder had done, when the next one cannot continue it in place."""
        return self.path / SALVAGE

    def shards(self) -> list[Path]:
        """The folders of the shards that there are."""
        return sorted(path for path in (self.path / SHARDS).glob("*") if path.is_dir())

    def current(self) -> Path | None:
        """The current version's folder, if there is one."""
        name = read_pointer(self.path)
        return self.path / name if name is not None and (self.path / name).is_dir() else None

    def versions(self) -> list[Path]:
        """All versions, the newest first."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        numbered = sorted((int(name[1:]), name) for name in names if VERSION_NAME.fullmatch(name))
        return [self.path / name for _, name in reversed(numbered)]

    @contextmanager
    def lock(self, wait: bool = True) -> Iterator[int]:
        """Makes this process the only builder of the store; gives the lock's file descriptor.

        The kernel frees the lock when the last process that has the descriptor ends, so none is ever left behind.
        Workers inherit it: a store whose builder was killed stays locked until its last worker has stopped writing.

        Args:
            wait: wait for another builder, saying once who it is; otherwise that is an error.

        Raises:
            StoreError: another process builds this store, or the folder cannot be written.
        """
        path = self.path / LOCK_FILE
        with self._claim(path, wait, self._running_shard) as descriptor:
            with disk_errors(path):
                # A builder that was killed may have left a complete version that only lacks its number.
                if (self.building / MANIFEST_FILE).is_file():
                    self._number_building()
            yield descriptor

    @contextmanager
    def lock_shard(self, folder: Path, wait: bool = True) -> Iterator[int]:
        """Makes this process the only builder of a shard; gives the descriptor of the shard's lock, for workers.

        Args:
            folder: of the shard, made if it does not exist. It stays until a version is made of it.
            wait: wait for who builds the store or this shard; otherwise that is an error.

        Raises:
            StoreError: another process builds it, or the folder cannot be written.
        """
        store = self._locked_file(self.path / LOCK_FILE, wait, fcntl.LOCK_SH)
        try:
            with self._claim(folder / LOCK_FILE, wait) as descriptor:
                yield descriptor
        finally:
            os.close(store)

    @contextmanager
    def _claim(self, path: Path, wait: bool, others: Callable[[], str | None] = lambda: None) -> Iterator[int]:
        """Holds a lock alone, with the holder's name in it; `others` says who else may be in the way."""
        descriptor = self._locked_file(path, wait, fcntl.LOCK_EX, others)
        try:
            with disk_errors(path):
                previous = _read_holder(descriptor)
                since = time.strftime("%Y-%m-%d %H:%M:%S")
                holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(holder).encode("utf-8"), 0)
            if previous:
                logger.info("%s: continuing after %s, which ended early", path.parent, previous)
            yield descriptor
            with disk_errors(path):
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _locked_file(self, path: Path, wait: bool, kind: int, others: Callable[[], str | None] = lambda: None) -> int:
        while True:
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                self._acquire(descriptor, path.parent, wait, kind, others)
                if not _is_removed(descriptor, path):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # the store was removed while this process waited

    def _acquire(self, descriptor: int, place: Path, wait: bool, kind: int, others: Callable[[], str | None]) -> None:
        said = False
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno != errno.EWOULDBLOCK:
                    raise StoreError(
                        f"{place}: this file system has no locks ({error.strerror}); "
                        "choose another folder with --cache-dir"
                    ) from None
            holder = others() or _read_holder(descriptor) or "another process"
            if not wait:
                raise StoreError(f"{place}: is being built by {holder}; try again when it is done")
            if not said:
                logger.info("%s: waiting for %s, which is building it", place, holder)
                said = True
            time.sleep(_POLL_SECONDS)

    def _running_shard(self) -> str | None:
        """A shard that somebody builds at the moment, and who, for people."""
        for folder in self.shards():
            try:
                descriptor = os.open(folder / LOCK_FILE, os.O_RDWR)
            except OSError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return f"shard {folder.name}, {_read_holder(descriptor) or 'another process'}"
            finally:
                os.close(descriptor)
        return None

    def publish(self) -> Path:
        """Makes the building folder, complete and with its manifest, the current version; returns its folder."""
        with disk_errors(self.path):
            sync_folder(self.building)
            version = self._number_building()
            self._point_to(version.name)
            sync_folder(self.path.parent)
        return version

    def _point_to(self, name: str) -> None:
        temporary = self.path / (POINTER_FILE + ".new")
        with synced_file(temporary) as file:
            file.write(f"{name}\n".encode("ascii"))
        os.rename(temporary, self.path / POINTER_FILE)
        sync_folder(self.path)

    def remove_unneeded(self) -> None:
        """Removes every version but the current one that nobody has open, and what was only needed to build."""
        current = self.current()
        for version in self.versions():
            if version != current and current is not None and not _in_use(version):
                shutil.rmtree(version, ignore_errors=True)
        for leftover in (self.building, self.salvage, self.path / SHARDS):
            shutil.rmtree(leftover, ignore_errors=True)

    def remove(self) -> bool:
        """Removes the whole store, unless somebody builds it or has it open; whether it is gone."""
        try:
            with self.lock(wait=False):
                current = self.current()
                # The current one last: with any version in use, what is left is still a store.
                for version in sorted(self.versions(), key=lambda version: version == current):
                    if _in_use(version):
                        return False
                shutil.rmtree(self.path, ignore_errors=True)
        except StoreError:
            return False
        return not self.path.exists()

    def _number_building(self) -> Path:
        for name in os.listdir(self.building):
            if name != MANIFEST_FILE and not name.endswith((DATA_SUFFIX, INDEX_SUFFIX)):
                os.unlink(self.building / name)  # journals
        taken = self.versions()
        number = int(taken[0].name[1:]) + 1 if taken else 1
        version = self.path / f"v{number:06d}"
        os.rename(self.building, version)
        sync_folder(self.path)
        return version


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns what a disk can refuse into one line that says where and what to do."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from None


def disk_error(error: OSError, path: Path) -> StorageError:
    """The line for one refusal."""
    reason = error.strerror or str(error)
    if error.errno in NO_ROOM:
        return StorageError(
            f"{path}: {reason}. What was there before is untouched and what was computed is kept:\n"
            "make room and run the same command again, or choose another folder with --cache-dir"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(f"{path}: cannot be written: {reason}; choose another folder with --cache-dir")
    return StorageError(f"{path}: {reason}")


def existing_parent(path: Path) -> Path:
    """The path if it exists, or else the nearest folder above it that does."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def require_space(path: Path, needed: int, spare: int = 0) -> None:
    """Makes sure that there is room for the `needed` bytes of a store in `path`, and `spare` bytes to be left over.

    Raises:
        StorageError: there is not; both numbers are in the message.
    """
    disk = os.statvfs(existing_parent(path))
    free = disk.f_bavail * disk.f_frsize  # for this user
    if needed + spare > free:
        left = f" and {readable_bytes(spare)} to spare" if spare else ""
        raise StorageError(
            f"{path}: the features need {readable_bytes(needed)}{left}, and the disk has "
            f"{readable_bytes(free)} free; make room, or choose another folder with --cache-dir"
        )


def readable_bytes(count: float) -> str:
    """A size as people read it: 1.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


@contextmanager
def synced_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that is on the disk afterwards."""
    with open(path, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Waits until a folder's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync folders
            raise
    finally:
        os.close(descriptor)


def _is_removed(descriptor: int, path: Path) -> bool:
    """Whether an open file is no longer the one at its path."""
    status = os.fstat(descriptor)
    try:
        return status.st_nlink == 0 and not os.path.samestat(status, os.stat(path))
    except OSError:
        return True


def _in_use(version: Path) -> bool:
    """Whether somebody has the version open. If not, its manifest is removed at once, so that nobody opens it."""
    manifest = version / MANIFEST_FILE
    try:
        descriptor = os.open(manifest, os.O_RDWR)  # NFS gives exclusive locks on writable files only
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(manifest)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_holder(descriptor: int) -> str | None:
    """Who wrote the lock file, for people; None if it is empty."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return None
