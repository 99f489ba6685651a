// SPDX-License-Identifier: GPL-2.0

//! Text of attribute structs and error entries: trees of `key: value` lines. Queue attributes and error entries
//! have types of their own, which libfabric's `enum fi_type` lacks.

use super::{
    super::*,
    Text,
    Version, //
};
use crate::prelude::*;
use kernel::{
    error::Result,
    fmt::{
        self,
        Display,
        Write, //
    },
};

/// Position in the tree at which the next line is written.
pub(super) struct Tree<'a, 'b> {
    text: &'a mut Text<'b>,
    depth: usize,
}

impl<'a, 'b> Tree<'a, 'b> {
    pub(super) fn new(text: &'a mut Text<'b>) -> Self {
        Self { text, depth: 0 }
    }

    fn write_key(&mut self, key: &str) -> fmt::Result {
        for _ in 0..self.depth {
            self.text.write_str("    ")?;
        }
        // bindgen appends an underscore to a field whose name is a keyword.
        self.text.write_str(key.trim_end_matches('_'))?;
        self.text.write_str(":")
    }

    fn write_line(&mut self, key: &str, value: impl Display) -> fmt::Result {
        self.write_key(key)?;
        self.text.write_fmt(fmt!(" {}\n", value))
    }

    fn write_flags(&mut self, key: &str, set: &'static flags::FlagSet, value: u64) -> fmt::Result {
        self.write_key(key)?;
        self.text.write_fmt(fmt!(" [ {} ]\n", set.display(value)))
    }

    /// Writes whether a pointer is set, without the address.
    fn write_is_set(&mut self, key: &str, is_set: bool) -> fmt::Result {
        self.write_line(key, if is_set { "(set)" } else { "(null)" })
    }

    /// # Safety
    ///
    /// `string` is null or points to a NUL-terminated string.
    unsafe fn write_string(&mut self, key: &str, string: *const c_char) -> fmt::Result {
        if string.is_null() {
            return self.write_is_set(key, false);
        }
        // SAFETY: By this function's safety requirement.
        self.write_line(key, unsafe { CStr::from_char_ptr(string) })
    }

    /// # Safety
    ///
    /// `addr` is null or valid for reads of `len` bytes.
    unsafe fn write_addr(
        &mut self,
        key: &str,
        format: u32,
        addr: *const c_void,
        len: usize,
    ) -> fmt::Result {
        if addr.is_null() {
            return self.write_is_set(key, false);
        }
        // SAFETY: By this function's safety requirement.
        let bytes = unsafe { slice::from_raw_parts(addr.cast(), len) };
        self.write_line(key, addr::Address { format, bytes })
    }

    /// Starts a subtree, one level deeper.
    fn subtree<'c>(&'c mut self, key: &str) -> Result<Tree<'c, 'b>, fmt::Error> {
        self.write_key(key)?;
        self.text.write_str("\n")?;
        Ok(Tree {
            text: self.text,
            depth: self.depth + 1,
        })
    }

    /// # Safety
    ///
    /// `attr` is null or valid for reads, with what it points to.
    unsafe fn write_attr<T: AttrText>(&mut self, attr: *const T) -> fmt::Result {
        // SAFETY: By this function's safety requirement.
        match unsafe { attr.as_ref() } {
            // SAFETY: As above.
            Some(attr) => unsafe { attr.write_to(self) },
            None => self.write_is_set(T::NAME, false),
        }
    }
}

/// A struct that can be displayed.
pub(super) trait AttrText {
    /// Key of its tree.
    const NAME: &'static str;

    /// # Safety
    ///
    /// Pointers in the struct are valid for reads: names are NUL-terminated, addresses have the length in the
    /// field beside them.
    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result;
}

