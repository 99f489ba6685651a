// SPDX-License-Identifier: GPL-2.0

//! Offload providers: collectives of an endpoint that another module's provider does, with transfers of the
//! endpoint's own. `fi_import_fid()` of an endpoint pairs the two.
//!
//! The endpoint opens what the other needs in its domain, with FI_PEER: an address vector, a completion queue, and
//! with FI_PEER_TRANSFER an endpoint. What that sends and receives with FI_PEER_TRANSFER completes in a queue of its
//! own here, whose handler tells it, one after the other, where it may sleep.

use super::{
    av_set::SetObject,
    ep::{
        EndpointObject,
        Root, //
    },
    object::{
        self,
        header,
        Object,
        Place, //
    },
    peer, //
};
use crate::{
    abi::{
        self,
        context::{
            in_process,
            InProcess, //
        },
        errno::{
            from_int,
            into_int, //
        },
        fi_addr_t,
        fi_av_attr,
        fi_av_set_attr,
        fi_collective_addr,
        fi_cq_attr,
        fi_cq_err_entry,
        fi_cq_tagged_entry,
        fi_datatype,
        fi_fid_export,
        fi_ioc,
        fi_msg_collective,
        fi_op,
        fi_ops,
        fi_ops_collective,
        fi_ops_transfer_peer,
        fi_peer_av_context,
        fi_peer_av_set_context,
        fi_peer_cq_context,
        fi_peer_transfer_context,
        fid,
        fid_av,
        fid_av_set,
        fid_cq,
        fid_domain,
        fid_ep,
        fid_mc,
        info::Info,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        cq::{
            self,
            next,
            read_or_arm,
            CompletionQueue,
            Format,
            Handler,
            Outcome,
            TaskHandler, //
        },
        domain::Domain,
        eq::Source,
        provider, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        Arc, //
    },
};

/// How many outcomes are told before others have their turn.
const BUDGET: usize = 64;

/// An object of C, which is closed when this is dropped.
///
/// # Invariants
///
/// It is open, and nobody else closes it.
struct Open(*mut fid);

// SAFETY: Objects may be closed by any thread.
unsafe impl Send for Open {}

// SAFETY: As above; the pointer is only passed on.
unsafe impl Sync for Open {}

impl Open {
    /// What a call has opened, if it says so.
    ///
    /// # Errors
    ///
    /// What it says; -FI_EINVAL for NULL.
    ///
    /// # Safety
    ///
    /// It is as the call says.
    unsafe fn new<T>(answer: c_int, object: *mut T) -> Result<Self> {
        from_int(answer)?;
        match object.is_null() {
            true => Err(Errno::EINVAL),
            // INVARIANT: By this function's safety requirement.
            false => Ok(Self(object.cast())),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: By the invariant.
        let answer = unsafe {
            match (*self.0).ops.as_ref().and_then(|ops| ops.close) {
                Some(close) => close(self.0),
                None => Errno::EINVAL.to_int(),
            }
        };
        if let Err(errno) = from_int(answer) {
            abi::say::complain(
                &c"peer",
                fmt!("an offload's object does not close: {}", errno.to_int()),
            );
        }
    }
}

/// `fi_export_fid()`, of one of ours.
///
/// # Errors
///
/// -FI_EINVAL for NULL, what the call says.
///
/// # Safety
///
/// `fid` is NULL or open.
unsafe fn export(fid: *mut fid) -> Result<Open> {
    let mut form = ptr::null_mut();
    let mut asked = fi_fid_export {
        fid: &mut form,
        flags: 0,
        context: ptr::null_mut(),
    };
    // SAFETY: By this function's safety requirement.
    unsafe {
        let ops = fid.as_ref().and_then(|fid| fid.ops.as_ref());
        let control = ops.ok_or(Errno::EINVAL)?.control.ok_or(Errno::ENOSYS)?;
        let answer = control(fid, abi::FI_EXPORT_FID as c_int, (&raw mut asked).cast());
        Open::new(answer, form)
    }
}

/// Tells an offload what has come of its transfers.
struct Courier {
    queue: Arc<dyn provider::CompletionQueue>,
    handler: Arc<CompletionQueue>,
    ep: usize,
    peer: fi_ops_transfer_peer,
}

// SAFETY: The offload's calls may come from any thread, one at a time.
unsafe impl Send for Courier {}

// SAFETY: As above: a handler does not run twice at a time.
unsafe impl Sync for Courier {}

impl Courier {
    fn tell(&self, outcome: &Outcome) {
        let ep: *mut fid_ep = ptr::with_exposed_provenance_mut(self.ep);
        let done = outcome.completion();
        let (op_context, buf) = (
            done.context.as_ptr(),
            ptr::without_provenance_mut::<c_void>(done.buf),
        );
        match (outcome, self.peer.complete, self.peer.comperr) {
            (Outcome::Done(_), Some(complete), _) => {
                let mut source: fi_addr_t = done.source;
                let mut entry = fi_cq_tagged_entry {
                    op_context,
                    flags: done.flags | abi::FI_PEER_TRANSFER,
                    len: done.len,
                    buf,
                    data: done.data,
                    tag: done.tag,
                };
                // SAFETY: The offload's endpoint is open, and so are its calls.
                let _ = unsafe { complete(ep, &mut entry, &mut source) };
            }
            (Outcome::Failed(failure), _, Some(comperr)) => {
                let mut entry = fi_cq_err_entry {
                    op_context,
                    flags: done.flags | abi::FI_PEER_TRANSFER,
                    len: done.len,
                    buf,
                    data: done.data,
                    tag: done.tag,
                    olen: failure.dropped,
                    err: failure.errno.code(),
                    prov_errno: failure.prov_errno,
                    src_addr: done.source,
                    ..pin_init::zeroed()
                };
                // SAFETY: As above.
                let _ = unsafe { comperr(ep, &mut entry) };
            }
            _ => {}
        }
    }

