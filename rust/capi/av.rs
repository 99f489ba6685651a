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
    object::copy_truncated,
    peer,
    prelude::*, //
};
use crate::{
    abi::addr,
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
};
use kernel::bindings::AF_INET;

/// Maximum number of endpoints at one network address: one for each port except 0.
const MAX_EP_PER_NODE: usize = u16::MAX as usize;

/// An address vector, as C callers hold it.
#[repr(C)]
pub(super) struct AvObject {
    fid: fid_av,
    pub(super) av: Arc<AddressVector>,
    /// Format of the addresses that callers pass and get.
    addr_format: u32,
}

fi_ops! {
    impl Object for AvObject: FI_CLASS_AV {
        bind: fn fi_av_bind(av: &AvObject, other, flags) -> Result {
            // SAFETY: `other` is NULL or valid.
            let events = unsafe { from_fid::<QueueObject>(other)? };
            ensure(flags == 0, Errno::EBADFLAGS)?;
            av.av.bind(in_process()?, &events.queue)
        }

        control: fn fi_control(av: &AvObject, command, arg) -> Result {
            // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_export`.
            unsafe { peer::export_av(&av.av, av.addr_format, command, arg) }
        }
    }
    close(av) {
        av.av.close()
    }
}

fi_ops! {
    /// `fi_av_open()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        av_open: fn fi_av_open(domain: InProcess<&DomainObject>, attr, out, context) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            let known = abi::FI_EVENT | abi::FI_READ | abi::FI_SYMMETRIC | abi::FI_PEER;
            ensure(attr.flags & !known == 0, Errno::EBADFLAGS)?;
            let addr_format = match domain.domain.addr_format() {
                abi::FI_FORMAT_UNSPEC => abi::FI_SOCKADDR,
                addr_format @ (abi::FI_SOCKADDR
                | abi::FI_SOCKADDR_IN
                | abi::FI_SOCKADDR_IN6
                | abi::FI_ADDR_STR) => addr_format,
                _ => return Err(Errno::EINVAL),
            };
            let av = match attr.flags & abi::FI_PEER {
                // SAFETY: The name is NULL or a string.
                0 => unsafe { open_local(&domain, attr)? },
                // SAFETY: With FI_PEER, `context` is NULL or a valid `struct fi_peer_av_context`.
                _ => unsafe { open_peer(&domain, attr, context)? },
            };
            attr.rx_ctx_bits = av.rx_ctx_bits() as c_int;
            attr.type_ = match av.kind() {
                Type::Map => abi::FI_AV_MAP,
                Type::Table => abi::FI_AV_TABLE,
            };
            if !attr.name.is_null() && attr.map_addr.is_null() {
                // A shared vector's handles do not depend on the address that it is mapped at, so any unique
                // address will do.
                attr.map_addr = ptr::with_exposed_provenance_mut(av.identity());
            }
            slot.open(AvObject {
                fid: fid_av {
                    fid: new_fid::<AvObject>(context),
                    ops: ptr::from_ref(&OPS).cast_mut(),
                },
                av,
                addr_format,
            })
        }
    }
}

/// # Safety
///
/// The name in `attr` is NULL or a string.
unsafe fn open_local(
    domain: &InProcess<&DomainObject>,
    attr: &fi_av_attr,
) -> Result<Arc<AddressVector>> {
    // SAFETY: By the caller's contract, the name is NULL or a string.
    let name = unsafe { opt_cstr(attr.name) };
    ensure(attr.ep_per_node <= MAX_EP_PER_NODE, Errno::EINVAL)?;
    let attr = Attr {
        kind: av_type(attr)?,
        rx_ctx_bits: attr.rx_ctx_bits.try_into().map_err(|_| Errno::EINVAL)?,
        count: attr.count,
        is_async: attr.flags & abi::FI_EVENT != 0,
        name,
        is_read_only: attr.flags & abi::FI_READ != 0,
    };
    domain.domain.address_vector(domain.ctx, &attr)
}

