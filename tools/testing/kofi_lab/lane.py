# SPDX-License-Identifier: GPL-2.0
"""The lanes: which kernels there are, and how each is configured and booted."""

from dataclasses import dataclass

from .say import LabError


@dataclass(frozen=True)
class Lane:
    """A kernel configuration and the guest that runs it."""

    name: str
    arch: str
    fragments: tuple[str, ...]
    image: str
    target: str
    memory: str
    patience: int  # how many times slower than the plain lane a scenario may be
    module_flags: tuple[str, ...] = ()
    words: str = ""  # on the kernel's command line

    @property
    def is_uml(self) -> bool:
        """Whether the kernel is a process of this machine rather than a virtual machine."""
        return self.arch == "um"


LANES = {
    lane.name: lane
    for lane in (
        Lane(
            name="uml",
            arch="um",
            fragments=("common", "uml"),
            image="linux",
            target="linux",
            memory="1G",
            patience=1,
            module_flags=(
                # UML's module loader knows neither PC-relative nor GOT relocations.
                "KRUSTFLAGS=-Crelocation-model=static -Ccode-model=large",
                # UML has no PCI_IOBASE: asm-generic/io.h warns in every file that includes it.
                "KCFLAGS=-Wno-null-pointer-arithmetic",
            ),
        ),
        Lane(
            name="plain",
            arch="x86_64",
            fragments=("common", "qemu"),
            image="arch/x86/boot/bzImage",
            target="bzImage",
            memory="2G",
            patience=1,
        ),
        Lane(
            name="proof",
            arch="x86_64",
            fragments=("common", "qemu", "proof"),
            image="arch/x86/boot/bzImage",
            target="bzImage",
            memory="4G",
            patience=10,
            # A slab cache without debugging keeps stale pointers to what it gave out in its per-CPU
            # sheaves, and kmemleak takes those for references. All suites have more kinds of stacks
            # than KASAN keeps by itself, which it warns of. What is known of the kernel's own does not
            # keep it from telling of the next.
            words="slab_debug=Z stack_depot_max_pools=65536 kasan_multi_shot",
        ),
    )
}


def lane(name: str) -> Lane:
    """The lane of that name."""
    if name not in LANES:
        raise LabError(f"no lane {name!r}; there are: {', '.join(LANES)}")
    return LANES[name]