    fn tell_next(&self) -> bool {
        let outcome = next(&*self.queue);
        if let Some(outcome) = &outcome {
            self.tell(outcome);
        }
        outcome.is_some()
    }
}

impl TaskHandler for Courier {
    fn ready(&self, _here: InProcess) {
        for _ in 0..BUDGET {
            if self.tell_next() {
                continue;
            }
            // It is called for the next one, unless that has come meanwhile.
            let armed = read_or_arm(&*self.queue, || match self.tell_next() {
                true => Ok(1),
                false => Err(Errno::EAGAIN),
            });
            if armed.is_err() {
                return;
            }
        }
        self.handler.call_handler();
    }
}

/// An offload that an endpoint has been paired with.
pub(super) struct Offload {
    // Dropped in this order.
    ep: Open,
    vector: Open,
    queue: Open,
    _forms: [Open; 2],
    /// Where transfers complete.
    transfers: Arc<CompletionQueue>,
    /// How many groups have been joined.
    groups: Atomic<usize>,
}

impl Offload {
    /// Pairs an endpoint, whose `fid` is that, with the provider of `domain`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS of an endpoint that was not opened for FI_COLLECTIVE, and of a domain without calls;
    /// -FI_EOPBADSTATE before it is enabled, -FI_EALREADY, -FI_ENOMEM; what the provider says; -FI_EINVAL if it has
    /// left something out.
    ///
    /// # Safety
    ///
    /// `domain` is valid, and stays open until the endpoint has been closed.
    pub(super) unsafe fn pair(object: &EndpointObject, domain: *mut fid_domain) -> Result<Self> {
        let endpoint = object.endpoint();
        let addresses = endpoint.addresses()?;
        // SAFETY: By this function's safety requirement; the forms are ours.
        unsafe {
            let ops = (*domain).ops.as_ref().ok_or(Errno::ENOSYS)?;
            let open_ep = ops.endpoint2.ok_or(Errno::ENOSYS)?;
            let open_av = ops.av_open.ok_or(Errno::ENOSYS)?;
            let open_cq = ops.cq_open.ok_or(Errno::ENOSYS)?;
            // By its own call: its readers see from then on what others put.
            let cq_form = export(object.completions())?;
            let av_form = Open(peer::form_of_vector(&addresses, object.addr_format())?);

            let mut queue: *mut fid_cq = ptr::null_mut();
            let mut attr = fi_cq_attr {
                format: abi::FI_CQ_FORMAT_TAGGED,
                flags: abi::FI_PEER,
                ..pin_init::zeroed()
            };
            let mut context = fi_peer_cq_context {
                size: size_of::<fi_peer_cq_context>(),
                cq: cq_form.0.cast(),
            };
            let answer = open_cq(domain, &mut attr, &mut queue, (&raw mut context).cast());
            let queue = Open::new(answer, queue)?;

            let mut vector: *mut fid_av = ptr::null_mut();
            let mut attr = fi_av_attr {
                flags: abi::FI_PEER,
                ..pin_init::zeroed()
            };
            let mut context = fi_peer_av_context {
                size: size_of::<fi_peer_av_context>(),
                av: av_form.0.cast(),
            };
            let answer = open_av(domain, &mut attr, &mut vector, (&raw mut context).cast());
            let vector = Open::new(answer, vector)?;

            let mut info = Info::new()?;
            info.set_ep(&abi::fi_ep_attr {
                type_: abi::FI_EP_RDM,
                ..pin_init::zeroed()
            })?;
            let mut ep: *mut fid_ep = ptr::null_mut();
            let mut context = fi_peer_transfer_context {
                size: size_of::<fi_peer_transfer_context>(),
                info: ptr::null_mut(),
                ep: ptr::from_ref(object).cast_mut().cast(),
                peer_ops: ptr::null_mut(),
            };
            let answer = open_ep(
                domain,
                info.as_raw(),
                &mut ep,
                abi::FI_PEER_TRANSFER,
                (&raw mut context).cast(),
            );
            let ep = Open::new(answer, ep)?;
            let calls = peer::sized::<fi_ops_transfer_peer>(context.peer_ops.cast())?;
            if calls.complete.is_none() || calls.comperr.is_none() {
                return Err(Errno::EINVAL);
            }

            let transfers = endpoint.domain().completion_queue(&cq::Attr {
                size: 0,
                format: Format::Tagged,
                waitable: false,
                vector: 0,
            })?;
            let offload = Self {
                ep,
                vector,
                queue,
                _forms: [cq_form, av_form],
                transfers,
                groups: Atomic::new(0),
            };
            let carried = offload.begin(endpoint, *calls);
            carried.inspect_err(|_| {
                let _ = offload.transfers.close();
            })?;
            Ok(offload)
        }
    }

