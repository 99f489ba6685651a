// SPDX-License-Identifier: GPL-2.0

//! Datagram endpoints in one module that exchange messages, RMA and atomics, and share contexts.
//!
//! ```text
//! insmod datagrams_rs.ko addr=0x0a000001 port=7471
//! ```
//!
//! Each endpoint has a domain of its own. The address vector and the event queue of the second one
//! are peers of those of the first one.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
};
use kofi::{
    abi::{
        self,
        info::{
            Info,
            InfoList, //
        },
        Errno,
        Result, //
    },
    compat::param_value,
    fi::{
        atomic::{
            Datatype,
            Op, //
        },
        av::{
            self,
            AddressVector,
            Peer, //
        },
        av_set::{
            AddressSet,
            InitialMembers, //
        },
        domain::Domain,
        eq,
        info::Query,
        memory::{
            Buffer,
            RefusedPost, //
        },
        provider::Tag,
        rdm::{
            CompletedOp,
            Completions,
            Direction,
            Endpoint,
            RemoteAccess,
            RemoteBuffer,
            RemoteElements,
            Shared,
            SharedReceives,
            SharedTransmits, //
        },
        wait::Budget, //
    },
    util::context::{
        in_process,
        ProcessContext, //
    },
};

module! {
    type: Datagrams,
    name: "datagrams_rs",
    authors: ["kOFI contributors"],
    description: "kOFI test: datagrams between two endpoints",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0,
            description: "Local IPv4 address as a number, 10.0.0.1 is 0x0a000001",
        },
        port: u16 {
            default: 7471,
            description: "Port of the first endpoint; the others have the next ones",
        },
    },
}

/// Sizes of an eager message and of a rendezvous message in bytes.
const SHORT: usize = 64;
const LONG: usize = 300_000;

/// Capabilities of both endpoints.
const CAPS: u64 = abi::FI_MSG
    | abi::FI_TAGGED
    | abi::FI_RMA
    | abi::FI_ATOMIC
    | abi::FI_SOURCE
    | abi::FI_DIRECTED_RECV;

const PLAIN: av::Attr<'static> = av::Attr {
    kind: None,
    rx_ctx_bits: 0,
    count: 0,
    is_async: false,
    name: None,
    is_read_only: false,
};

struct Datagrams {}

impl kernel::Module for Datagrams {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let address = (
            param_value(&module_parameters::addr),
            param_value(&module_parameters::port),
        );
        run(in_process()?, address)?;
        pr_info!("all has arrived\n");
        Ok(Self {})
    }
}

/// Queries offers for datagram endpoints with the local address and the capabilities.
fn find(here: ProcessContext, (addr, port): (u32, u16), caps: u64) -> Result<InfoList> {
    let mut hints = Info::new()?;
    hints.set_caps(caps);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_RDM,
        ..pin_init::zeroed()
    })?;
    find_by(here, (addr, port), &hints)
}

/// Queries offers with the local address and the hints.
fn find_by(here: ProcessContext, (addr, port): (u32, u16), hints: &Info) -> Result<InfoList> {
    let [a, b, c, d] = addr.to_be_bytes();
    let node = CString::try_from_fmt(fmt!("{a}.{b}.{c}.{d}"))?;
    let service = CString::try_from_fmt(fmt!("{port}"))?;
    let query = Query {
        node: Some(&node),
        service: Some(&service),
        source: true,
        hints: Some(hints),
        net: None,
    };
    kofi::getinfo(here, &query)
}

fn budget() -> Budget {
    Budget::from_millis(30_000)
}

/// Prints `what` and fails if a condition is false.
fn expect(is_so: bool, what: &str) -> Result {
    if is_so {
        return Ok(());
    }
    pr_err!("{}\n", what);
    Err(Errno::EOTHER)
}

fn refusal(posted: core::result::Result<(), RefusedPost>) -> Option<Errno> {
    posted.err().map(|refused| refused.errno)
}

