# SPDX-License-Identifier: GPL-2.0
"""Starts a kernel with a payload, gives its console line by line, and ends it whatever it does."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from . import initramfs
from .kernel import Kernel
from .output import LabError
from .paths import TREE

COMMON = "panic=-1 kunit.enable=1 kunit.autorun=0 printk.devkmsg=on"
# In user-mode Linux the workqueue watchdog's clock runs while a busy host gives the guest no CPU: 30 seconds are
# too few there. Work that never ends is found after ten minutes, or by the scenario's limit.
UML_WATCHDOG = "workqueue.watchdog_thresh=600"
# With five page-table levels, an interrupt in early boot can make KASAN misjudge an address: while
# identify_cpu() collects the features, LA57 is briefly not among them. Fast string instructions are
# slow ones here: an emulator takes a byte at a time where the kernel else moves words.
CPU = "max,la57=off,erms=off,fsrm=off"
# The guest's clock counts instructions, a nanosecond each: what is measured does not depend on the
# machine, nor on what else it does.
COUNTING = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "1"]
COUNTING += ["-rtc", "base=2026-01-01,clock=vm"]
# Before /proc is the guest's own, busybox's shell would start the UML kernel itself for each
# of its programs, since that is what the machine's /proc/self/exe names.
UML_INIT = """#!/bin/sh
/bin/busybox mount -t proc proc /proc
KOFI={0} exec /bin/busybox sh {0}/guest/init.sh
"""


def command(
    kernel: Kernel, payload: Path, shell: bool, cpus: int, extra: str, counting: bool = False
) -> list[str]:
    """The command line that boots this kernel with this payload."""
    loudness = "quiet" if shell else "loglevel=4"
    words = f"{COMMON} {loudness} {kernel.lane.parameters} {extra}".strip()
    if kernel.lane.is_uml:
        return uml(kernel, payload, words)
    return qemu(kernel, payload, words, shell, cpus, counting)


def uml(kernel: Kernel, payload: Path, words: str) -> list[str]:
    """User-mode Linux on the machine's own root, read-only."""
    init = payload / "init"
    init.write_text(UML_INIT.format(payload))
    init.chmod(0o755)
    place = [f"uml_dir={payload}/", f"umid={payload.name}"]
    root = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"]
    console = ["con0=fd:0,fd:1", "con=null"]
    rest = [UML_WATCHDOG, *words.split()]
    return [str(kernel.image), f"mem={kernel.lane.memory}", *place, *root, *console, *rest]


def qemu(
    kernel: Kernel, payload: Path, words: str, shell: bool, cpus: int, counting: bool
) -> list[str]:
    """A virtual machine; TCG unless told otherwise: a nested /dev/kvm may hang every guest."""
    initrd = payload.with_suffix(".cpio")
    initramfs.pack(kernel, payload, initrd)
    accelerator = ["-accel", os.environ.get("KOFI_ACCEL", "tcg,thread=multi")]
    if counting:
        accelerator = COUNTING
        words += " nokaslr norandmaps"
    serial = "mon:stdio" if shell else "stdio"  # with ctrl-a x for a way out
    return [
        "qemu-system-x86_64",
        *accelerator,
        *("-cpu", CPU),
        *("-m", kernel.lane.memory),
        *("-smp", str(cpus)),
        *("-kernel", str(kernel.image)),
        *("-initrd", str(initrd)),
        # Its test of the timer counts ticks of a CPU that a busy host may not run in time.
        *("-append", f"console=ttyS0 no_timer_check {words}"),
        *("-nodefaults", "-no-reboot"),
        *("-display", "none"),
        *("-serial", serial),
    ]


RUNNING: set["Guest"] = set()
ENDED = threading.Event()


def end_all() -> None:
    """Ends every guest, whoever waits for it; there will be no other one."""
    ENDED.set()
    for running in list(RUNNING):
        running.kill()


class Guest:
    """A running guest; leaving the `with` block kills it."""

    def __init__(self, words: list[str], log: Path) -> None:
        if ENDED.is_set():
            raise LabError("interrupted")
        self.log = open(log, "w", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words],  # never outlives this program
            cwd=TREE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self.process.stdout
        self.output = self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.output, selectors.EVENT_READ)

    def kill(self) -> None:
        """Ends it at once."""
        try:
            # A UML kernel is several processes: the whole session has to go.
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def __enter__(self) -> "Guest":
        RUNNING.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        RUNNING.discard(self)
        self.kill()
        self.process.wait()
        self.selector.close()
        self.output.close()
        self.log.close()

    def lines(self) -> Iterator[str | None]:
        """Whole lines as they come, None about every second; ends with the guest's output."""
        rest = b""
        beat = time.monotonic()
        while True:
            if time.monotonic() - beat > 1:
                beat = time.monotonic()
                yield None
            if not self.selector.select(timeout=1):
                continue
            chunk = self.output.read(65536)
            if not chunk:
                return
            text = chunk.decode(errors="replace")
            self.log.write(text)
            self.log.flush()
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