/// Writes the line of a field, in the form that the words behind the field's name choose; without any, a value with
/// [`Display`].
macro_rules! write_field {
    ($tree:ident, $attr:ident, $field:ident) => {
        $tree.write_line(stringify!($field), $attr.$field)?
    };
    // A number in hexadecimal.
    ($tree:ident, $attr:ident, $field:ident hex) => {
        $tree.write_line(stringify!($field), Hex($attr.$field.into()))?
    };
    // A version as FI_VERSION() forms it.
    ($tree:ident, $attr:ident, $field:ident version) => {
        $tree.write_line(stringify!($field), Version($attr.$field))?
    };
    // An errno, by name and meaning.
    ($tree:ident, $attr:ident, $field:ident errno) => {
        $tree.write_line(stringify!($field), ErrnoText($attr.$field))?
    };
    // A value of an enumeration.
    ($tree:ident, $attr:ident, $field:ident one of $names:ident) => {
        $tree.write_line(stringify!($field), enum_names::$names.display($attr.$field))?
    };
    // A set of flags.
    ($tree:ident, $attr:ident, $field:ident flags $set:ident) => {
        $tree.write_flags(stringify!($field), &flags::$set, $attr.$field)?
    };
    // A set of flags in an `int`.
    ($tree:ident, $attr:ident, $field:ident int flags $set:ident) => {
        $tree.write_flags(
            stringify!($field),
            &flags::$set,
            ($attr.$field as u32).into(),
        )?
    };
    // Whether a pointer is set.
    ($tree:ident, $attr:ident, $field:ident pointer) => {
        $tree.write_is_set(stringify!($field), !$attr.$field.is_null())?
    };
    // Whether a function is set.
    ($tree:ident, $attr:ident, $field:ident handler) => {
        $tree.write_is_set(stringify!($field), $attr.$field.is_some())?
    };
    // A C string.
    ($tree:ident, $attr:ident, $field:ident string) => {
        // SAFETY: By the safety requirement of `AttrText::write_to`, for which this macro is used.
        unsafe { $tree.write_string(stringify!($field), $attr.$field) }?
    };
    // An address of the info's format, with its length.
    ($tree:ident, $attr:ident, $field:ident addr $len:ident) => {
        // SAFETY: As above.
        unsafe {
            $tree.write_addr(
                stringify!($field),
                $attr.addr_format,
                $attr.$field,
                $attr.$len,
            )
        }?
    };
    // Another struct.
    ($tree:ident, $attr:ident, $field:ident subtree) => {
        // SAFETY: As above.
        unsafe { $tree.write_attr($attr.$field) }?
    };
}

/// Implements [`AttrText`]: for each struct its key, and its fields as [`write_field`] takes them, in the order of
/// the lines.
macro_rules! attr_texts {
    ($($type:ident $key:literal { $($field:ident $($form:ident)*,)* })*) => {
        $(impl AttrText for $type {
            const NAME: &'static str = $key;

            unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
                let mut tree = tree.subtree(Self::NAME)?;
                $(write_field!(tree, self, $field $($form)*);)*
                Ok(())
            }
        })*
    };
}

