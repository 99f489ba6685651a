// SPDX-License-Identifier: GPL-2.0

//! Text of attribute structs: trees of `key: value` lines.

use super::{
    super::{
        enum_names,
        fi_bus_attr,
        fi_device_attr,
        fi_domain_attr,
        fi_ep_attr,
        fi_fabric_attr,
        fi_info,
        fi_link_attr,
        fi_rx_attr,
        fi_tx_attr,
        fid_nic,
        flags,
        FI_BUS_PCI, //
    },
    address,
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
        self.text.write_str(key)?;
        self.text.write_str(":")
    }

    pub(super) fn write_line(&mut self, key: &str, value: impl Display) -> fmt::Result {
        self.write_key(key)?;
        self.text.write_fmt(fmt!(" {}\n", value))
    }

    pub(super) fn write_flags(
        &mut self,
        key: &str,
        set: &'static flags::FlagSet,
        value: u64,
    ) -> fmt::Result {
        self.write_key(key)?;
        self.text.write_fmt(fmt!(" [ {} ]\n", set.display(value)))
    }

    /// Writes whether a pointer is set, without the address.
    pub(super) fn pointer<T>(&mut self, key: &str, pointer: *const T) -> fmt::Result {
        self.write_line(key, if pointer.is_null() { "(null)" } else { "(set)" })
    }

    /// # Safety
    ///
    /// `string` is null or points to a NUL-terminated string.
    pub(super) unsafe fn write_string(&mut self, key: &str, string: *const c_char) -> fmt::Result {
        if string.is_null() {
            return self.write_line(key, "(null)");
        }
        // SAFETY: By this function's safety requirement.
        self.write_line(key, unsafe { CStr::from_char_ptr(string) })
    }

    /// # Safety
    ///
    /// The requirements of [`address`].
    unsafe fn write_addr(
        &mut self,
        key: &str,
        format: u32,
        addr: *mut c_void,
        len: usize,
    ) -> fmt::Result {
        // SAFETY: By this function's safety requirement.
        match unsafe { address(format, addr, len) } {
            Some(address) => self.write_line(key, address),
            None => self.write_line(key, "(null)"),
        }
    }

    /// Starts a subtree, one level deeper.
    pub(super) fn subtree<'c>(&'c mut self, key: &str) -> Result<Tree<'c, 'b>, fmt::Error> {
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
            None => self.write_line(T::NAME, "(null)"),
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

impl AttrText for fi_info {
    const NAME: &'static str = "fi_info";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_flags("caps", &flags::CAPS, self.caps)?;
        tree.write_flags("mode", &flags::MODE, self.mode)?;
        tree.write_line(
            "addr_format",
            enum_names::ADDR_FORMAT.display(self.addr_format),
        )?;
        tree.write_line("src_addrlen", self.src_addrlen)?;
        tree.write_line("dest_addrlen", self.dest_addrlen)?;
        // SAFETY: By this function's safety requirement.
        unsafe {
            tree.write_addr(
                "src_addr",
                self.addr_format,
                self.src_addr,
                self.src_addrlen,
            )?
        };
        // SAFETY: As above.
        unsafe {
            tree.write_addr(
                "dest_addr",
                self.addr_format,
                self.dest_addr,
                self.dest_addrlen,
            )?
        };
        tree.pointer("handle", self.handle)?;
        // SAFETY: As above.
        unsafe {
            tree.write_attr(self.tx_attr)?;
            tree.write_attr(self.rx_attr)?;
            tree.write_attr(self.ep_attr)?;
            tree.write_attr(self.domain_attr)?;
            tree.write_attr(self.fabric_attr)?;
            tree.write_attr(self.nic)
        }
    }
}

impl AttrText for fi_tx_attr {
    const NAME: &'static str = "fi_tx_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_flags("caps", &flags::CAPS, self.caps)?;
        tree.write_flags("mode", &flags::MODE, self.mode)?;
        tree.write_flags("op_flags", &flags::OP_FLAGS, self.op_flags)?;
        tree.write_flags("msg_order", &flags::ORDER, self.msg_order)?;
        tree.write_flags("comp_order", &flags::ORDER, self.comp_order)?;
        tree.write_line("inject_size", self.inject_size)?;
        tree.write_line("size", self.size)?;
        tree.write_line("iov_limit", self.iov_limit)?;
        tree.write_line("rma_iov_limit", self.rma_iov_limit)?;
        tree.write_line("tclass", Hex(u64::from(self.tclass)))
    }
}

impl AttrText for fi_rx_attr {
    const NAME: &'static str = "fi_rx_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_flags("caps", &flags::CAPS, self.caps)?;
        tree.write_flags("mode", &flags::MODE, self.mode)?;
        tree.write_flags("op_flags", &flags::OP_FLAGS, self.op_flags)?;
        tree.write_flags("msg_order", &flags::ORDER, self.msg_order)?;
        tree.write_flags("comp_order", &flags::ORDER, self.comp_order)?;
        tree.write_line("total_buffered_recv", self.total_buffered_recv)?;
        tree.write_line("size", self.size)?;
        tree.write_line("iov_limit", self.iov_limit)
    }
}

impl AttrText for fi_ep_attr {
    const NAME: &'static str = "fi_ep_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_line("type", enum_names::EP_TYPE.display(self.type_))?;
        tree.write_line("protocol", enum_names::PROTOCOL.display(self.protocol))?;
        tree.write_line("protocol_version", self.protocol_version)?;
        tree.write_line("max_msg_size", self.max_msg_size)?;
        tree.write_line("msg_prefix_size", self.msg_prefix_size)?;
        tree.write_line("max_order_raw_size", self.max_order_raw_size)?;
        tree.write_line("max_order_war_size", self.max_order_war_size)?;
        tree.write_line("max_order_waw_size", self.max_order_waw_size)?;
        tree.write_line("mem_tag_format", Hex(self.mem_tag_format))?;
        tree.write_line("tx_ctx_cnt", self.tx_ctx_cnt)?;
        tree.write_line("rx_ctx_cnt", self.rx_ctx_cnt)?;
        // The key itself is secret and not displayed.
        tree.write_line("auth_key_size", self.auth_key_size)
    }
}