/// Opens a vector whose addresses are those of its owner. A type or rx_ctx_bits other than the default must equal
/// the owner's; the other attributes are hints, and have no effect here.
///
/// # Safety
///
/// `context` is NULL or a valid `struct fi_peer_av_context`.
unsafe fn open_peer(
    domain: &InProcess<&DomainObject>,
    attr: &fi_av_attr,
    context: *mut c_void,
) -> Result<Arc<AddressVector>> {
    ensure(
        attr.flags & !abi::FI_SYMMETRIC == abi::FI_PEER && attr.name.is_null(),
        Errno::EINVAL,
    )?;
    // SAFETY: By the caller's contract, `context` is NULL or valid.
    let owner = unsafe { peer::owner_av(context)? };
    let bits = u32::try_from(attr.rx_ctx_bits).map_err(|_| Errno::EINVAL)?;
    ensure(bits == 0 || bits == owner.rx_ctx_bits(), Errno::EINVAL)?;
    domain
        .domain
        .peer_address_vector(domain.ctx, owner, av_type(attr)?)
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
        ensure(!node.is_null(), Errno::EINVAL)?;
        // SAFETY: By the caller's contract, `node` is a valid string.
        let node = unsafe { CStr::from_char_ptr(node) };
        ensure(!service.is_null() || addr::is_addr_str(node), Errno::EINVAL)?;
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

fi_ops! {
    static OPS: fi_ops_av {
        insert: fn fi_av_insert(
            av: &AvObject, first, count, addrs, flags, context,
        ) -> Result<c_int> {
            // SAFETY: The arrays are NULL or have `count` entries, until the last insertion is reported.
            let results = unsafe { InsertResults::new(&av.av, addrs, flags, context) };
            av.insert(Some(count), results, context, || match first.is_null() {
                true => Err(Errno::EINVAL),
                // SAFETY: `first` points to `count` addresses of the vector's format.
                false => Ok(unsafe { Addresses::new(av.addr_format, first, count) }),
            })
        }

        insertsvc: fn fi_av_insertsvc(
            av: &AvObject, node, service, addrs, flags, context,
        ) -> Result<c_int> {
            // SAFETY: `node` and `service` are NULL or strings; the arrays are NULL or have an entry.
            unsafe { av.insert_range((node, 1), (service, 1), addrs, flags, context) }
        }

        insertsym: fn fi_av_insertsym(
            av: &AvObject, node, nodes, service, services, addrs, flags, context,
        ) -> Result<c_int> {
            let (node, service) = ((node, nodes), (service, services));
            // SAFETY: `node` and `service` are NULL or strings; the arrays are NULL or have an entry for
            // each service of each node.
            unsafe { av.insert_range(node, service, addrs, flags, context) }
        }

        remove: fn fi_av_remove(av: &AvObject, addrs, count, flags) -> Result {
            ensure(flags == 0, Errno::EBADFLAGS)?;
            ensure(count == 0 || !addrs.is_null(), Errno::EINVAL)?;
            let ctx = in_process()?;
            let mut result = Ok(());
            for number in 0..count {
                // SAFETY: `addrs` is not NULL, and has `count` entries.
                let addr = unsafe { addrs.add(number).read() };
                let removed = av.av.remove(ctx, addr);
                result = result.and(removed);
            }
            result
        }

        lookup: fn fi_av_lookup(av: &AvObject, addr, to, len) -> Result {
            // SAFETY: `len` is NULL or valid, `to` is NULL or valid for `*len` bytes.
            match unsafe { av.lookup_ipv4(addr, to, len) } {
                true => Ok(()),
                // SAFETY: As above.
                false => unsafe { av.lookup(addr, to, len) },
            }
        }

        straddr: fn fi_av_straddr(av: &AvObject, from, buf, len) -> *const c_char {
            // SAFETY: `from` is NULL or an address of the vector's format, `len` is NULL or valid, `buf` is
            // NULL or valid for `*len` bytes.
            match unsafe { av.straddr(from, buf, len) } {
                Ok(()) => buf,
                Err(_) => ptr::null(),
            }
        }
    }
    from av_set::AV_OPS;
}

impl AvObject {
    /// Inserts the addresses of so many services on so many nodes, from a first node and service on.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::insert`], [`Self::resolve`] and [`AddrRange::new`].
    ///
    /// # Safety
    ///
    /// `node` and `service` are NULL or strings; `addrs`, and with FI_SYNC_ERR `context`, are NULL or have an
    /// entry for each address, until the last insertion is reported.
    unsafe fn insert_range(
        &self,
        (node, nodes): (*const c_char, usize),
        (service, services): (*const c_char, usize),
        addrs: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> Result<c_int> {
        // SAFETY: By the caller's contract, the arrays are NULL or have an entry for each address.
        let results = unsafe { InsertResults::new(&self.av, addrs, flags, context) };
        self.insert(nodes.checked_mul(services), results, context, || {
            // SAFETY: By the caller's contract, `node` and `service` are NULL or strings.
            let first = unsafe { self.resolve(node, service)? };
            Ok(AddrRange::new(first, nodes, services)?.iter())
        })
    }

    /// Copies an address to the caller's buffer, truncated if it does not fit.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an address that is not in the vector, and for NULL.
    ///
    /// # Safety
    ///
    /// `len` is NULL or valid, `to` is NULL or valid for `*len` bytes.
    #[inline(never)]
    unsafe fn lookup(&self, addr: fi_addr_t, to: *mut c_void, len: *mut usize) -> Result {
        let address = self.av.lookup(addr)?;
        // SAFETY: By the caller's contract, `len` and `to` are NULL or valid.
        ignore_truncation(unsafe { cm::copy_address(self.addr_format, address, to, len) })
    }

    /// Copies the address if it is IPv4 and fits, which is the common case. Otherwise returns false, and has
    /// written nothing.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::lookup`].
    #[inline(always)]
    unsafe fn lookup_ipv4(&self, addr: fi_addr_t, to: *mut c_void, len: *mut usize) -> bool {
        // SAFETY: By the caller's contract, `len` is NULL or valid.
        let Some(len) = (unsafe { len.as_mut() }) else {
            return false;
        };
        if to.is_null() || *len < size_of::<sockaddr_in>() || self.addr_format == abi::FI_ADDR_STR {
            return false;
        }
        let Some((ip, port)) = self.av.lookup_v4(addr) else {
            return false;
        };
        *len = size_of::<sockaddr_in>();
        let found = sockaddr_in {
            sin_family: AF_INET as u16,
            sin_port: port.to_be(),
            sin_addr: in_addr { s_addr: ip.to_be() },
            ..pin_init::zeroed()
        };
        // SAFETY: `to` has space for a `sockaddr_in`; the caller's memory need not be aligned.
        unsafe { to.cast::<sockaddr_in>().write_unaligned(found) };
        true
    }

    /// Writes an address of this vector's format as a string, truncated if it does not fit.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for NULL, and for what is not an address.
    ///
    /// # Safety
    ///
    /// `from` is NULL or an address of the vector's format, `len` is NULL or valid, `buf` is NULL or valid for
    /// `*len` bytes.
    unsafe fn straddr(&self, from: *const c_void, buf: *mut c_char, len: *mut usize) -> Result {
        ensure(!from.is_null(), Errno::EINVAL)?;
        // SAFETY: By the caller's contract, `len` and `buf` are NULL or valid.
        let put = |bytes: &[u8]| unsafe { copy_truncated(bytes, buf, len) };
        if self.addr_format == abi::FI_ADDR_STR {
            // SAFETY: By the caller's contract, an address of this format is a string.
            let text = unsafe { CStr::from_char_ptr(from.cast()) };
            return ignore_truncation(put(text.to_bytes_with_nul()));
        }
        // SAFETY: By the caller's contract, `from` is an address of the vector's format.
        let address = unsafe { Addresses::new(self.addr_format, from, 1) }.next();
        let address = address.unwrap_or(Err(Errno::EINVAL))?;
        ignore_truncation(addr::with_bytes(abi::FI_ADDR_STR, &address, put))
    }
}

/// Makes a call that has truncated its result succeed: the caller sees this by the full length.
fn ignore_truncation(result: Result) -> Result {
    match result {
        Err(Errno::ETOOSMALL) => Ok(()),
        result => result,
    }
}
