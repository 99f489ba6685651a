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
        fid,
        fid_nic,
        flags,
        FI_BUS_PCI, //
    },
    address,
    Text,
    Version, //
};
use kernel::{
    fmt::{
        self,
        Display,
        Write, //
    },
    prelude::*, //
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

    fn key(&mut self, key: &str) -> fmt::Result {
        for _ in 0..self.depth {
            self.text.write_str("    ")?;
        }
        self.text.write_str(key)?;
        self.text.write_str(":")
    }

    pub(super) fn line(&mut self, key: &str, value: impl Display) -> fmt::Result {
        self.key(key)?;
        self.text.write_fmt(fmt!(" {}\n", value))
    }

    pub(super) fn flags(
        &mut self,
        key: &str,
        set: &'static flags::FlagSet,
        value: u64,
    ) -> fmt::Result {
        self.key(key)?;
        self.text.write_fmt(fmt!(" [ {} ]\n", set.show(value)))
    }

    /// Writes whether a pointer is set, without the address.
    pub(super) fn presence<T>(&mut self, key: &str, pointer: *const T) -> fmt::Result {
        self.line(key, if pointer.is_null() { "(null)" } else { "(set)" })
    }

    /// # Safety
    ///
    /// `string` is null or points to a NUL-terminated string.
    pub(super) unsafe fn string(&mut self, key: &str, string: *const c_char) -> fmt::Result {
        if string.is_null() {
            return self.line(key, "(null)");
        }
        // SAFETY: By this function's safety requirement.
        self.line(key, unsafe { CStr::from_char_ptr(string) })
    }

    /// # Safety
    ///
    /// The requirements of [`address`].
    unsafe fn addr(
        &mut self,
        key: &str,
        format: u32,
        addr: *mut c_void,
        len: usize,
    ) -> fmt::Result {
        // SAFETY: By this function's safety requirement.
        match unsafe { address(format, addr, len) } {
            Some(address) => self.line(key, address),
            None => self.line(key, "(null)"),
        }
    }

    /// Starts a subtree, one level deeper.
    pub(super) fn inner<'c>(&'c mut self, key: &str) -> Result<Tree<'c, 'b>, fmt::Error> {
        self.key(key)?;
        self.text.write_str("\n")?;
        Ok(Tree {
            text: self.text,
            depth: self.depth + 1,
        })
    }

    /// # Safety
    ///
    /// `attr` is null or valid for reads, with what it points to.
    unsafe fn attr<T: AttrText>(&mut self, attr: *const T) -> fmt::Result {
        // SAFETY: By this function's safety requirement.
        match unsafe { attr.as_ref() } {
            // SAFETY: As above.
            Some(attr) => unsafe { attr.show(self) },
            None => self.line(T::NAME, "(null)"),
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
    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result;
}

impl AttrText for fi_info {
    const NAME: &'static str = "fi_info";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        tree.flags("caps", &flags::CAPS, self.caps)?;
        tree.flags("mode", &flags::MODE, self.mode)?;
        tree.line(
            "addr_format",
            enum_names::ADDR_FORMAT.show(self.addr_format),
        )?;
        tree.line("src_addrlen", self.src_addrlen)?;
        tree.line("dest_addrlen", self.dest_addrlen)?;
        // SAFETY: By this function's safety requirement.
        unsafe {
            tree.addr(
                "src_addr",
                self.addr_format,
                self.src_addr,
                self.src_addrlen,
            )?
        };
        // SAFETY: As above.
        unsafe {
            tree.addr(
                "dest_addr",
                self.addr_format,
                self.dest_addr,
                self.dest_addrlen,
            )?
        };
        tree.presence("handle", self.handle)?;
        // SAFETY: As above.
        unsafe {
            tree.attr(self.tx_attr)?;
            tree.attr(self.rx_attr)?;
            tree.attr(self.ep_attr)?;
            tree.attr(self.domain_attr)?;
            tree.attr(self.fabric_attr)?;
            tree.attr(self.nic)
        }
    }
}

impl AttrText for fi_tx_attr {
    const NAME: &'static str = "fi_tx_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        tree.flags("caps", &flags::CAPS, self.caps)?;
        tree.flags("mode", &flags::MODE, self.mode)?;
        tree.flags("op_flags", &flags::OP_FLAGS, self.op_flags)?;
        tree.flags("msg_order", &flags::ORDER, self.msg_order)?;
        tree.flags("comp_order", &flags::ORDER, self.comp_order)?;
        tree.line("inject_size", self.inject_size)?;
        tree.line("size", self.size)?;
        tree.line("iov_limit", self.iov_limit)?;
        tree.line("rma_iov_limit", self.rma_iov_limit)?;
        tree.line("tclass", Hex(u64::from(self.tclass)))
    }
}

impl AttrText for fi_rx_attr {
    const NAME: &'static str = "fi_rx_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        tree.flags("caps", &flags::CAPS, self.caps)?;
        tree.flags("mode", &flags::MODE, self.mode)?;
        tree.flags("op_flags", &flags::OP_FLAGS, self.op_flags)?;
        tree.flags("msg_order", &flags::ORDER, self.msg_order)?;
        tree.flags("comp_order", &flags::ORDER, self.comp_order)?;
        tree.line("total_buffered_recv", self.total_buffered_recv)?;
        tree.line("size", self.size)?;
        tree.line("iov_limit", self.iov_limit)
    }
}

