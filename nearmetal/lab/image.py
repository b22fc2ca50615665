"""The node image: built once per recipe, kept in the cache, whole or not there at all."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .. import paths
from ..errors import NearmetalError
from . import disk, mirror, preflight, process
from .progress import Progress
from .recipe import FILES, MAKE_ROOT, MODES, ROOT_SECTOR, SETUP, Recipe

SAY_EVERY = 30


def image_path(recipe: Recipe) -> Path:
    """Where the image of this recipe is, or will be."""
    return paths.cache_dir() / "images" / f"{recipe.digest}.qcow2"


def kernel_path(recipe: Recipe) -> Path:
    """The kernel of this recipe's image, beside it."""
    return image_path(recipe).with_suffix(".vmlinuz")


def ensure_image(recipe: Recipe, progress: Progress, cancel: threading.Event | None = None) -> Path:
    """The image, built now if it is not in the cache. One build at a time; a second caller waits for it.

    Raises NearmetalError naming the build log if the build fails, KeyboardInterrupt if cancelled.
    """
    image = image_path(recipe)
    if image.exists() and kernel_path(recipe).exists():
        return image
    preflight.check_build_tools()
    image.parent.mkdir(parents=True, exist_ok=True)
    preflight.check_disk(image.parent, preflight.BUILD_GIB)
    with _build_lock(image.with_suffix(".lock"), progress):
        if not (image.exists() and kernel_path(recipe).exists()):
            _build(recipe, image, progress, cancel or threading.Event())
    return image


@contextlib.contextmanager
def _build_lock(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another command is building the node image, waiting for it")
            fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe, image: Path, progress: Progress, cancel: threading.Event) -> None:
    log = image.with_suffix(".log")
    log.write_text("")
    work = Path(tempfile.mkdtemp(prefix=f"{recipe.digest}.", suffix=".build", dir=image.parent))
    try:
        # The file systems' tools run as another user without root: they must be able to enter.
        work.chmod(0o755)
        _steps(recipe, work, log, progress, cancel)
        os.replace(work / "out" / "vmlinuz", kernel_path(recipe))
        os.replace(work / "disk.qcow2", image)
    except subprocess.CalledProcessError as err:
        raise NearmetalError(_failure(err, log)) from None
    finally:
        with process.uninterrupted():
            _remove(work)
    progress.say(f"node image ready ({image.stat().st_blocks * 512 / 2**30:.1f} GiB in {image})")


def _steps(recipe: Recipe, work: Path, log: Path, progress: Progress, cancel: threading.Event) -> None:
    progress.say(f"building the node image, about 3 minutes, once: Debian {recipe.suite}; log: {log}")
    _watched(bootstrap_argv(recipe, work), work, log, progress, cancel)
    progress.say("packages installed; making the disk")
    raw = work / "disk.raw"
    disk.partition(raw, recipe, log)
    offset, blocks = ROOT_SECTOR * disk.SECTOR, disk.ROOT_SECTORS * disk.SECTOR // 4096
    script = ["sh", "-c", MAKE_ROOT, "make-root", recipe.root_uuid, str(offset), str(blocks)]
    _watched([*as_root(), *script], work, log, progress, cancel)
    disk.install_loaders(raw, work / "out", log)
    progress.say("packing the disk")
    convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-o", "lazy_refcounts=on", str(raw)]
    _watched([*convert, str(work / "disk.qcow2")], work, log, progress, cancel)


def as_root() -> list[str]:
    """Prefix that makes a command root, of a user namespace with the caller's sub-ids where it is not root."""
    return [] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--map-auto"]


def bootstrap_argv(recipe: Recipe, work: Path) -> list[str]:
    """Write the recipe's files into `work` and return the mmdebstrap command that makes root.tar there."""
    (work / "files.tar").write_bytes(files_tar(recipe))
    (work / "setup.sh").write_text(recipe.fill(SETUP))
    root = os.geteuid() == 0
    source = mirror.find_mirror()
    # In a mount namespace of its own nothing stays mounted, however the build ends.
    return [
        *(["unshare", "--mount"] if root else []), "mmdebstrap", f"--mode={'root' if root else 'unshare'}",
        "--variant=minbase",
        "--architectures=amd64", "--components=main", "--format=tar",
        *mirror.apt_transport_options(),
        *(f"--dpkgopt={option}" for option in recipe.dpkg_options()),
        f"--include={','.join(recipe.packages)}",
        f"--essential-hook=tar-in {_quoted(work / 'files.tar')} /",
        f"--customize-hook=upload {_quoted(work / 'setup.sh')} /tmp/setup.sh",
        '--customize-hook=chroot "$1" sh /tmp/setup.sh',
        recipe.suite, str(work / "root.tar"), *([source] if source else []),
    ]  # fmt: skip


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def files_tar(recipe: Recipe) -> bytes:
    """The recipe's own files as a tar archive, owned by root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in sorted(FILES.items()):
            data = recipe.fill(text).encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), MODES.get(name, 0o644)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _watched(argv: list[str], work: Path, log: Path, progress: Progress, cancel: threading.Event) -> None:
    """Run a long step in a process group of its own; ended with all its children when cancelled."""
    with log.open("ab") as out:
        out.write(f"+ {' '.join(argv)}\n".encode())
        out.flush()
        env = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
        if os.geteuid() == 0:
            env["TMPDIR"] = str(work)
        child = subprocess.Popen(
            argv, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        said = time.monotonic()
        while child.poll() is None:
            if cancel.is_set():
                raise KeyboardInterrupt
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.5)
            if time.monotonic() - said > SAY_EVERY:
                said = time.monotonic()
                progress.say(f"still at it: {last_line(log)[:90]}")
    finally:
        if child.returncode is None:
            with process.uninterrupted():
                process.stop_group(child)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, argv)


def _remove(work: Path) -> None:
    """Remove the build folder; files that belong to sub-ids need root of the user namespace."""
    if work.exists() and as_root():
        subprocess.run([*as_root(), "rm", "-rf", "--", *map(str, work.iterdir())], check=False)
    shutil.rmtree(work, ignore_errors=True)


def last_line(log: Path) -> str:
    """Last line of a log that says something."""
    lines = log.read_bytes()[-4000:].decode(errors="replace").replace("\r", "\n").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _failure(err: subprocess.CalledProcessError, log: Path) -> str:
    lines = log.read_bytes()[-20000:].decode(errors="replace").splitlines()
    errors = [line for line in lines if line.startswith("E:") or "rror" in line] or lines
    tool = next(word for word in err.cmd if word != "unshare" and not word.startswith("-"))
    return (
        f"The node image could not be built: {tool} ended with status {err.returncode}. "
        f"Last it said: {' | '.join(errors[-3:])}. The whole log: {log}"
    )
