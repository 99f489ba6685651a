# SPDX-License-Identifier: GPL-2.0
"""The layering check sees every way of naming a room."""

import unittest

from kofi_lab.layers import layering, uncharging, unsafety


class LayersTest(unittest.TestCase):
    """Small files that break or keep the rules."""

    def test_forbidden_edges(self) -> None:
        for text in (
            "use crate::prov::verbs;",
            "use crate::{abi::errno, prov};",
            "use crate::{\n    abi,\n    rdma::{cq, qp},\n};",
            "fn f() { crate::rdma::x() }",
            "use super::super::prov::x;",
        ):
            self.assertTrue(layering("rust/fi/cq.rs", text), text)

    def test_allowed_edges(self) -> None:
        for text in (
            "use crate::{abi::errno, fi::eq};",
            "use super::eq;",
            "// crate::prov would be wrong",
            'let x = "crate::prov";',
        ):
            self.assertFalse(layering("rust/fi/cq.rs", text), text)
        self.assertFalse(layering("rust/kofi.rs", "use crate::prov;"))

    def test_unsafe(self) -> None:
        self.assertTrue(unsafety("rust/fi/cq.rs", "unsafe { x() }"))
        self.assertTrue(unsafety("samples/rust/a.rs", "unsafe impl Send for X {}"))
        self.assertFalse(unsafety("rust/fi/cq.rs", "// unsafe\n#![forbid(unsafe_code)]"))
        self.assertFalse(unsafety("rust/fi/memory.rs", "unsafe { x() }"))
        self.assertFalse(unsafety("rust/rdma/qp.rs", "unsafe { x() }"))
        self.assertTrue(unsafety("rust/prov/verbs/state.rs", "unsafe { x() }"))

    def test_uncharged(self) -> None:
        for flags in ("GFP_KERNEL", "GFP_NOWAIT", "GFP_KERNEL | __GFP_NOWARN"):
            self.assertTrue(uncharging("rust/dev/info.rs", f"KBox::new(0, {flags})?"), flags)
        self.assertFalse(uncharging("rust/dev.rs", "KBox::new(0, GFP_KERNEL_ACCOUNT)?"))
        self.assertFalse(uncharging("rust/fi/cq.rs", "KBox::new(0, GFP_KERNEL)?"))
        tests = "#[kunit_tests(x)]\nmod tests { KBox::new(0, GFP_KERNEL)?; }"
        self.assertFalse(uncharging("rust/dev/info.rs", tests))


if __name__ == "__main__":
    unittest.main()