impl AttrText for fi_ep_attr {
    const NAME: &'static str = "fi_ep_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        tree.line("type", enum_names::EP_TYPE.show(self.type_))?;
        tree.line("protocol", enum_names::PROTOCOL.show(self.protocol))?;
        tree.line("protocol_version", self.protocol_version)?;
        tree.line("max_msg_size", self.max_msg_size)?;
        tree.line("msg_prefix_size", self.msg_prefix_size)?;
        tree.line("max_order_raw_size", self.max_order_raw_size)?;
        tree.line("max_order_war_size", self.max_order_war_size)?;
        tree.line("max_order_waw_size", self.max_order_waw_size)?;
        tree.line("mem_tag_format", Hex(self.mem_tag_format))?;
        tree.line("tx_ctx_cnt", self.tx_ctx_cnt)?;
        tree.line("rx_ctx_cnt", self.rx_ctx_cnt)?;
        // The key itself is secret and not displayed.
        tree.line("auth_key_size", self.auth_key_size)
    }
}

impl AttrText for fi_domain_attr {
    const NAME: &'static str = "fi_domain_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        tree.presence("domain", self.domain)?;
        // SAFETY: By this function's safety requirement.
        unsafe { tree.string("name", self.name)? };
        tree.line("threading", enum_names::THREADING.show(self.threading))?;
        tree.line(
            "control_progress",
            enum_names::PROGRESS.show(self.control_progress),
        )?;
        tree.line(
            "data_progress",
            enum_names::PROGRESS.show(self.data_progress),
        )?;
        tree.line(
            "resource_mgmt",
            enum_names::RESOURCE_MGMT.show(self.resource_mgmt),
        )?;
        tree.line("av_type", enum_names::AV_TYPE.show(self.av_type))?;
        tree.flags(
            "mr_mode",
            &flags::MR_MODE,
            u64::from(self.mr_mode.cast_unsigned()),
        )?;
        tree.line("mr_key_size", self.mr_key_size)?;
        tree.line("cq_data_size", self.cq_data_size)?;
        tree.line("cq_cnt", self.cq_cnt)?;
        tree.line("ep_cnt", self.ep_cnt)?;
        tree.line("tx_ctx_cnt", self.tx_ctx_cnt)?;
        tree.line("rx_ctx_cnt", self.rx_ctx_cnt)?;
        tree.line("max_ep_tx_ctx", self.max_ep_tx_ctx)?;
        tree.line("max_ep_rx_ctx", self.max_ep_rx_ctx)?;
        tree.line("max_ep_stx_ctx", self.max_ep_stx_ctx)?;
        tree.line("max_ep_srx_ctx", self.max_ep_srx_ctx)?;
        tree.line("cntr_cnt", self.cntr_cnt)?;
        tree.line("mr_iov_limit", self.mr_iov_limit)?;
        tree.flags("caps", &flags::CAPS, self.caps)?;
        tree.flags("mode", &flags::MODE, self.mode)?;
        tree.line("auth_key_size", self.auth_key_size)?;
        tree.line("max_err_data", self.max_err_data)?;
        tree.line("mr_cnt", self.mr_cnt)?;
        tree.line("tclass", Hex(u64::from(self.tclass)))
    }
}

impl AttrText for fi_fabric_attr {
    const NAME: &'static str = "fi_fabric_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        tree.presence("fabric", self.fabric)?;
        // SAFETY: By this function's safety requirement.
        unsafe { tree.string("name", self.name)? };
        // SAFETY: As above.
        unsafe { tree.string("prov_name", self.prov_name)? };
        tree.line("prov_version", Version(self.prov_version))?;
        tree.line("api_version", Version(self.api_version))?;
        tree.presence("net", self.net)
    }
}

impl AttrText for fid {
    const NAME: &'static str = "fid";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        // No class is beyond 32 bits; such a value is displayed as unknown.
        let class = u32::try_from(self.fclass).unwrap_or(u32::MAX);
        tree.line("fclass", enum_names::CLASS.show(class))?;
        tree.presence("context", self.context)
    }
}

impl AttrText for fid_nic {
    const NAME: &'static str = "nic";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        // SAFETY: By this function's safety requirement.
        unsafe {
            tree.attr(self.device_attr)?;
            tree.attr(self.bus_attr)?;
            tree.attr(self.link_attr)
        }
    }
}

impl AttrText for fi_device_attr {
    const NAME: &'static str = "fi_device_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        // SAFETY: By this function's safety requirement.
        unsafe {
            tree.string("name", self.name)?;
            tree.string("device_id", self.device_id)?;
            tree.string("device_version", self.device_version)?;
            tree.string("vendor_id", self.vendor_id)?;
            tree.string("driver", self.driver)?;
            tree.string("firmware", self.firmware)
        }
    }
}

impl AttrText for fi_bus_attr {
    const NAME: &'static str = "fi_bus_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        tree.line("bus_type", enum_names::BUS_TYPE.show(self.bus_type))?;
        if self.bus_type != FI_BUS_PCI {
            return Ok(());
        }
        // SAFETY: It is the union's only member, of plain numbers.
        let pci = unsafe { self.attr.pci };
        let mut tree = tree.inner("fi_pci_attr")?;
        tree.line("domain_id", pci.domain_id)?;
        tree.line("bus_id", pci.bus_id)?;
        tree.line("device_id", pci.device_id)?;
        tree.line("function_id", pci.function_id)
    }
}

impl AttrText for fi_link_attr {
    const NAME: &'static str = "fi_link_attr";

    unsafe fn show(&self, tree: &mut Tree<'_, '_>) -> fmt::Result {
        let mut tree = tree.inner(Self::NAME)?;
        // SAFETY: By this function's safety requirement.
        unsafe { tree.string("address", self.address)? };
        tree.line("mtu", self.mtu)?;
        tree.line("speed", self.speed)?;
        tree.line("state", enum_names::LINK_STATE.show(self.state))?;
        // SAFETY: As above.
        unsafe { tree.string("network_type", self.network_type) }
    }
}

/// Displays a number in hexadecimal.
pub(super) struct Hex(pub(super) u64);

impl Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