/// An endpoint with its completion queues and domain.
struct End {
    endpoint: Arc<Endpoint>,
    transmits: Arc<Completions>,
    receives: Arc<Completions>,
    domain: Arc<Domain>,
}

impl End {
    /// Opens an endpoint of `info` with the peers in `addresses`.
    fn new(
        here: ProcessContext,
        info: &Info,
        domain: Arc<Domain>,
        addresses: &Arc<AddressVector>,
    ) -> Result<Self> {
        Self::with_contexts(here, info, domain, addresses, Shared::default())
    }

    /// Opens an endpoint that shares contexts with others.
    fn with_contexts(
        here: ProcessContext,
        info: &Info,
        domain: Arc<Domain>,
        addresses: &Arc<AddressVector>,
        shared: Shared<'_>,
    ) -> Result<Self> {
        let transmits = Completions::of_datagrams(here, &domain, 0)?;
        let receives = Completions::of_datagrams(here, &domain, 0)?;
        let sides = (transmits.side(None), receives.side(None));
        let endpoint = Endpoint::sharing(here, &domain, info, addresses, sides, shared)?;
        Ok(Self {
            endpoint: Arc::new(endpoint, GFP_KERNEL)?,
            transmits,
            receives,
            domain,
        })
    }

    fn sent(&self, here: ProcessContext) -> Result<KBox<Buffer>> {
        let done = self.transmits.wait(here, &mut budget())?;
        done.result.map(|_| done.buffer)
    }

    /// Waits for the next message and checks its source and tag.
    fn message(&self, here: ProcessContext, from: &Peer, tag: Option<u64>) -> Result<CompletedOp> {
        let done = self.receives.wait(here, &mut budget())?;
        expect(done.result.is_ok(), "a receive has failed")?;
        expect(done.direction == Direction::Received, "no receive")?;
        expect(done.from == Some(from.id()), "of another")?;
        expect(done.tag == tag, "with another tag")?;
        Ok(done)
    }
}

/// Returns a buffer filled with one byte value.
fn filled(here: ProcessContext, len: usize, byte: u8) -> Result<KBox<Buffer>> {
    let mut buffer = Buffer::new(here, len, 0)?;
    buffer.fill(byte);
    Ok(buffer)
}

/// Sends messages from `one` to `other`, with and without tags, and checks that they arrive
/// unchanged. `a` and `b` are the addresses of `one` and `other`.
fn exchange(here: ProcessContext, (one, a): (&End, &Peer), (other, b): (&End, &Peer)) -> Result {
    for (byte, len) in [(1, SHORT), (2, LONG), (3, 0)] {
        other.endpoint.receive(None, Buffer::new(here, LONG, 0)?)?;
        one.endpoint.send(b, filled(here, len, byte)?, len)?;
        let done = other.message(here, a, None)?;
        expect(done.result == Ok(len), "not all of a message")?;
        let is_it = done.buffer.iter().take(len).all(|&there| there == byte);
        expect(is_it, "not what was sent")?;
        drop(one.sent(here)?);
    }
    // The mask of the second receive also matches tag 5, for which the first receive takes
    // precedence.
    for (tag, ignore) in [(5, 0), (4, 1)] {
        let tag = Tag { tag, ignore };
        other
            .endpoint
            .receive_tagged(None, tag, Buffer::new(here, SHORT, 0)?)?;
    }
    for tag in [4, 5] {
        one.endpoint
            .send_tagged(b, tag, filled(here, SHORT, tag as u8)?, SHORT)?;
        drop(one.sent(here)?);
        let done = other.message(here, a, Some(tag))?;
        expect(done.buffer[0] == tag as u8, "not what was sent with a tag")?;
    }
    Ok(())
}

