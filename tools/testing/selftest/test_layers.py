# SPDX-License-Identifier: GPL-2.0
"""Tests of the checks of layers, unsafe code and memory accounting."""

import unittest

from kofi_lab.layers import forbidden_unsafe, forbidden_uses, safe_functions_with_contracts
from kofi_lab.layers import series_conditions, unaccounted_allocations


class LayersTest(unittest.TestCase):
    """Small files with and without errors."""

    def test_forbidden_edges(self) -> None:
        for text in (
            "use crate::prov::verbs;",
            "use crate::{abi::errno, prov};",
            "use crate::{\n    abi,\n    rdma::{cq, qp},\n};",
            "fn f() { crate::rdma::x() }",
            "use super::super::prov::x;",
        ):
            self.assertTrue(forbidden_uses("rust/fi/cq.rs", text), text)

    def test_allowed_edges(self) -> None:
        for text in (
            "use crate::{abi::errno, fi::eq};",
            "use super::eq;",
            "// crate::prov would be wrong",
            'let x = "crate::prov";',
        ):
            self.assertFalse(forbidden_uses("rust/fi/cq.rs", text), text)
        self.assertFalse(forbidden_uses("rust/kofi.rs", "use crate::prov;"))

    def test_conditions_on_the_series_of_linux_are_in_one_file(self) -> None:
        for name, text in (
            ("rust/fi/cq.rs", "#[cfg(kofi_before_7_3)]\nuse x;"),
            ("samples/rust/hello.rs", "if cfg!(kofi_before_7_3) {}"),
            ("rust/util/lock.c", "#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 3, 0)"),
        ):
            self.assertTrue(series_conditions(name, text), text)
            self.assertFalse(series_conditions("rust/compat.rs", text), text)
        self.assertFalse(series_conditions("rust/fi/cq.rs", "// Linux 7.3, kofi_before_7_3\nuse crate::compat;"))

    def test_safe_functions_that_rely_on_their_callers(self) -> None:
        def is_found(text: str) -> bool:
            return bool(safe_functions_with_contracts("rust/abi/a.rs", text))

        body = " f(p: *const u8) {\n    // SAFETY: The caller keeps it,\n    // as it is.\n    unsafe { g(p) };\n}\n"
        self.assertTrue(is_found("pub fn" + body))
        self.assertFalse(is_found("pub unsafe fn" + body))
        self.assertFalse(is_found("pub fn" + body.replace("The caller keeps", "The type keeps")))
        self.assertFalse(is_found("pub fn" + body.replace("The caller", "The C caller")))
        self.assertTrue(is_found("fn f() {\n    // INVARIANT: By this function's contract.\n    A(1)\n}\n"))
        documented = "/// Does it. The caller holds it.\n#[inline]\nfn f(p: *const u8) {\n    unsafe { g(p) };\n}\n"
        self.assertTrue(is_found(documented))
        self.assertFalse(is_found(documented.replace("The caller holds", "Takes")))
        self.assertFalse(is_found(documented.replace("fn f", "unsafe fn f")))
        self.assertFalse(is_found(documented.replace("unsafe { g(p) }", "g(p)")))

    def test_unsafe(self) -> None:
        self.assertTrue(forbidden_unsafe("rust/fi/cq.rs", "unsafe { x() }"))
        self.assertTrue(forbidden_unsafe("samples/rust/a.rs", "unsafe impl Send for X {}"))
        self.assertFalse(forbidden_unsafe("rust/fi/cq.rs", "// unsafe\n#![forbid(unsafe_code)]"))
        self.assertFalse(forbidden_unsafe("rust/fi/memory.rs", "unsafe { x() }"))
        self.assertFalse(forbidden_unsafe("rust/rdma/qp.rs", "unsafe { x() }"))
        self.assertTrue(forbidden_unsafe("rust/prov/verbs/state.rs", "unsafe { x() }"))

    def test_uncharged(self) -> None:
        for flags in ("GFP_KERNEL", "GFP_NOWAIT", "GFP_KERNEL | __GFP_NOWARN"):
            self.assertTrue(unaccounted_allocations("rust/dev/info.rs", f"KBox::new(0, {flags})?"), flags)
        self.assertFalse(unaccounted_allocations("rust/dev.rs", "KBox::new(0, GFP_KERNEL_ACCOUNT)?"))
        self.assertFalse(unaccounted_allocations("rust/fi/cq.rs", "KBox::new(0, GFP_KERNEL)?"))
        for attribute in ("kunit_tests", "kernel::prelude::kunit_tests"):
            tests = f"#[{attribute}(x)]\nmod tests {{ KBox::new(0, GFP_KERNEL)?; }}"
            self.assertFalse(unaccounted_allocations("rust/dev/info.rs", tests), attribute)


if __name__ == "__main__":
    unittest.main()