impl AttrText for fi_domain_attr {
    const NAME: &'static str = "fi_domain_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.pointer("domain", self.domain)?;
        // SAFETY: By this function's safety requirement.
        unsafe { tree.write_string("name", self.name)? };
        tree.write_line("threading", enum_names::THREADING.display(self.threading))?;
        tree.write_line(
            "control_progress",
            enum_names::PROGRESS.display(self.control_progress),
        )?;
        tree.write_line(
            "data_progress",
            enum_names::PROGRESS.display(self.data_progress),
        )?;
        tree.write_line(
            "resource_mgmt",
            enum_names::RESOURCE_MGMT.display(self.resource_mgmt),
        )?;
        tree.write_line("av_type", enum_names::AV_TYPE.display(self.av_type))?;
        tree.write_flags(
            "mr_mode",
            &flags::MR_MODE,
            u64::from(self.mr_mode.cast_unsigned()),
        )?;
        tree.write_line("mr_key_size", self.mr_key_size)?;
        tree.write_line("cq_data_size", self.cq_data_size)?;
        tree.write_line("cq_cnt", self.cq_cnt)?;
        tree.write_line("ep_cnt", self.ep_cnt)?;
        tree.write_line("tx_ctx_cnt", self.tx_ctx_cnt)?;
        tree.write_line("rx_ctx_cnt", self.rx_ctx_cnt)?;
        tree.write_line("max_ep_tx_ctx", self.max_ep_tx_ctx)?;
        tree.write_line("max_ep_rx_ctx", self.max_ep_rx_ctx)?;
        tree.write_line("max_ep_stx_ctx", self.max_ep_stx_ctx)?;
        tree.write_line("max_ep_srx_ctx", self.max_ep_srx_ctx)?;
        tree.write_line("cntr_cnt", self.cntr_cnt)?;
        tree.write_line("mr_iov_limit", self.mr_iov_limit)?;
        tree.write_flags("caps", &flags::CAPS, self.caps)?;
        tree.write_flags("mode", &flags::MODE, self.mode)?;
        tree.write_line("auth_key_size", self.auth_key_size)?;
        tree.write_line("max_err_data", self.max_err_data)?;
        tree.write_line("mr_cnt", self.mr_cnt)?;
        tree.write_line("tclass", Hex(u64::from(self.tclass)))
    }
}

impl AttrText for fi_fabric_attr {
    const NAME: &'static str = "fi_fabric_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.pointer("fabric", self.fabric)?;
        // SAFETY: By this function's safety requirement.
        unsafe { tree.write_string("name", self.name)? };
        // SAFETY: As above.
        unsafe { tree.write_string("prov_name", self.prov_name)? };
        tree.write_line("prov_version", Version(self.prov_version))?;
        tree.write_line("api_version", Version(self.api_version))?;
        tree.pointer("net", self.net)
    }
}

impl AttrText for fid {
    const NAME: &'static str = "fid";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        // No class is beyond 32 bits; such a value is displayed as unknown.
        let class = u32::try_from(self.fclass).unwrap_or(u32::MAX);
        tree.write_line("fclass", enum_names::CLASS.display(class))?;
        tree.pointer("context", self.context)
    }
}

impl AttrText for fid_nic {
    const NAME: &'static str = "nic";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        // SAFETY: By this function's safety requirement.
        unsafe {
            tree.write_attr(self.device_attr)?;
            tree.write_attr(self.bus_attr)?;
            tree.write_attr(self.link_attr)
        }
    }
}

impl AttrText for fi_device_attr {
    const NAME: &'static str = "fi_device_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        // SAFETY: By this function's safety requirement.
        unsafe {
            tree.write_string("name", self.name)?;
            tree.write_string("device_id", self.device_id)?;
            tree.write_string("device_version", self.device_version)?;
            tree.write_string("vendor_id", self.vendor_id)?;
            tree.write_string("driver", self.driver)?;
            tree.write_string("firmware", self.firmware)
        }
    }
}

impl AttrText for fi_bus_attr {
    const NAME: &'static str = "fi_bus_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        tree.write_line("bus_type", enum_names::BUS_TYPE.display(self.bus_type))?;
        if self.bus_type != FI_BUS_PCI {
            return Ok(());
        }
        // SAFETY: It is the union's only member, of plain numbers.
        let pci = unsafe { self.attr.pci };
        let mut tree = tree.subtree("fi_pci_attr")?;
        tree.write_line("domain_id", pci.domain_id)?;
        tree.write_line("bus_id", pci.bus_id)?;
        tree.write_line("device_id", pci.device_id)?;
        tree.write_line("function_id", pci.function_id)
    }
}

impl AttrText for fi_link_attr {
    const NAME: &'static str = "fi_link_attr";

    unsafe fn write_to(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.subtree(Self::NAME)?;
        // SAFETY: By this function's safety requirement.
        unsafe { tree.write_string("address", self.address)? };
        tree.write_line("mtu", self.mtu)?;
        tree.write_line("speed", self.speed)?;
        tree.write_line("state", enum_names::LINK_STATE.display(self.state))?;
        // SAFETY: As above.
        unsafe { tree.write_string("network_type", self.network_type) }
    }
}

/// Displays a number in hexadecimal.
pub(super) struct Hex(pub(super) u64);

impl Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