/// Checks that a directed receive takes messages of its source only.
fn directed(here: ProcessContext, (one, a): (&End, &Peer), (other, b): (&End, &Peer)) -> Result {
    let own = Buffer::new(here, SHORT, 0)?;
    other.endpoint.receive(Some(b), own)?;
    one.endpoint.send(b, filled(here, SHORT, 1)?, SHORT)?;
    drop(one.sent(here)?);
    other.endpoint.send(b, filled(here, SHORT, 2)?, SHORT)?;
    drop(other.sent(here)?);
    let done = other.message(here, b, None)?;
    expect(done.buffer[0] == 2, "not one's own")?;
    other.endpoint.receive(Some(a), done.buffer)?;
    let done = other.message(here, a, None)?;
    expect(done.buffer[0] == 1, "not the other's")
}

/// Leaves a tagged message unexpected: its bytes have the value of the tag. A second message that
/// is received after it shows that it has arrived.
fn leave_unexpected(
    here: ProcessContext,
    (one, a): (&End, &Peer),
    (other, b): (&End, &Peer),
    tag: u64,
) -> Result {
    other.endpoint.receive(None, Buffer::new(here, 0, 0)?)?;
    one.endpoint
        .send_tagged(b, tag, filled(here, SHORT, tag as u8)?, SHORT)?;
    one.endpoint.send(b, Buffer::new(here, 0, 0)?, 0)?;
    for _ in 0..2 {
        drop(one.sent(here)?);
    }
    other.message(here, a, None).map(drop)
}

/// Peeks at, claims and discards unexpected messages, and cancels a receive.
fn peek_claim(here: ProcessContext, (one, a): (&End, &Peer), (other, b): (&End, &Peer)) -> Result {
    let end = &other.endpoint;
    let buffer = || Buffer::new(here, SHORT, 0);
    let found = |tag| {
        let done = other.message(here, a, Some(tag))?;
        expect(done.result == Ok(SHORT), "not all that waits")?;
        Ok::<_, Errno>(done.buffer)
    };
    let failed = |errno| {
        let done = other.receives.wait(here, &mut budget())?;
        expect(done.result == Err(errno), "not that error")?;
        Ok::<_, Errno>(done.buffer)
    };
    end.peek(None, Tag::ANY, buffer()?)?;
    let idle = failed(Errno::ENOMSG)?;
    let nothing = refusal(end.receive_claimed(idle));
    expect(nothing == Some(Errno::EINVAL), "nothing was claimed")?;

    leave_unexpected(here, (one, a), (other, b), 9)?;
    end.peek(Some(b), Tag::ANY, buffer()?)?;
    end.peek(Some(a), Tag::ANY, failed(Errno::ENOMSG)?)?;
    end.claim(None, Tag::ANY, found(9)?)?;
    let claimed = found(9)?;
    end.peek(None, Tag::ANY, buffer()?)?;
    drop(failed(Errno::ENOMSG)?);
    end.receive_claimed(claimed)?;
    let taken = found(9)?;
    expect(
        taken.iter().all(|&there| there == 9),
        "not what was claimed",
    )?;

    for is_claimed in [false, true] {
        leave_unexpected(here, (one, a), (other, b), 10)?;
        if is_claimed {
            end.claim(None, Tag::ANY, buffer()?)?;
            end.discard_claimed(found(10)?)?;
            let done = other.message(here, a, Some(10))?;
            expect(done.result == Ok(0), "bytes of what was dropped")?;
        } else {
            end.discard(None, Tag::ANY, buffer()?)?;
            drop(found(10)?);
        }
        end.peek(None, Tag::ANY, buffer()?)?;
        drop(failed(Errno::ENOMSG)?);
    }

    let posted = buffer()?;
    let context = posted.context();
    end.receive_tagged(None, Tag::ANY, posted)?;
    end.cancel(context)?;
    let back = failed(Errno::ECANCELED)?;
    expect(back.context() == context, "another buffer")?;
    let twice = end.cancel(context);
    expect(twice == Err(Errno::ENOENT), "taken back twice")
}

