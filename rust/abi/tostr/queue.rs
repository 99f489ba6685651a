// SPDX-License-Identifier: GPL-2.0

//! Text of queue attributes and error entries, as trees, for types that libfabric's `enum fi_type` lacks.

use super::{
    super::{
        enum_names,
        errno,
        fi_av_attr,
        fi_cntr_attr,
        fi_cq_attr,
        fi_cq_err_entry,
        fi_eq_attr,
        fi_eq_err_entry,
        flags, //
    },
    attr::{
        AttrText,
        Hex,
        Tree, //
    },
};
use kernel::{
    fmt::{
        self,
        Display, //
    },
    prelude::*, //
};

/// Displays the errno of an error entry: its name and its meaning.
struct ErrnoText(c_int);

impl Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match errno::Errno::new(self.0).and_then(errno::Errno::name) {
            Some(name) => f.write_fmt(fmt!("{} ({})", name, super::Error(self.0))),
            None => write!(f, "{}", self.0),
        }
    }
}

impl AttrText for fi_cq_err_entry {
    const NAME: &'static str = "fi_cq_err_entry";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.pointer("op_context", self.op_context)?;
        tree.write_flags("flags", &flags::COMPLETION_FLAGS, self.flags)?;
        tree.write_line("len", self.len)?;
        tree.pointer("buf", self.buf)?;
        tree.write_line("data", Hex(self.data))?;
        tree.write_line("tag", Hex(self.tag))?;
        tree.write_line("olen", self.olen)?;
        tree.write_line("err", ErrnoText(self.err))?;
        tree.write_line("prov_errno", self.prov_errno)?;
        tree.write_line("err_data_size", self.err_data_size)?;
        tree.write_line("src_addr", Hex(self.src_addr))
    }
}

impl AttrText for fi_eq_err_entry {
    const NAME: &'static str = "fi_eq_err_entry";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        // The object may have been closed, and is not read.
        tree.pointer("fid", self.fid)?;
        tree.pointer("context", self.context)?;
        tree.write_line("data", self.data)?;
        tree.write_line("err", ErrnoText(self.err))?;
        tree.write_line("prov_errno", self.prov_errno)?;
        tree.write_line("err_data_size", self.err_data_size)
    }
}

impl AttrText for fi_cq_attr {
    const NAME: &'static str = "fi_cq_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_line("size", self.size)?;
        tree.write_line("flags", Hex(self.flags))?;
        tree.write_line("format", enum_names::CQ_FORMAT.display(self.format))?;
        tree.write_line("wait_obj", enum_names::WAIT_OBJ.display(self.wait_obj))?;
        tree.write_line("signaling_vector", self.signaling_vector)?;
        tree.write_line(
            "wait_cond",
            enum_names::CQ_WAIT_COND.display(self.wait_cond),
        )?;
        tree.pointer("wait_set", self.wait_set)?;
        tree.write_line(
            "cq_event_handler",
            presence_text(self.cq_event_handler.is_some()),
        )
    }
}

impl AttrText for fi_eq_attr {
    const NAME: &'static str = "fi_eq_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_line("size", self.size)?;
        tree.write_line("flags", Hex(self.flags))?;
        tree.write_line("wait_obj", enum_names::WAIT_OBJ.display(self.wait_obj))?;
        tree.write_line("signaling_vector", self.signaling_vector)?;
        tree.pointer("wait_set", self.wait_set)?;
        tree.write_line(
            "eq_event_handler",
            presence_text(self.eq_event_handler.is_some()),
        )
    }
}

impl AttrText for fi_cntr_attr {
    const NAME: &'static str = "fi_cntr_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_line("events", enum_names::CNTR_EVENTS.display(self.events))?;
        tree.write_line("wait_obj", enum_names::WAIT_OBJ.display(self.wait_obj))?;
        tree.pointer("wait_set", self.wait_set)?;
        tree.write_line("flags", Hex(self.flags))
    }
}

impl AttrText for fi_av_attr {
    const NAME: &'static str = "fi_av_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_line("type", enum_names::AV_TYPE.display(self.type_))?;
        tree.write_line("rx_ctx_bits", self.rx_ctx_bits)?;
        tree.write_line("count", self.count)?;
        tree.write_line("ep_per_node", self.ep_per_node)?;
        // SAFETY: By this function's safety requirement.
        unsafe { tree.write_string("name", self.name)? };
        tree.pointer("map_addr", self.map_addr)?;
        tree.write_line("flags", Hex(self.flags))
    }
}

