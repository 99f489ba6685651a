# SPDX-License-Identifier: GPL-2.0
"""Defines the lanes: the test kernels, and how each is configured, built and booted."""

from dataclasses import dataclass, replace

from .output import LabError


@dataclass(frozen=True)
class Lane:
    """A kernel configuration and the guests that run it."""

    name: str
    kernel_name: str  # begins the name of the kernel's build folder; lanes with the same kernel share it
    arch: str
    fragments: tuple[str, ...]
    image: str
    target: str
    memory: str
    timeout_factor: int  # multiplies the time limits of scenarios, which are those of the plain lane
    module_flags: tuple[str, ...] = ()  # arguments of make for modules
    kernel_flags: tuple[str, ...] = ()  # arguments of make for the kernel
    kernel_headers: tuple[str, ...] = ()  # files in configs/ that are copied into the kernel's build folder
    parameters: str = ""  # kernel parameters
    cpus: int = 2  # the number that each guest has
    guests: int = 1  # guests that run at the same time, each with a part of the scenarios

    @property
    def is_uml(self) -> bool:
        """True if the guest is user-mode Linux and not a virtual machine."""
        return self.arch == "um"


UML_FLAGS = (
    # UML's module loader supports neither PC-relative nor GOT relocations.
    "KRUSTFLAGS=-Crelocation-model=static -Ccode-model=large",
    # UML has no PCI_IOBASE: asm-generic/io.h warns in every file that includes it.
    "KCFLAGS=-Wno-null-pointer-arithmetic",
)

# slab_debug: a slab cache without debugging keeps stale pointers to allocated objects in its per-CPU sheaves, which
# kmemleak takes for references. stack_depot_max_pools: all suites have more distinct stack traces than KASAN keeps by
# default, and it warns. kasan_multi_shot: KASAN otherwise reports nothing after a known fault of the kernel.
PROOF_PARAMETERS = "slab_debug=Z stack_depot_max_pools=65536 kasan_multi_shot"

# The lane has one CPU: with two, each local_irq_disable() is a system call, and each RCU grace period takes ticks.
UML = Lane(
    name="uml",
    kernel_name="uml",
    arch="um",
    fragments=("common", "uml", "uml-smp", "nvme", "proof", "uml-proof"),
    image="linux",
    target="linux",
    memory="2G",
    timeout_factor=4,
    cpus=1,
    guests=3,
    module_flags=UML_FLAGS,
    kernel_flags=(
        # UML's code model puts variables into .lbss, which UML's linker script does not name: kmemleak would not scan
        # it for references.
        "KCFLAGS=-mlarge-data-threshold=4294967295 -Wno-unused-command-line-argument -Wno-null-pointer-arithmetic",
        "CFLAGS_stacktrace.o=-include uml-stacktrace.h",
        "CFLAGS_signal.o=-include uml-signal.h",
        # stub_signal_restorer() calls rt_sigreturn(), which needs the stack pointer of its entry: with a frame pointer,
        # the first process dies. The other flags are those of the kernel for this file, which this argument replaces.
        "CFLAGS_stub.o=-fno-PIC -fno-stack-protector -fomit-frame-pointer",
    ),
    kernel_headers=("uml-stacktrace.h", "uml-signal.h"),
    parameters=PROOF_PARAMETERS,
)

PLAIN = Lane(
    name="plain",
    kernel_name="plain",
    arch="x86_64",
    fragments=("common", "qemu", "nvme"),
    image="arch/x86/boot/bzImage",
    target="bzImage",
    memory="2G",
    timeout_factor=1,
)

# In the order in which they start: the lane with the longest run is the first.
LANES = {
    lane.name: lane
    for lane in (
        UML,
        replace(UML, name="smp", cpus=2, guests=1),
        Lane(
            name="proof",
            kernel_name="proof",
            arch="x86_64",
            fragments=("common", "qemu", "proof"),
            image="arch/x86/boot/bzImage",
            target="bzImage",
            memory="4G",
            timeout_factor=10,
            parameters=PROOF_PARAMETERS,
        ),
        PLAIN,
        # The plain kernel with the tracer of sections with interrupts disabled, for a benchmark.
        replace(
            PLAIN, name="traced", kernel_name="traced", fragments=("common", "qemu", "traced"), timeout_factor=10
        ),
        Lane(
            name="native",
            kernel_name="native",
            arch="um",
            fragments=("common", "uml", "nvme"),
            image="linux",
            target="linux",
            # Hundreds of connected datagram endpoints take a GiB.
            memory="3G",
            timeout_factor=1,
            cpus=1,
            guests=2,
            module_flags=UML_FLAGS,
        ),
    )
}


def lane(name: str) -> Lane:
    """Returns a lane by its name."""
    if name not in LANES:
        raise LabError(f"no lane is called {name!r}; choose one of {', '.join(LANES)}")
    return LANES[name]