// The bytes of `auth_key` are secret and not displayed.
attr_texts! {
    fi_info "fi_info" {
        caps flags CAPS, mode flags MODE, addr_format one of ADDR_FORMAT, src_addrlen, dest_addrlen,
        src_addr addr src_addrlen, dest_addr addr dest_addrlen, handle pointer, tx_attr subtree,
        rx_attr subtree, ep_attr subtree, domain_attr subtree, fabric_attr subtree, nic subtree,
    }
    fi_tx_attr "fi_tx_attr" {
        caps flags CAPS, mode flags MODE, op_flags flags OP_FLAGS, msg_order flags ORDER,
        comp_order flags ORDER, inject_size, size, iov_limit, rma_iov_limit, tclass hex,
    }
    fi_rx_attr "fi_rx_attr" {
        caps flags CAPS, mode flags MODE, op_flags flags OP_FLAGS, msg_order flags ORDER,
        comp_order flags ORDER, total_buffered_recv, size, iov_limit,
    }
    fi_ep_attr "fi_ep_attr" {
        type_ one of EP_TYPE, protocol one of PROTOCOL, protocol_version, max_msg_size,
        msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size,
        mem_tag_format hex, tx_ctx_cnt, rx_ctx_cnt, auth_key_size,
    }
    fi_domain_attr "fi_domain_attr" {
        domain pointer, name string, threading one of THREADING, control_progress one of PROGRESS,
        data_progress one of PROGRESS, resource_mgmt one of RESOURCE_MGMT, av_type one of AV_TYPE,
        mr_mode int flags MR_MODE, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt,
        max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit,
        caps flags CAPS, mode flags MODE, auth_key_size, max_err_data, mr_cnt, tclass hex,
    }
    fi_fabric_attr "fi_fabric_attr" {
        fabric pointer, name string, prov_name string, prov_version version, api_version version,
        net pointer,
    }
    fid "fid" { fclass one of CLASS, context pointer, }
    fi_kofi_nic_attr "fi_kofi_nic_attr" { numa_node, comp_vectors, }
    fi_device_attr "fi_device_attr" {
        name string, device_id string, device_version string, vendor_id string, driver string,
        firmware string,
    }
    fi_pci_attr "fi_pci_attr" { domain_id, bus_id, device_id, function_id, }
    fi_link_attr "fi_link_attr" {
        address string, mtu, speed, state one of LINK_STATE, network_type string,
    }
    // The event queue's object may have been closed, and is not read.
    fi_eq_err_entry "fi_eq_err_entry" {
        fid pointer, context pointer, data, err errno, prov_errno, err_data_size,
    }
    fi_cq_err_entry "fi_cq_err_entry" {
        op_context pointer, flags flags COMPLETION_FLAGS, len, buf pointer, data hex, tag hex, olen,
        err errno, prov_errno, err_data_size, src_addr hex,
    }
    fi_cq_attr "fi_cq_attr" {
        size, flags hex, format one of CQ_FORMAT, wait_obj one of WAIT_OBJ, signaling_vector,
        wait_cond one of CQ_WAIT_COND, wait_set pointer, cq_event_handler handler,
    }
    fi_eq_attr "fi_eq_attr" {
        size, flags hex, wait_obj one of WAIT_OBJ, signaling_vector, wait_set pointer,
        eq_event_handler handler,
    }
    fi_cntr_attr "fi_cntr_attr" {
        events one of CNTR_EVENTS, wait_obj one of WAIT_OBJ, wait_set pointer, flags hex,
    }
    fi_av_attr "fi_av_attr" {
        type_ one of AV_TYPE, rx_ctx_bits, count, ep_per_node, name string, map_addr pointer,
        flags hex,
    }
}

impl AttrText for fi_bus_attr {
    const NAME: &'static str = "fi_bus_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        write_field!(tree, self, bus_type one of BUS_TYPE);
        if self.bus_type == FI_BUS_PCI {
            // SAFETY: It is the union's only member, of plain numbers without pointers.
            unsafe { self.attr.pci.write_to(&mut tree) }?;
        }
        Ok(())
    }
}

impl AttrText for fid_nic {
    const NAME: &'static str = "nic";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        write_field!(tree, self, device_attr subtree);
        write_field!(tree, self, bus_attr subtree);
        write_field!(tree, self, link_attr subtree);
        // SAFETY: A description is valid for reads.
        match unsafe { nic::kofi_attr(self) } {
            // SAFETY: It has no pointers.
            Some(attr) => unsafe { attr.write_to(&mut tree) },
            None => Ok(()),
        }
    }
}

/// Displays a number in hexadecimal.
struct Hex(u64);

impl Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Displays the errno of an error entry: its name and its meaning.
struct ErrnoText(c_int);

impl Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Errno::new(self.0).and_then(Errno::name) {
            Some(name) => f.write_fmt(fmt!("{} ({})", name, super::Error(self.0))),
            None => write!(f, "{}", self.0),
        }
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
