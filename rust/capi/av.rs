// SPDX-License-Identifier: GPL-2.0

//! Address vectors for C callers.

mod insert_args;

use self::insert_args::{
    Addresses,
    InsertResults, //
};
use super::{
    av_set,
    cm,
    domain::DomainObject,
    eq::QueueObject,
    fabric::opt_cstr,
    nosys,
    object::{
        self,
        new_fid,
        Object,
        UninitObject, //
    },
    peer,
    strings, //
};
use crate::{
    abi::{
        self,
        addr,
        errno::into_int,
        fi_addr_t,
        fi_av_attr,
        fi_ops,
        fi_ops_av,
        fid,
        fid_av,
        fid_domain,
        Errno,
        Result, //
    },
    compat::{
        in_addr,
        sockaddr_in, //
    },
    fi::{
        av::{
            AddrRange,
            AddressVector,
            Attr,
            InsertObserver,
            Type, //
        },
        eq::Source, //
    },
    util::context::{
        in_process,
        ProcessContext, //
    },
};
use core::{
    net::SocketAddr,
    ptr, //
};
use kernel::{
    bindings::AF_INET,
    prelude::*,
    sync::Arc, //
};

/// Maximum number of endpoints at one network address: one for each port except 0.
const MAX_EP_PER_NODE: usize = u16::MAX as usize;

/// An address vector, as C callers hold it.
#[repr(C)]
pub(super) struct AvObject {
    fid: fid_av,
    av: Arc<AddressVector>,
    /// Format of the addresses that callers pass and get.
    addr_format: u32,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_av`, and is the only type with this table.
unsafe impl Object for AvObject {
    const CLASS: u32 = abi::FI_CLASS_AV;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, Some(bind), Some(control));
        &OPS
    }
}

static OPS: fi_ops_av = fi_ops_av {
    insert: Some(insert),
    insertsvc: Some(insertsvc),
    insertsym: Some(insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Some(av_set::open),
    ..nosys::AV
};

impl AvObject {
    /// Returns the Rust object.
    pub(super) fn av(&self) -> &Arc<AddressVector> {
        &self.av
    }
}

/// Implements `fi_av_open()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    out: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_av_open()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_with(domain.cast(), attr, out, |ctx, domain, attr, slot| {
            try_open(ctx, domain, attr, slot, context)
        })
    })
}

