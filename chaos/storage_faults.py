"""Faults of storage: full disks and damaged checkpoints; `tests/store/test_storage_faults.py` has others."""

import contextlib
import random
import subprocess
from typing import Any

from chaos.attack import Attack, Finding, Sweep, fault
from chaos.starts import Start


@fault("disk-full", times=1)
def disk_full(attack: Attack, times: int) -> Finding:
    """The file system of the results is full, then has room again; needs root, to mount a small file system."""
    disk = attack.folder / "disk"
    disk.mkdir()
    sweep = attack.sweep(attack.space(steps=60_000), results=disk / "results")
    attack.undisturbed(sweep.file)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "chaos", str(disk)], check=True)
    try:
        start = sweep.start()
        attack.hits += start.until(lambda: sweep.checkpoints)
        with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        code, text, before = start.wait(), start.text, sweep.look()
        (disk / "filler").unlink()
        print(f"  exit code {code} with {before} committed; the message:\n{text[-600:]}", flush=True)
        told = code == 1 and "No space left on device" in text and "Traceback" not in text
        return attack.finding(f"exit code {code}, {before} committed before it", complete=sweep.ends() and told)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@fault("checkpoints-damaged", times=3)
def checkpoints_damaged(attack: Attack, times: int) -> Finding:
    """After a kill of the driver every checkpoint is truncated or emptied or has a bit flipped."""
    file, damaged = attack.space(steps=60_000), set[Any]()
    attack.undisturbed(file)

    def begin(sweep: Sweep) -> Start:
        for path in sweep.checkpoints:
            if (path, path.stat().st_mtime_ns) not in damaged:
                path.write_bytes(_spoiled(path.read_bytes(), attack.draw))
                damaged.add((path, path.stat().st_mtime_ns))
        return sweep.start()

    for _ in attack.interrupted(times, lambda: attack.sweep(file), begin):
        pass
    none_left = not any(sweep.checkpoints for sweep in attack.sweeps)
    return attack.finding(f"{len(damaged)} checkpoints damaged", none_left)


def _spoiled(data: bytes, draw: random.Random) -> bytes:
    """The bytes of a damaged file: none, the first ones, or all of them with one bit flipped."""
    place = draw.randrange(len(data))
    flipped = data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
    return draw.choice([b"", data[:place], flipped])
