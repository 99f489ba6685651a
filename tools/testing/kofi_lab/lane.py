# SPDX-License-Identifier: GPL-2.0
"""The lanes: which kernels there are, and how each is configured and booted."""

from dataclasses import dataclass

from .output import LabError


@dataclass(frozen=True)
class Lane:
    """A kernel configuration and the guest that runs it."""

    name: str
    arch: str
    fragments: tuple[str, ...]
    image: str
    target: str
    memory: str
    timeout_factor: int  # multiplies the time limits of scenarios, which are those of the plain lane
    module_flags: tuple[str, ...] = ()
    kernel_flags: tuple[str, ...] = ()  # for the kernel's own make
    kernel_header: str = ""  # beside the fragments; copied into the kernel's build folder
    words: str = ""  # on the kernel's command line
    guests: int = 1  # how many run at once, each with a share of the scenarios

    @property
    def is_uml(self) -> bool:
        """Whether the kernel is a process of this machine rather than a virtual machine."""
        return self.arch == "um"


UML_FLAGS = (
    # UML's module loader knows neither PC-relative nor GOT relocations.
    "KRUSTFLAGS=-Crelocation-model=static -Ccode-model=large",
    # UML has no PCI_IOBASE: asm-generic/io.h warns in every file that includes it.
    "KCFLAGS=-Wno-null-pointer-arithmetic",
)

# A slab cache without debugging keeps stale pointers to allocated objects in its per-CPU sheaves, and
# kmemleak takes those for references. All suites have more distinct stack traces than KASAN keeps by
# default, which it warns about. Known reports about the kernel itself do not hide later ones.
PROOF_WORDS = "slab_debug=Z stack_depot_max_pools=65536 kasan_multi_shot"

# In the order in which they begin: the one with the most to do first.
LANES = {
    lane.name: lane
    for lane in (
        Lane(
            name="uml",
            arch="um",
            fragments=("common", "uml", "proof", "uml-proof"),
            image="linux",
            target="linux",
            memory="2G",
            timeout_factor=4,
            guests=3,
            module_flags=UML_FLAGS,
            # UML's code model puts variables into .lbss, which its linker script does not know: kmemleak would
            # not look there for references.
            kernel_flags=(
                "KCFLAGS=-mlarge-data-threshold=4294967295 -Wno-unused-command-line-argument"
                " -Wno-null-pointer-arithmetic",
                "CFLAGS_stacktrace.o=-include uml-stacktrace.h",
            ),
            kernel_header="uml-stacktrace.h",
            words=PROOF_WORDS,
        ),
        Lane(
            name="proof",
            arch="x86_64",
            fragments=("common", "qemu", "proof"),
            image="arch/x86/boot/bzImage",
            target="bzImage",
            memory="4G",
            timeout_factor=10,
            words=PROOF_WORDS,
        ),
        Lane(
            name="plain",
            arch="x86_64",
            fragments=("common", "qemu"),
            image="arch/x86/boot/bzImage",
            target="bzImage",
            memory="2G",
            timeout_factor=1,
        ),
        Lane(
            name="native",
            arch="um",
            fragments=("common", "uml"),
            image="linux",
            target="linux",
            memory="1G",
            timeout_factor=1,
            guests=2,
            module_flags=UML_FLAGS,
        ),
    )
}


def lane(name: str) -> Lane:
    """Returns the lane of that name."""
    if name not in LANES:
        raise LabError(f"no lane {name!r}; there are: {', '.join(LANES)}")
    return LANES[name]