/// # Safety
///
/// The contract of `fi_av_open()`.
unsafe fn try_open(
    ctx: ProcessContext,
    domain: &DomainObject,
    attr: &mut fi_av_attr,
    slot: UninitObject<AvObject>,
    context: *mut c_void,
) -> Result<*mut AvObject> {
    if attr.flags & !(abi::FI_EVENT | abi::FI_READ | abi::FI_SYMMETRIC | abi::FI_PEER) != 0 {
        return Err(Errno::EBADFLAGS);
    }
    let addr_format = match domain.domain().addr_format() {
        abi::FI_FORMAT_UNSPEC => abi::FI_SOCKADDR,
        addr_format @ (abi::FI_SOCKADDR
        | abi::FI_SOCKADDR_IN
        | abi::FI_SOCKADDR_IN6
        | abi::FI_ADDR_STR) => addr_format,
        _ => return Err(Errno::EINVAL),
    };
    // SAFETY: By the contract of `fi_av_open()`.
    let av = unsafe {
        match attr.flags & abi::FI_PEER {
            0 => open_local(ctx, domain, attr)?,
            _ => open_peer(ctx, domain, attr, context)?,
        }
    };
    attr.rx_ctx_bits = av.rx_ctx_bits() as c_int;
    attr.type_ = match av.kind() {
        Type::Map => abi::FI_AV_MAP,
        Type::Table => abi::FI_AV_TABLE,
    };
    if !attr.name.is_null() && attr.map_addr.is_null() {
        // A shared vector's handles do not depend on the address that it is mapped at, so any unique address
        // will do.
        attr.map_addr = ptr::with_exposed_provenance_mut(av.identity());
    }
    Ok(slot.init(AvObject {
        fid: fid_av {
            fid: new_fid::<AvObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        av,
        addr_format,
    }))
}

/// # Safety
///
/// The contract of `fi_av_open()`.
unsafe fn open_local(
    ctx: ProcessContext,
    domain: &DomainObject,
    attr: &fi_av_attr,
) -> Result<Arc<AddressVector>> {
    let name = match attr.name.is_null() {
        true => None,
        // SAFETY: By the contract of `fi_av_open()`.
        false => Some(unsafe { CStr::from_char_ptr(attr.name) }),
    };
    if attr.ep_per_node > MAX_EP_PER_NODE {
        return Err(Errno::EINVAL);
    }
    domain.domain().address_vector(
        ctx,
        &Attr {
            kind: av_type(attr)?,
            rx_ctx_bits: attr.rx_ctx_bits.try_into().map_err(|_| Errno::EINVAL)?,
            count: attr.count,
            is_async: attr.flags & abi::FI_EVENT != 0,
            name,
            is_read_only: attr.flags & abi::FI_READ != 0,
        },
    )
}

/// Opens a vector whose addresses are those of its owner. A type or rx_ctx_bits other than the default must equal
/// the owner's; the other attributes are hints, and have no effect here.
///
/// # Safety
///
/// The contract of `fi_av_open()`.
unsafe fn open_peer(
    ctx: ProcessContext,
    domain: &DomainObject,
    attr: &fi_av_attr,
    context: *mut c_void,
) -> Result<Arc<AddressVector>> {
    if attr.flags & !abi::FI_SYMMETRIC != abi::FI_PEER || !attr.name.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the contract of `fi_av_open()`.
    let owner = unsafe { peer::owner_av(context)? };
    let bits = u32::try_from(attr.rx_ctx_bits).map_err(|_| Errno::EINVAL)?;
    if bits != 0 && bits != owner.rx_ctx_bits() {
        return Err(Errno::EINVAL);
    }
    domain
        .domain()
        .peer_address_vector(ctx, owner, av_type(attr)?)
}

/// Returns the vector type that the attributes request, or `None` for FI_AV_UNSPEC.
fn av_type(attr: &fi_av_attr) -> Result<Option<Type>> {
    match attr.type_ {
        abi::FI_AV_UNSPEC => Ok(None),
        abi::FI_AV_MAP => Ok(Some(Type::Map)),
        abi::FI_AV_TABLE => Ok(Some(Type::Table)),
        _ => Err(Errno::EINVAL),
    }
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: By the contract of `fi_av_bind()`.
    let objects = unsafe {
        object::from_fid::<AvObject>(fid)
            .and_then(|object| Ok((object, object::from_fid::<QueueObject>(other)?)))
    };
    into_int(objects.and_then(|(object, queue)| {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        object.av.bind(in_process()?, queue.queue())
    }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<AvObject>(fid, |object| object.av.close()) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<AvObject>(fid).and_then(|object| {
            peer::check_export(command)?;
            peer::export_av(&object.av, object.addr_format, arg)
        })
    })
}

/// # Safety
///
/// `av` is NULL or valid for `'a`.
unsafe fn av_from_fid<'a>(av: *mut fid_av) -> Result<&'a AvObject> {
    // SAFETY: By the caller's contract, `av` is NULL or valid for `'a`.
    unsafe { object::from_fid(av.cast()) }
}

impl AvObject {
    /// Inserts the `count` addresses that `addresses` returns; a count beyond an int inserts none. The caller's
    /// arrays get the result of each address, or of a failed call its errno for all addresses.
    ///
    /// # Errors
    ///
    /// -FI_ENOEQ, checked first, if the vector was opened with FI_EVENT and has no event queue.
    fn insert<A: Iterator<Item = Result<SocketAddr>>>(
        &self,
        count: Option<usize>,
        mut results: InsertResults,
        context: *mut c_void,
        addresses: impl FnOnce() -> Result<A>,
    ) -> Result<c_int> {
        let count = count.filter(|count| c_int::try_from(*count).is_ok());
        let result = self.try_insert(count, results, context, addresses);
        if let (Err(errno), Some(count)) = (result, count) {
            results.fail_all(count, errno);
        }
        result
    }

    #[inline(never)]
    fn try_insert<A: Iterator<Item = Result<SocketAddr>>>(
        &self,
        count: Option<usize>,
        mut results: InsertResults,
        context: *mut c_void,
        addresses: impl FnOnce() -> Result<A>,
    ) -> Result<c_int> {
        let ctx = in_process()?;
        self.av.check_eq_bound(ctx)?;
        results.check_args(&self.av, count.unwrap_or(0))?;
        let count = count.ok_or(Errno::EINVAL)?;
        let addresses = match count {
            0 => None,
            _ => Some(addresses()?),
        };
        let insertions = results.insertions(addresses.into_iter().flatten());
        if self.av.is_async() {
            let source = Source(ptr::from_ref(self).expose_provenance());
            let about = (source, context.expose_provenance());
            let results = KBox::new(results, GFP_KERNEL)?;
            self.av
                .insert_async(ctx, about, count, insertions, results)?;
            return Ok(0);
        }
        let count = self.av.insert(ctx, insertions, |number, result| {
            results.report(number, result)
        })?;
        // A count beyond an int has been refused above.
        Ok(count as c_int)
    }

    /// Resolves a node and a service to an address of this vector's format.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for host names, -FI_EINVAL for strings that are neither addresses nor names.
    ///
    /// # Safety
    ///
    /// `node` and `service` are NULL or valid strings.
    unsafe fn resolve(&self, node: *const c_char, service: *const c_char) -> Result<SocketAddr> {
        if node.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: By the caller's contract, `node` is a valid string.
        let node = unsafe { CStr::from_char_ptr(node) };
        if service.is_null() && !addr::is_addr_str(node) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: By the caller's contract, `service` is NULL or a valid string.
        let service = unsafe { opt_cstr(service) };
        let address = addr::from_names(Some(node), service).map_err(|why| match why {
            addr::AddrParseError::HostName => Errno::ENOSYS,
            addr::AddrParseError::Invalid => Errno::EINVAL,
        })?;
        match (self.addr_format, &address) {
            (abi::FI_SOCKADDR_IN, SocketAddr::V6(_))
            | (abi::FI_SOCKADDR_IN6, SocketAddr::V4(_)) => Err(Errno::EINVAL),
            _ => Ok(address),
        }
    }
}

/// # Safety
///
/// The contract of `fi_av_insert()`.
unsafe fn try_insert(
    av: *mut fid_av,
    first: *const c_void,
    count: usize,
    addrs: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> Result<c_int> {
    // SAFETY: By the contract of `fi_av_insert()`.
    let (object, results) = unsafe {
        let object = av_from_fid(av)?;
        (
            object,
            InsertResults::new(&object.av, addrs, flags, context),
        )
    };
    object.insert(Some(count), results, context, || match first.is_null() {
        true => Err(Errno::EINVAL),
        // SAFETY: By the contract of `fi_av_insert()`.
        false => Ok(unsafe { Addresses::new(object.addr_format, first, count) }),
    })
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    first: *const c_void,
    count: usize,
    addrs: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_av_insert()`.
    count_or_errno(unsafe { try_insert(av, first, count, addrs, flags, context) })
}

unsafe extern "C" fn insertsvc(
    av: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    addrs: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_av_insertsvc()`.
    count_or_errno(unsafe { try_insertsym(av, (node, 1), (service, 1), addrs, flags, context) })
}

/// # Safety
///
/// The contract of `fi_av_insertsym()`.
unsafe fn try_insertsym(
    av: *mut fid_av,
    (node, nodes): (*const c_char, usize),
    (service, services): (*const c_char, usize),
    addrs: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> Result<c_int> {
    // SAFETY: By the contract of `fi_av_insertsym()`.
    let (object, results) = unsafe {
        let object = av_from_fid(av)?;
        (
            object,
            InsertResults::new(&object.av, addrs, flags, context),
        )
    };
    object.insert(nodes.checked_mul(services), results, context, || {
        // SAFETY: By the contract of `fi_av_insertsym()`.
        let first = unsafe { object.resolve(node, service)? };
        Ok(AddrRange::new(first, nodes, services)?.iter())
    })
}

unsafe extern "C" fn insertsym(
    av: *mut fid_av,
    node: *const c_char,
    nodes: usize,
    service: *const c_char,
    services: usize,
    addrs: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_av_insertsym()`.
    count_or_errno(unsafe {
        try_insertsym(
            av,
            (node, nodes),
            (service, services),
            addrs,
            flags,
            context,
        )
    })
}

fn count_or_errno(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(Errno::to_int)
}

/// # Safety
///
/// The contract of `fi_av_remove()`.
unsafe fn try_remove(av: *mut fid_av, addrs: *mut fi_addr_t, count: usize, flags: u64) -> Result {
    // SAFETY: By the contract of `fi_av_remove()`.
    let object = unsafe { av_from_fid(av)? };
    if flags != 0 {
        return Err(Errno::EBADFLAGS);
    }
    if addrs.is_null() && count > 0 {
        return Err(Errno::EINVAL);
    }
    let ctx = in_process()?;
    let mut result = Ok(());
    for number in 0..count {
        // SAFETY: By the contract of `fi_av_remove()`, `addrs` has `count` entries.
        let addr = unsafe { addrs.add(number).read() };
        let removed = object.av.remove(ctx, addr);
        result = result.and(removed);
    }
    result
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    addrs: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    // SAFETY: By the contract of `fi_av_remove()`.
    into_int(unsafe { try_remove(av, addrs, count, flags) })
}

/// # Safety
///
/// The contract of `fi_av_lookup()`.
#[inline(never)]
unsafe fn try_lookup(av: *mut fid_av, addr: fi_addr_t, to: *mut c_void, len: *mut usize) -> Result {
    // SAFETY: By the contract of `fi_av_lookup()`.
    let object = unsafe { av_from_fid(av)? };
    let address = object.av.lookup(addr)?;
    // SAFETY: By the contract of `fi_av_lookup()`.
    match unsafe { cm::copy_address(object.addr_format, address, to, len) } {
        Err(Errno::ETOOSMALL) => Ok(()),
        result => result,
    }
}

/// Copies the address if it is IPv4 and fits, which is the common case. Otherwise returns false, and has
/// written nothing.
///
/// # Safety
///
/// The contract of `fi_av_lookup()`.
#[inline(always)]
unsafe fn lookup_ipv4(av: *mut fid_av, addr: fi_addr_t, to: *mut c_void, len: *mut usize) -> bool {
    // SAFETY: By the contract of `fi_av_lookup()`.
    let (Ok(object), Some(len)) = (unsafe { av_from_fid(av) }, unsafe { len.as_mut() }) else {
        return false;
    };
    if to.is_null() || *len < size_of::<sockaddr_in>() || object.addr_format == abi::FI_ADDR_STR {
        return false;
    }
    let Some((ip, port)) = object.av.lookup_v4(addr) else {
        return false;
    };
    *len = size_of::<sockaddr_in>();
    let found = sockaddr_in {
        sin_family: AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: in_addr { s_addr: ip.to_be() },
        ..pin_init::zeroed()
    };
    // SAFETY: `to` has room for a `sockaddr_in`; the caller's memory need not be aligned.
    unsafe { to.cast::<sockaddr_in>().write_unaligned(found) };
    true
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    addr: fi_addr_t,
    to: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: By the contract of `fi_av_lookup()`.
    if unsafe { lookup_ipv4(av, addr, to, len) } {
        return 0;
    }
    // SAFETY: By the contract of `fi_av_lookup()`.
    into_int(unsafe { try_lookup(av, addr, to, len) })
}

/// # Safety
///
/// The contract of `fi_av_straddr()`.
unsafe fn try_straddr(
    av: *mut fid_av,
    from: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> Result {
    // SAFETY: By the contract of `fi_av_straddr()`.
    let object = unsafe { av_from_fid(av)? };
    if from.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the contract of `fi_av_straddr()`.
    let put = |bytes: &[u8]| match unsafe { strings::copy_truncated(bytes, buf, len) } {
        Err(Errno::ETOOSMALL) => Ok(()),
        result => result,
    };
    if object.addr_format == abi::FI_ADDR_STR {
        // SAFETY: By the contract of `fi_av_straddr()`, an address of this format is a string.
        return put(unsafe { CStr::from_char_ptr(from.cast()) }.to_bytes_with_nul());
    }
    // SAFETY: By the contract of `fi_av_straddr()`, `from` is an address of the vector's format.
    let address = unsafe { Addresses::new(object.addr_format, from, 1) }.next();
    let address = address.unwrap_or(Err(Errno::EINVAL))?;
    addr::with_bytes(abi::FI_ADDR_STR, &address, put)
}

unsafe extern "C" fn straddr(
    av: *mut fid_av,
    from: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: By the contract of `fi_av_straddr()`.
    match unsafe { try_straddr(av, from, buf, len) } {
        Ok(()) => buf,
        Err(_) => ptr::null(),
    }
}