fn presence_text(is_set: bool) -> &'static str {
    match is_set {
        true => "(set)",
        false => "(null)",
    }
}

#[kunit_tests(kofi_abi_tostr_queue)]
mod tests {
    use super::*;
    use crate::abi::{
        self,
        tostr::{
            write_value,
            Text, //
        },
    };
    use core::ptr;
    use pin_init::zeroed;

    // Returns a result instead of asserting, as in the tests of `tostr`.
    fn formats_as<T>(value: &T, datatype: abi::fi_type, expected: &str) -> bool {
        let mut buf = [0; 384];
        let mut text = Text::new(&mut buf);
        // SAFETY: `datatype` stands for the type of `value`, which has no pointers.
        let known = unsafe { write_value(ptr::from_ref(value).cast(), datatype, &mut text) };
        known && text.as_bytes() == expected.as_bytes()
    }

    #[test]
    fn error_entry_names_its_errno() {
        let entry = fi_cq_err_entry {
            flags: abi::FI_MSG | abi::FI_RECV,
            err: abi::Errno::ECANCELED.code(),
            prov_errno: 5,
            ..zeroed()
        };
        let expected = "fi_cq_err_entry:\n    op_context: (null)\n    flags: [ FI_MSG, FI_RECV ]\n\
            \x20   len: 0\n    buf: (null)\n    data: 0x0\n    tag: 0x0\n    olen: 0\n\
            \x20   err: FI_ECANCELED (Operation canceled)\n    prov_errno: 5\n    err_data_size: 0\n\
            \x20   src_addr: 0x0\n";
        assert!(formats_as(&entry, abi::FI_TYPE_CQ_ERR_ENTRY, expected));
        let entry = fi_eq_err_entry {
            err: 4000,
            prov_errno: -111,
            ..zeroed()
        };
        let expected = "fi_eq_err_entry:\n    fid: (null)\n    context: (null)\n    data: 0\n\
            \x20   err: 4000\n    prov_errno: -111\n    err_data_size: 0\n";
        assert!(formats_as(&entry, abi::FI_TYPE_EQ_ERR_ENTRY, expected));
    }

    #[test]
    fn queue_attributes_are_formatted() {
        let attr = fi_cq_attr {
            size: 64,
            format: abi::FI_CQ_FORMAT_MSG,
            wait_obj: abi::FI_WAIT_QUEUE,
            wait_cond: abi::FI_CQ_COND_THRESHOLD,
            ..zeroed()
        };
        let expected = "fi_cq_attr:\n    size: 64\n    flags: 0x0\n    format: FI_CQ_FORMAT_MSG\n\
            \x20   wait_obj: FI_WAIT_QUEUE\n    signaling_vector: 0\n\
            \x20   wait_cond: FI_CQ_COND_THRESHOLD\n    wait_set: (null)\n    cq_event_handler: (null)\n";
        assert!(formats_as(&attr, abi::FI_TYPE_CQ_ATTR, expected));
        let attr: fi_eq_attr = zeroed();
        let expected = "fi_eq_attr:\n    size: 0\n    flags: 0x0\n    wait_obj: FI_WAIT_NONE\n\
            \x20   signaling_vector: 0\n    wait_set: (null)\n    eq_event_handler: (null)\n";
        assert!(formats_as(&attr, abi::FI_TYPE_EQ_ATTR, expected));
        let attr: fi_cntr_attr = zeroed();
        let expected =
            "fi_cntr_attr:\n    events: FI_CNTR_EVENTS_COMP\n    wait_obj: FI_WAIT_NONE\n\
            \x20   wait_set: (null)\n    flags: 0x0\n";
        assert!(formats_as(&attr, abi::FI_TYPE_CNTR_ATTR, expected));
        let attr = fi_av_attr {
            type_: abi::FI_AV_TABLE,
            count: 8,
            ..zeroed()
        };
        let expected = "fi_av_attr:\n    type: FI_AV_TABLE\n    rx_ctx_bits: 0\n    count: 8\n\
            \x20   ep_per_node: 0\n    name: (null)\n    map_addr: (null)\n    flags: 0x0\n";
        assert!(formats_as(&attr, abi::FI_TYPE_AV_ATTR, expected));
    }
}
