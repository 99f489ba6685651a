// SPDX-License-Identifier: GPL-2.0

//! Descriptions of devices in infos: `struct fid_nic`.
//!
//! A description does not change after its creation, so it needs no lock. It is freed and copied by its table of calls
//! (`fid.ops`), as are the descriptions that other modules' providers create.

use super::{
    errno::{
        from_int,
        into_int, //
    },
    fi_bus_attr,
    fi_bus_attr__bindgen_ty_1,
    fi_device_attr,
    fi_kofi_nic_attr,
    fi_link_attr,
    fi_link_state,
    fi_ops,
    fi_pci_attr,
    fid_nic,
    tostr::{
        write_nic,
        Text, //
    },
    FI_BUS_PCI,
    FI_CLASS_NIC,
    FI_DUP, //
};
use crate::prelude::*;
use kernel::fmt::{
    Arguments,
    Write, //
};
use pin_init::init_zeroed;

/// A NUL-terminated string of fewer than `N` bytes.
#[derive(Clone, Copy, Zeroable)]
pub struct NicText<const N: usize>([u8; N]);

impl<const N: usize> NicText<N> {
    /// Sets the string, truncated to fit.
    pub fn set(&mut self, text: Arguments<'_>) {
        // Never fails: the text is truncated.
        let _ = Text::new(&mut self.0).write_fmt(text);
    }

    fn as_ptr(&self) -> *mut c_char {
        self.0.as_ptr().cast_mut().cast()
    }
}

/// Contents of a description.
#[derive(Clone, Copy, Zeroable)]
pub struct NicDesc {
    /// Name of the device.
    pub name: NicText<64>,
    /// Part number that the vendor gave the device.
    pub device_id: NicText<16>,
    /// Hardware revision.
    pub device_version: NicText<16>,
    /// Vendor ID.
    pub vendor_id: NicText<16>,
    /// Name of the driver.
    pub driver: NicText<64>,
    /// Version of the firmware.
    pub firmware: NicText<32>,
    /// Hardware address of the network interface, or the first GID of the port.
    pub address: NicText<64>,
    /// Link layer: `InfiniBand`, `Ethernet` or `Unspecified`.
    pub network_type: NicText<16>,
    /// PCI address, valid if `has_pci` is set.
    pub pci: fi_pci_attr,
    /// Set if the device has a PCI address.
    pub has_pci: bool,
    /// Maximum transmission unit in bytes; 0 if unknown.
    pub mtu: usize,
    /// Speed of the link in bits per second; 0 if unknown.
    pub speed: usize,
    /// State of the link.
    pub state: fi_link_state,
    /// NUMA node, or -1.
    pub numa_node: c_int,
    /// Number of completion vectors.
    pub comp_vectors: u32,
}

/// A description as C callers see it: the structs of libfabric, and the strings that they point to.
///
/// # Invariants
///
/// After [`create`] every pointer points into the same allocation, or to [`OPS`].
#[repr(C)]
#[derive(Zeroable)]
struct Parts {
    nic: fid_nic,
    device: fi_device_attr,
    bus: fi_bus_attr,
    link: fi_link_attr,
    prov: fi_kofi_nic_attr,
    desc: NicDesc,
}

/// Creates a description. `fill` writes its contents, which are zero before. May sleep.
///
/// The caller closes it with [`close`].
///
/// # Errors
///
/// -FI_ENOMEM.
pub(super) fn create(fill: impl FnOnce(&mut NicDesc)) -> Result<*mut fid_nic> {
    // Initialised in place, because the stack has no space for `Parts`.
    let mut parts = KBox::<Parts>::init(init_zeroed(), GFP_KERNEL)?;
    fill(&mut parts.desc);
    let at = KBox::into_raw(parts);
    // SAFETY: This function owns the allocation, which does not move any more.
    let parts = unsafe { &mut *at };
    let desc = &parts.desc;
    // INVARIANT: Every pointer that is set here points into the allocation, or to `OPS`.
    parts.device = fi_device_attr {
        name: desc.name.as_ptr(),
        device_id: desc.device_id.as_ptr(),
        device_version: desc.device_version.as_ptr(),
        vendor_id: desc.vendor_id.as_ptr(),
        driver: desc.driver.as_ptr(),
        firmware: desc.firmware.as_ptr(),
    };
    if desc.has_pci {
        parts.bus = fi_bus_attr {
            bus_type: FI_BUS_PCI,
            attr: fi_bus_attr__bindgen_ty_1 { pci: desc.pci },
        };
    }
    parts.link = fi_link_attr {
        address: desc.address.as_ptr(),
        mtu: desc.mtu,
        speed: desc.speed,
        state: desc.state,
        network_type: desc.network_type.as_ptr(),
    };
    parts.prov = fi_kofi_nic_attr {
        size: size_of::<fi_kofi_nic_attr>(),
        numa_node: desc.numa_node,
        comp_vectors: desc.comp_vectors,
    };
    parts.nic.fid.fclass = FI_CLASS_NIC as usize;
    parts.nic.fid.ops = ptr::from_ref(&OPS.0).cast_mut();
    parts.nic.device_attr = &raw mut parts.device;
    parts.nic.bus_attr = &raw mut parts.bus;
    parts.nic.link_attr = &raw mut parts.link;
    parts.nic.prov_attr = (&raw mut parts.prov).cast();
    // The description is the first field, so this is also the pointer to the allocation that `nic_close` frees.
    Ok(at.cast())
}