    /// Has transfers told, and the offload's endpoint begin.
    ///
    /// # Safety
    ///
    /// Its objects are as they should be.
    unsafe fn begin(
        &self,
        endpoint: &crate::fi::ep::Endpoint,
        calls: fi_ops_transfer_peer,
    ) -> Result {
        let courier = Courier {
            queue: self.transfers.core().clone(),
            handler: self.transfers.clone(),
            ep: self.ep.0.expose_provenance(),
            peer: calls,
        };
        let handler = Handler::Task(KBox::new(courier, GFP_KERNEL)?);
        self.transfers.set_handler(handler)?;
        self.transfers.arm_handler();
        let ep = self.ep.0;
        // SAFETY: By this function's safety requirement.
        unsafe {
            let ops = (*ep).ops.as_ref().ok_or(Errno::EINVAL)?;
            let bind = ops.bind.ok_or(Errno::EINVAL)?;
            let control = ops.control.ok_or(Errno::EINVAL)?;
            from_int(bind(ep, self.vector.0, 0))?;
            from_int(bind(ep, self.queue.0, abi::FI_TRANSMIT | abi::FI_RECV))?;
            from_int(control(ep, abi::FI_ENABLE as c_int, ptr::null_mut()))?;
        }
        endpoint.carry(&self.transfers)
    }

    /// Whether it can be closed.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY while a group has been joined.
    pub(super) fn check_idle(&self) -> Result {
        match self.groups.load(Acquire) {
            0 => Ok(()),
            _ => Err(Errno::EBUSY),
        }
    }