/// Writes a number to the first 8 bytes, if there are as many.
fn put_number(bytes: &mut [u8], number: u64) {
    if let Some(space) = bytes.first_chunk_mut() {
        *space = number.to_ne_bytes();
    }
}

/// Writes, reads and atomically changes memory that `other` has registered for remote access.
fn access_memory(here: ProcessContext, one: &End, other: &End, b: &Peer) -> Result {
    let buffer = filled(here, SHORT, 0)?;
    let lent = RemoteBuffer::new(here, &other.domain, buffer, RemoteAccess::ReadWrite)?;
    one.endpoint
        .write(b, filled(here, SHORT, 7)?, SHORT, lent.remote())?;
    let buffer = one.sent(here)?;
    let mut there = [0; SHORT];
    lent.read(0, &mut there)?;
    expect(there == [7; SHORT], "not what was written")?;
    lent.write(0, &41u64.to_ne_bytes())?;
    one.endpoint.read(b, buffer, SHORT, lent.remote())?;
    let buffer = one.sent(here)?;
    expect(
        buffer.starts_with(&41u64.to_ne_bytes()),
        "not what was read",
    )?;
    let word = RemoteElements {
        remote: lent.remote(),
        count: 1,
        datatype: Datatype::from_raw(abi::FI_UINT64)?,
    };
    let mut buffer = Buffer::new(here, 8, 0)?;
    put_number(&mut buffer, 1);
    one.endpoint.fetch(b, buffer, Op::Sum, word)?;
    let buffer = one.sent(here)?;
    expect(
        buffer.starts_with(&41u64.to_ne_bytes()),
        "not what was there",
    )?;
    let mut both = Buffer::new(here, 16, 0)?;
    let (operand, compare) = both.split_at_mut(8);
    put_number(operand, 9);
    put_number(compare, 42);
    one.endpoint.compare(b, both, Op::Swap, word)?;
    drop(one.sent(here)?);
    lent.read(0, &mut there)?;
    expect(there.starts_with(&9u64.to_ne_bytes()), "not swapped")
}

/// Echoes messages from a completion handler in interrupt context.
fn echo(here: ProcessContext, (one, a): (&End, &Peer), (other, b): (&End, &Peer)) -> Result {
    let back = Peer::insert(here, a.vector(), a.address()?)?;
    let endpoint = other.endpoint.clone();
    let calls = other.receives.on_interrupt(here, move |arrived| {
        while let Ok(done) = arrived.read() {
            if let Ok(len) = done.result {
                let _ = endpoint.send(&back, done.buffer, len);
            }
        }
    })?;
    for byte in 0..8 {
        one.endpoint.receive(None, Buffer::new(here, SHORT, 0)?)?;
        other.endpoint.receive(None, Buffer::new(here, SHORT, 0)?)?;
        one.endpoint.send(b, filled(here, SHORT, byte)?, SHORT)?;
        drop(one.sent(here)?);
        let done = one.message(here, b, None)?;
        expect(done.buffer[0] == byte, "not what was sent back")?;
        drop(other.sent(here)?);
    }
    drop(calls);
    Ok(())
}

