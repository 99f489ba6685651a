// SPDX-License-Identifier: GPL-2.0

//! Tests that a process has the kernel run: each in a thread of its own, which ends with the file.

mod client;
mod content;
mod protocol;
mod server;
mod tally;

use super::{
    argument::string,
    Client, //
};
use crate::{
    abi::{
        self,
        context::{
            in_process,
            InProcess, //
        },
        fi_ep_attr,
        info::{
            Info,
            InfoList, //
        },
        kofi_stop,
        kofi_test,
        kofi_watch,
        thread::Thread,
        NetRef, //
    },
    fi::{
        info::Query,
        wait::{
            Budget,
            Woken, //
        },
    },
};
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use tally::Tally;

/// One that has been started.
pub(super) struct Test {
    tally: Arc<Tally>,
    /// Dropped when it is to end: that stops the thread, and waits for it.
    thread: Option<Thread>,
}

/// What is sent.
#[derive(Clone, Copy)]
struct Traffic {
    kind: Kind,
    /// Messages under way at once.
    window: usize,
    /// Bytes of a message.
    length: usize,
    /// Whether each is looked at where it arrives.
    verify: bool,
}

/// Which way messages go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// There and back.
    PingPong,
    /// There.
    Stream,
}

/// When a client has sent enough.
#[derive(Clone, Copy)]
struct Bound {
    /// How many messages; 0 for any number.
    count: u64,
    /// For how long; 0 for any time.
    msec: u32,
}

/// Where the server is.
struct Place {
    node: Option<CString>,
    service: Option<CString>,
    domain: Option<CString>,
}

impl Place {
    fn new(test: &kofi_test) -> Result<Self> {
        let own = |field: &[u8]| -> Result<Option<CString>> {
            Ok(string(field)?.map(CString::try_from).transpose()?)
        };
        Ok(Self {
            node: own(&test.node)?,
            service: own(&test.service)?,
            domain: own(&test.domain_name)?,
        })
    }

    /// What leads there, or from there.
    fn find(&self, here: InProcess, net: NetRef, source: bool) -> abi::Result<InfoList> {
        let mut hints = Info::new()?;
        hints.set_caps(abi::FI_MSG);
        hints.set_ep(&fi_ep_attr {
            type_: abi::FI_EP_MSG,
            ..pin_init::zeroed()
        })?;
        if let Some(name) = &self.domain {
            hints.set_domain_name(name)?;
        }
        hints.set_net(net);
        crate::getinfo(
            here,
            &Query {
                node: self.node.as_deref(),
                service: self.service.as_deref(),
                source,
                hints: Some(&hints),
            },
        )
    }
}

impl Traffic {
    /// Of a client; none of a server, which has nothing of its own.
    fn new(test: &kofi_test) -> Result<Option<Self>> {
        let kind = match test.kind {
            abi::KOFI_TEST_SERVER => {
                let none = test.window == 0 && test.length == 0 && test.count == 0;
                return if none && test.msec == 0 {
                    Ok(None)
                } else {
                    Err(EINVAL)
                };
            }
            abi::KOFI_TEST_PINGPONG if test.window == 0 => Kind::PingPong,
            abi::KOFI_TEST_STREAM if test.window > 0 => Kind::Stream,
            _ => return Err(EINVAL),
        };
        let traffic = Self {
            kind,
            window: test.window.max(1) as usize,
            length: usize::try_from(test.length).map_err(|_| EINVAL)?,
            verify: test.flags & abi::KOFI_TEST_VERIFY != 0,
        };
        if !traffic.is_bounded() {
            return Err(EINVAL);
        }
        Ok(Some(traffic))
    }

    /// Whether it is no more than anybody may ask for, in either kernel.
    fn is_bounded(&self) -> bool {
        (1..=abi::KOFI_TEST_MAX_LENGTH as usize).contains(&self.length)
            && (1..=abi::KOFI_TEST_MAX_WINDOW as usize).contains(&self.window)
            && self.length.saturating_mul(self.window) <= abi::KOFI_TEST_MAX_BYTES as usize
    }
}

/// KOFI_IOC_START. May sleep.
///
/// # Errors
///
/// `EBUSY` while a test runs, `EINVAL` for what there is not, `EOPNOTSUPP` where what is reserved is not
/// 0, `ENOMEM`.
pub(super) fn start(client: &Client, test: &mut kofi_test) -> Result {
    if test.reserved != 0 {
        return Err(EOPNOTSUPP);
    }
    let place = Place::new(test)?;
    let traffic = Traffic::new(test)?;
    let bound = Bound {
        count: test.count,
        msec: test.msec,
    };
    let mut running = client.test.lock();
    if running.as_ref().is_some_and(|test| !test.tally.is_over()) {
        return Err(EBUSY);
    }
    let tally = Tally::new()?;
    let (own, net) = (tally.clone(), client.net.clone());
    let thread = Thread::run(in_process()?, c"kofi_test", move |here| {
        let net = net.get();
        own.end(match traffic {
            Some(traffic) => client::run(here, &place, net, &traffic, &bound, &own),
            None => server::run(here, &place, net, &own),
        });
    })?;
    *running = Some(Test {
        tally,
        thread: Some(thread),
    });
    Ok(())
}

/// KOFI_IOC_WATCH. May sleep.
///
/// # Errors
///
/// `ENOENT` without a test, `EINTR`, `EFAULT`, `EOPNOTSUPP` where what is reserved is not 0.
pub(super) fn watch(client: &Client, watch: &mut kofi_watch) -> Result {
    if watch.reserved != 0 {
        return Err(EOPNOTSUPP);
    }
    let tally = {
        let running = client.test.lock();
        running.as_ref().ok_or(ENOENT)?.tally.clone()
    };
    let msec = c_int::try_from(watch.msec).unwrap_or(c_int::MAX);
    let mut budget = Budget::from_millis(msec);
    loop {
        let ticket = tally.over().ticket();
        if tally.is_over() || msec == 0 {
            break;
        }
        match tally.over().wait(&ticket, &mut budget) {
            Woken::Signal => {}
            Woken::Timeout => break,
            // Not to be restarted: the caller's handler may have had a say.
            Woken::Interrupted => return Err(EINTR),
        }
    }
    tally.tell(watch)
}

/// KOFI_IOC_STOP. May sleep, until the thread has ended.
///
/// # Errors
///
/// `ENOENT` without a test.
pub(super) fn stop(client: &Client, _stop: &mut kofi_stop) -> Result {
    let mut running = client.test.lock();
    let test = (*running).as_mut().ok_or(ENOENT)?;
    drop(test.thread.take());
    // A thread that is stopped before it has begun does nothing.
    if !test.tally.is_over() {
        test.tally.end(Ok(()));
    }
    Ok(())
}