    /// Its endpoint has been closed: no transfers complete any more. May sleep.
    pub(super) fn end(&self) {
        let _ = self.transfers.close();
    }
}

/// A group that an endpoint has joined.
#[repr(C)]
struct GroupObject {
    fid: fid_mc,
    // Dropped in this order.
    _group: Open,
    _set: Open,
    _form: Open,
    /// Of the endpoint, which has others through which it may have been joined.
    root: Arc<Root>,
    domain: Arc<Domain>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_mc`, and is the only type with this table.
unsafe impl Object for GroupObject {
    const CLASS: u32 = abi::FI_CLASS_MC;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(leave, None, None);
        &OPS
    }
}

unsafe extern "C" fn leave(fid: *mut fid) -> c_int {
    // SAFETY: As the C caller promises.
    into_int(unsafe {
        object::object::<GroupObject>(fid).and_then(|group| {
            let root = group.root.clone();
            object::close::<GroupObject>(fid, |group| {
                group.domain.forget(Source(fid.expose_provenance()));
                Ok(())
            })?;
            // From now on the endpoint can be closed.
            if let Some(offload) = root.offload() {
                let _ = offload.groups.fetch_sub(1usize, Full);
            }
            Ok(())
        })
    })
}

/// `fi_join()`, which there is for collectives alone.
pub(super) unsafe extern "C" fn join(
    ep: *mut fid_ep,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: As the C caller promises.
    into_int(unsafe { try_join(ep, addr.cast(), flags, mc, context) })
}

/// # Safety
///
/// As of `fi_join_collective()`.
unsafe fn try_join(
    ep: *mut fid_ep,
    addr: *const fi_collective_addr,
    flags: u64,
    out: *mut *mut fid_mc,
    context: *mut c_void,
) -> Result {
    // SAFETY: By this function's safety requirement.
    let object = unsafe { object::object::<EndpointObject>(ep.cast())? };
    let offload = object.offload()?;
    if flags & abi::FI_COLLECTIVE == 0 {
        return Err(Errno::ENOSYS);
    }
    // SAFETY: By this function's safety requirement.
    let addr = unsafe { addr.as_ref() }.ok_or(Errno::EINVAL)?;
    if addr.set.is_null() || out.is_null() {
        return Err(Errno::EINVAL);
    }
    in_process()?;
    let addresses = object.endpoint().addresses()?;
    // SAFETY: By this function's safety requirement.
    let set = unsafe { object::object::<SetObject>(addr.set.cast_mut().cast())? };
    if !set.set().is_in(&addresses) {
        return Err(Errno::EINVAL);
    }
    let place = Place::<GroupObject>::new()?;
    let source = Source(place.address());
    let notice = object.endpoint().notice(source, abi::FI_JOIN_COMPLETE)?;
    // SAFETY: By this function's safety requirement; the offload's objects are open as long as it is there.
    unsafe {
        let form = export(addr.set.cast_mut().cast())?;
        let mut set: *mut fid_av_set = ptr::null_mut();
        let mut attr = fi_av_set_attr {
            start_addr: FI_ADDR_NOTAVAIL,
            end_addr: FI_ADDR_NOTAVAIL,
            flags: abi::FI_PEER_AV,
            ..pin_init::zeroed()
        };
        let mut peer = fi_peer_av_set_context {
            size: size_of::<fi_peer_av_set_context>(),
            av_set: form.0.cast(),
        };
        let vector = offload.vector.0.cast::<fid_av>();
        let ops = (*vector).ops.as_ref().ok_or(Errno::ENOSYS)?;
        let open_set = ops.av_set.ok_or(Errno::ENOSYS)?;
        let answer = open_set(vector, &mut attr, &mut set, (&raw mut peer).cast());
        let opened = Open::new(answer, set)?;
        let theirs = fi_collective_addr {
            set,
            coll_addr: addr.coll_addr,
        };
        let their_ep = offload.ep.0.cast::<fid_ep>();
        let cm = (*their_ep).cm.as_ref().ok_or(Errno::ENOSYS)?;
        let join = cm.join.ok_or(Errno::ENOSYS)?;
        let mut group: *mut fid_mc = ptr::null_mut();
        let answer = join(
            their_ep,
            ptr::from_ref(&theirs).cast(),
            flags,
            &mut group,
            context,
        );
        let joined = Open::new(answer, group)?;
        let _ = offload.groups.fetch_add(1usize, Full);
        let made = place.put(GroupObject {
            fid: fid_mc {
                fid: header::<GroupObject>(context),
                fi_addr: (*group).fi_addr,
            },
            _group: joined,
            _set: opened,
            _form: form,
            root: object.root().clone(),
            domain: object.endpoint().domain().clone(),
        });
        object::hand_out(out, made);
    }
    if let Some(notice) = notice {
        notice.give();
    }
    Ok(())
}

macro_rules! collectives {
    ($($call:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            unsafe extern "C" fn $call(ep: *mut fid_ep $(, $arg: $type)*) -> isize {
                // SAFETY: As the C caller promises; the offload's objects are open as long as it is there.
                unsafe {
                    let offload = object::object::<EndpointObject>(ep.cast())
                        .and_then(EndpointObject::offload);
                    let theirs = match offload {
                        Ok(offload) => offload.ep.0.cast::<fid_ep>(),
                        Err(errno) => return errno.to_ssize(),
                    };
                    match (*theirs).collective.as_ref().and_then(|ops| ops.$call) {
                        Some(call) => call(theirs $(, $arg)*),
                        None => Errno::ENOSYS.to_ssize(),
                    }
                }
            }
        )*

        /// The collectives of an endpoint: those of its offload, or none.
        pub(super) static COLLECTIVE: fi_ops_collective = fi_ops_collective {
            size: size_of::<fi_ops_collective>(),
            $($call: Some($call),)*
        };
    };
}

type Data = *const c_void;
type Room = *mut c_void;

collectives! {
    barrier(coll_addr: fi_addr_t, context: Room);
    broadcast(buf: Room, count: usize, desc: Room, coll_addr: fi_addr_t, root_addr: fi_addr_t,
        datatype: fi_datatype, flags: u64, context: Room);
    alltoall(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    allreduce(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: Room);
    allgather(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    reduce_scatter(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: Room);
    reduce(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64,
        context: Room);
    scatter(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    gather(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    msg(msg: *const fi_msg_collective, resultv: *mut fi_ioc, result_desc: *mut Room, result_count: usize,
        flags: u64);
    barrier2(coll_addr: fi_addr_t, flags: u64, context: Room);
}