/// Checks that the buffer of an operation that cannot be posted is returned with the errno.
fn post_invalid(here: ProcessContext, address: (u32, u16), one: &End, b: &Peer) -> Result {
    let buffer = || Buffer::new(here, SHORT, 0);
    let longer = refusal(one.endpoint.send(b, buffer()?, SHORT + 1));
    expect(longer == Some(Errno::EINVAL), "more than there is")?;
    let list = find(here, address, abi::FI_MSG)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<Datagrams>(here, info)?;
    let domain = fabric.domain(here, info)?;
    let addresses = domain.address_vector(here, &PLAIN)?;
    let plain = End::new(here, info, domain, &addresses)?;
    let peer = Peer::insert(here, &addresses, b.address()?)?;
    // With this entry, the address vector has as many entries as the other one.
    let _other = Peer::insert(here, &addresses, one.endpoint.address(here)?)?;
    let stranger = refusal(plain.endpoint.send(b, buffer()?, SHORT));
    expect(
        stranger == Some(Errno::EINVAL),
        "to a peer of another vector",
    )?;
    let tagged = refusal(plain.endpoint.send_tagged(&peer, 1, buffer()?, SHORT));
    expect(tagged == Some(Errno::ENOSYS), "a tag without FI_TAGGED")?;
    let tagged = refusal(plain.endpoint.receive_tagged(None, Tag::ANY, buffer()?));
    expect(tagged == Some(Errno::ENOSYS), "a tag without FI_TAGGED")?;
    let tagged = refusal(plain.endpoint.peek(None, Tag::ANY, buffer()?));
    expect(tagged == Some(Errno::ENOSYS), "a tag without FI_TAGGED")?;
    let directed = refusal(plain.endpoint.receive(Some(&peer), buffer()?));
    expect(
        directed == Some(Errno::EOPNOTSUPP),
        "a source without FI_DIRECTED_RECV",
    )?;
    // Closing the endpoint flushes this receive.
    Ok(plain.endpoint.receive(None, buffer()?)?)
}

/// Opens two endpoints that share both contexts, and checks that each message takes the receive
/// that matches it.
fn sharing(here: ProcessContext, (addr, port): (u32, u16)) -> Result {
    let find = |port| {
        let mut hints = Info::new()?;
        hints.set_caps(abi::FI_MSG | abi::FI_TAGGED);
        hints.set_ep(&abi::fi_ep_attr {
            type_: abi::FI_EP_RDM,
            tx_ctx_cnt: abi::FI_SHARED_CONTEXT,
            rx_ctx_cnt: abi::FI_SHARED_CONTEXT,
            ..pin_init::zeroed()
        })?;
        find_by(here, (addr, port), &hints)
    };
    let (list, list_of_other) = (find(port)?, find(port + 1)?);
    let info = list.first().ok_or(Errno::ENODATA)?;
    let info_of_other = list_of_other.first().ok_or(Errno::ENODATA)?;
    let domain = kofi::fabric::<Datagrams>(here, info)?.domain(here, info)?;
    let addresses = domain.address_vector(here, &PLAIN)?;
    let more = SharedTransmits::new(here, &domain, 2049).err();
    expect(more == Some(Errno::EINVAL), "more than a context has")?;
    let transmits = SharedTransmits::new(here, &domain, 4)?;
    let receives = SharedReceives::new(here, &domain, 2)?;
    let end = |info, (receives, transmits)| {
        let shared = Shared {
            receives,
            transmits,
        };
        End::with_contexts(here, info, domain.clone(), &addresses, shared)
    };
    let all = (Some(&receives), Some(&transmits));
    for (part, errno) in [
        ((all.0, None), Errno::EOPBADSTATE),
        ((None, all.1), Errno::ENORX),
    ] {
        let lacks = end(info, part).err();
        expect(lacks == Some(errno), "one half is missing")?;
    }
    let (one, other) = (end(info, all)?, end(info_of_other, all)?);
    let a = Peer::insert(here, &addresses, one.endpoint.address(here)?)?;
    let b = Peer::insert(here, &addresses, other.endpoint.address(here)?)?;
    let own = refusal(one.endpoint.receive(None, Buffer::new(here, SHORT, 0)?));
    expect(own == Some(Errno::ENOSYS), "a receive of its own")?;
    // The endpoints hold references on the contexts.
    drop(transmits);
    for (from, to, at) in [(&one, &b, &other), (&other, &a, &one)] {
        receives.receive(Buffer::new(here, SHORT, 0)?)?;
        receives.receive_tagged(Tag::ANY, Buffer::new(here, SHORT, 0)?)?;
        expect(receives.receives_left() == 0, "space for more than two")?;
        let sent = filled(here, SHORT, 3)?;
        from.endpoint.send_tagged(to, 3, sent, SHORT)?;
        let done = at.receives.wait(here, &mut budget())?;
        expect(done.tag == Some(3), "not the tagged one")?;
        expect(done.result == Ok(SHORT), "not all of it")?;
        let sent = filled(here, SHORT, 4)?;
        from.endpoint.send(to, sent, SHORT)?;
        let done = at.receives.wait(here, &mut budget())?;
        expect(done.tag.is_none(), "not the untagged one")?;
        let is_it = done.buffer.iter().all(|&there| there == 4);
        expect(is_it, "not what was sent")?;
        for _ in 0..2 {
            drop(from.sent(here)?);
        }
    }
    // A completion that is not read is freed with its queue, and a receive without a message with
    // the shared context.
    receives.receive(Buffer::new(here, SHORT, 0)?)?;
    one.endpoint.send(&b, filled(here, SHORT, 5)?, SHORT)?;
    drop(one.sent(here)?);
    for _ in 0..30_000 {
        if receives.receives_left() == 2 {
            break;
        }
        fsleep(Delta::from_millis(1));
    }
    expect(receives.receives_left() == 2, "a message does not come")?;
    receives.receive(Buffer::new(here, SHORT, 0)?)?;
    Ok(())
}

