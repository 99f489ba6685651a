# SPDX-License-Identifier: GPL-2.0
"""Boots a kernel as a guest with a payload, yields the lines of its console and kills it at the end."""

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
# The clock of the workqueue watchdog runs while a busy host gives user-mode Linux no CPU, so the watchdog's default of
# 30 seconds is too short. A work item that never ends is reported after ten minutes, or by the scenario's time limit.
UML_WATCHDOG = "workqueue.watchdog_thresh=600"
# la57=off: with five page-table levels, an interrupt in early boot can make KASAN misjudge an address, because
# identify_cpu() briefly clears LA57. erms=off, fsrm=off: the kernel then copies words instead of using fast string
# instructions, which TCG emulates byte by byte.
CPU = "max,la57=off,erms=off,fsrm=off"
# The guest's clock counts instructions, one nanosecond each, so that a measurement does not depend on the speed or
# the load of the machine.
COUNTING = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "1"]
COUNTING += ["-rtc", "base=2026-01-01,clock=vm"]
# The first process of a UML guest. It begins with mounting /proc: busybox's shell runs its applets through
# /proc/self/exe, which in the /proc of the machine is the UML kernel.
UML_INIT = """#!/bin/sh
/bin/busybox mount -t proc proc /proc
KOFI={0} exec /bin/busybox sh {0}/guest/init.sh
"""


def command(
    kernel: Kernel, payload: Path, shell: bool, cpus: int, extra: str, counting: bool = False
) -> list[str]:
    """Returns the command that boots a kernel with a payload. `extra` has more kernel parameters."""
    verbosity = "quiet" if shell else "loglevel=4"
    parameters = f"{COMMON} {verbosity} {kernel.lane.parameters} {extra}".strip()
    if kernel.lane.is_uml:
        return uml(kernel, payload, parameters, cpus)
    return qemu(kernel, payload, parameters, shell, cpus, counting)


def uml(kernel: Kernel, payload: Path, parameters: str, cpus: int) -> list[str]:
    """Returns the command of user-mode Linux, with the machine's own root file system, read-only."""
    init = payload / "init"
    init.write_text(UML_INIT.format(payload))
    init.chmod(0o755)
    socket = [f"uml_dir={payload}/", f"umid={payload.name}"]
    root = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"]
    console = ["con0=fd:0,fd:1", "con=null"]
    # By default one thread traces all processes, and user-mode Linux refuses to have several CPUs.
    smp = ["seccomp=on", f"ncpus={cpus}"] if cpus > 1 else []
    rest = [*smp, UML_WATCHDOG, *parameters.split()]
    return [str(kernel.image), f"mem={kernel.lane.memory}", *socket, *root, *console, *rest]


def qemu(
    kernel: Kernel, payload: Path, parameters: str, shell: bool, cpus: int, counting: bool
) -> list[str]:
    """Packs the initramfs and returns the command of QEMU.

    TCG is the default, because a nested /dev/kvm can hang every guest; KOFI_ACCEL=kvm selects KVM.
    """
    initrd = payload.with_suffix(".cpio")
    initramfs.pack(kernel, payload, initrd)
    accelerator = ["-accel", os.environ.get("KOFI_ACCEL", "tcg,thread=multi")]
    if counting:
        accelerator = COUNTING
        parameters += " nokaslr norandmaps"
    serial = "mon:stdio" if shell else "stdio"  # the monitor ends the guest with ctrl-a x
    return [
        "qemu-system-x86_64",
        *accelerator,
        *("-cpu", CPU),
        *("-m", kernel.lane.memory),
        *("-smp", str(cpus)),
        *("-kernel", str(kernel.image)),
        *("-initrd", str(initrd)),
        # The kernel's timer check fails if a busy host does not run the guest's CPU in time.
        *("-append", f"console=ttyS0 no_timer_check {parameters}"),
        *("-nodefaults", "-no-reboot"),
        *("-display", "none"),
        *("-serial", serial),
    ]


RUNNING: set["Guest"] = set()
ENDED = threading.Event()


def end_all() -> None:
    """Kills all guests of this process. Later ones are not started."""
    ENDED.set()
    for running in list(RUNNING):
        running.kill()


class Guest:
    """A running guest, which is killed at the end of its `with` block."""

    def __init__(self, command: list[str], log: Path) -> None:
        if ENDED.is_set():
            raise LabError("interrupted")
        self.log = open(log, "w", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],  # the guest dies with this program
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
        """Kills the guest."""
        try:
            # A UML kernel has several processes, all in one session.
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
        """Yields the lines of the console until it is closed, and None about once a second."""
        rest = b""
        last = time.monotonic()
        while True:
            if time.monotonic() - last > 1:
                last = time.monotonic()
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