/// Frees a description by its table of calls. Does nothing if `nic` is null or has no table.
///
/// # Safety
///
/// `nic` is null or a valid description, which is not used afterwards.
pub(super) unsafe fn close(nic: *mut fid_nic) {
    // SAFETY: By this function's safety requirement.
    if let Some(close) = unsafe { ops(nic) }.and_then(|ops| ops.close) {
        // SAFETY: As above.
        unsafe { close(nic.cast()) };
    }
}

/// Returns a copy of a description; null if `nic` is null or cannot be copied. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM, and other errors of the provider that created the description.
///
/// # Safety
///
/// `nic` is null or a valid description.
pub(super) unsafe fn duplicate(nic: *mut fid_nic) -> Result<*mut fid_nic> {
    // SAFETY: By this function's safety requirement.
    let Some(control) = unsafe { ops(nic) }.and_then(|ops| ops.control) else {
        return Ok(ptr::null_mut());
    };
    let mut copy: *mut fid_nic = ptr::null_mut();
    // SAFETY: As above; the argument of FI_DUP points to memory for the pointer to the copy.
    let ret = unsafe { control(nic.cast(), FI_DUP as c_int, (&raw mut copy).cast()) };
    match from_int(ret) {
        Err(Errno::ENOSYS) => Ok(ptr::null_mut()),
        result => result.map(|_| copy),
    }
}

/// Returns the attributes that kOFI adds to a description (`prov_attr`); `None` if kOFI did not create it.
///
/// # Safety
///
/// `nic` is valid for `'a`.
pub(super) unsafe fn kofi_attr<'a>(nic: &'a fid_nic) -> Option<&'a fi_kofi_nic_attr> {
    let is_own = ptr::eq(nic.fid.ops, &OPS.0);
    // SAFETY: By the invariant of `Parts`, to which a description with this table belongs.
    is_own.then(|| unsafe { &*nic.prov_attr.cast() })
}

/// Returns the table of calls of a description; `None` if `nic` is null or has no table.
///
/// # Safety
///
/// `nic` is null or a valid description.
unsafe fn ops<'a>(nic: *mut fid_nic) -> Option<&'a fi_ops> {
    // SAFETY: By this function's safety requirement.
    unsafe { nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()) }
}

/// The table of calls of the descriptions that kOFI creates. It does not change.
struct Ops(fi_ops);

// SAFETY: Its pointers are to functions that any thread may call.
unsafe impl Sync for Ops {}

static OPS: Ops = Ops(fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(nic_close),
    bind: Some(nic_bind),
    control: Some(nic_control),
    ops_open: Some(nic_ops),
    tostr: Some(nic_tostr),
    ops_set: Some(nic_ops_set),
});

/// # Safety
///
/// `nic` is the first field of [`Parts`] from [`create`], and is not used afterwards.
unsafe extern "C" fn nic_close(nic: *mut fid) -> c_int {
    // SAFETY: By this function's contract.
    drop(unsafe { KBox::<Parts>::from_raw(nic.cast()) });
    0
}

/// # Safety
///
/// `nic` is the first field of valid [`Parts`], and `arg` is the argument that `command` requires.
unsafe extern "C" fn nic_control(nic: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    if command != FI_DUP as c_int {
        return Errno::ENOSYS.to_int();
    }
    if arg.is_null() {
        return Errno::EINVAL.to_int();
    }
    // SAFETY: By this function's contract.
    let desc = unsafe { &(*nic.cast::<Parts>()).desc };
    into_int(create(|copy| *copy = *desc).map(|copy| {
        // SAFETY: The argument of FI_DUP points to memory for a pointer.
        unsafe { arg.cast::<*mut fid_nic>().write(copy) };
    }))
}

/// # Safety
///
/// `nic` is the first field of valid [`Parts`], and `buf` is NULL or valid for writing `len` bytes.
unsafe extern "C" fn nic_tostr(nic: *const fid, buf: *mut c_char, len: usize) -> c_int {
    if buf.is_null() || len == 0 {
        return Errno::EINVAL.to_int();
    }
    // SAFETY: By this function's contract; the buffer is initialised before it is made a slice.
    unsafe {
        buf.write_bytes(0, len);
        let buf = slice::from_raw_parts_mut(buf.cast(), len);
        write_nic(&*nic.cast(), &mut Text::new(buf));
    }
    0
}

/// # Safety
///
/// Callable with any arguments.
unsafe extern "C" fn nic_bind(_nic: *mut fid, _other: *mut fid, _flags: u64) -> c_int {
    Errno::ENOSYS.to_int()
}

/// # Safety
///
/// Callable with any arguments.
unsafe extern "C" fn nic_ops(
    _nic: *mut fid,
    _name: *const c_char,
    _flags: u64,
    _ops: *mut *mut c_void,
    _context: *mut c_void,
) -> c_int {
    Errno::ENOSYS.to_int()
}

/// # Safety
///
/// Callable with any arguments.
unsafe extern "C" fn nic_ops_set(
    _nic: *mut fid,
    _name: *const c_char,
    _flags: u64,
    _ops: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    Errno::ENOSYS.to_int()
}