/// Checks that a peer address set has the members of its owner's set.
fn compare_sets(
    here: ProcessContext,
    own: &Arc<AddressVector>,
    theirs: &Arc<AddressVector>,
    peer: &Peer,
) -> Result {
    let owner = AddressSet::new(here, own, 0, InitialMembers::Empty)?;
    let set = AddressSet::peer_of(here, theirs, &owner)?;
    expect(!set.has(here, peer), "an empty set")?;
    owner.add(here, peer)?;
    expect(set.has(here, peer), "a member of the owner's")?;
    expect(set.add(here, peer).is_err(), "a set that is changed here")
}

fn run(here: ProcessContext, (addr, port): (u32, u16)) -> Result {
    let list = find(here, (addr, port), CAPS)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<Datagrams>(here, info)?;
    let domain = fabric.domain(here, info)?;
    let addresses = domain.address_vector(here, &PLAIN)?;
    let one = End::new(here, info, domain, &addresses)?;

    let list = find(here, (addr, port + 1), CAPS)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let events = fabric.event_queue(here, eq::Attr::default())?;
    let fabric = kofi::fabric::<Datagrams>(here, info)?;
    let _events = fabric.peer_event_queue(here, &events)?;
    let domain = fabric.domain(here, info)?;
    let theirs = domain.peer_address_vector(here, &addresses, None)?;
    let other = End::new(here, info, domain, &theirs)?;

    let a = Peer::insert(here, &addresses, one.endpoint.address(here)?)?;
    let b = Peer::insert(here, &addresses, other.endpoint.address(here)?)?;
    expect(a.id() != b.id(), "two by one name")?;
    compare_sets(here, &addresses, &theirs, &a)?;
    exchange(here, (&one, &a), (&other, &b))?;
    exchange(here, (&other, &b), (&one, &a))?;
    directed(here, (&one, &a), (&other, &b))?;
    peek_claim(here, (&one, &a), (&other, &b))?;
    access_memory(here, &one, &other, &b)?;
    post_invalid(here, (addr, port + 2), &one, &b)?;
    sharing(here, (addr, port + 3))?;
    echo(here, (&one, &a), (&other, &b))?;

    // Closing an endpoint flushes its receives without completions.
    one.endpoint.receive(None, Buffer::new(here, SHORT, 0)?)?;
    let End {
        endpoint, receives, ..
    } = one;
    drop(endpoint);
    match receives.read() {
        Err(Errno::EAGAIN) => Ok(()),
        _ => Err(Errno::EOTHER),
    }
}
