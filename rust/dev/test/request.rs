// SPDX-License-Identifier: GPL-2.0

//! What a process asks a test to do.

use super::super::ioctl_arg::string;
use crate::{
    abi::{
        self,
        context::ProcessContext,
        fi_ep_attr,
        info::{
            Info,
            InfoList, //
        },
        kofi_test,
        namespace::Namespace, //
    },
    fi::{
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        info::Query,
        introspect::Owner, //
    },
};
use kernel::{
    prelude::*,
    str::CString, //
};

/// Bytes that a server lends at most.
const LENT: usize = abi::KOFI_TEST_MAX_LENGTH as usize;

/// Which side it is.
pub(super) enum Side {
    /// Whether it takes verbs by hand, in place of the fabric interfaces.
    Server {
        by_hand: bool,
    },
    Client(Work),
}

/// What a client does.
pub(super) struct Work {
    pub(super) traffic: Traffic,
    pub(super) task: Task,
    pub(super) bound: Bound,
    /// Whether it takes verbs by hand, in place of the fabric interfaces.
    pub(super) by_hand: bool,
}

/// The task of a client.
#[derive(Clone, Copy)]
pub(super) enum Task {
    /// Messages go there and back.
    PingPong,
    /// Messages go there.
    Stream,
    /// The server's memory is written.
    Write,
    /// The server's memory is read.
    Read,
    /// The server's memory is changed.
    Change(Change),
}

/// An atomic operation that is done over and over.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) form: Form,
    pub(super) op: Op,
    pub(super) datatype: Datatype,
}

/// What both sides have to know.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    pub(super) kind: Kind,
    /// Messages, or accesses, under way at once.
    pub(super) window: usize,
    /// Bytes of each.
    pub(super) length: usize,
    /// Whether each is looked at where it arrives.
    pub(super) verify: bool,
}

/// What the server is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To send each message back.
    PingPong,
    /// To receive messages.
    Stream,
    /// To lend memory, room for a window of accesses.
    Memory,
}

/// When a client has done enough.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// How many messages or accesses; 0 for any number.
    pub(super) count: u64,
    /// For how long; 0 for any time.
    pub(super) msec: u32,
}

/// Where the server is, and who asks.
pub(super) struct Place {
    pub(super) owner: Owner,
    node: Option<CString>,
    service: Option<CString>,
    domain: Option<CString>,
}

impl Place {
    pub(super) fn new(test: &kofi_test) -> Result<Self> {
        let own = |field: &[u8]| -> Result<Option<CString>> {
            Ok(string(field)?.map(CString::try_from).transpose()?)
        };
        Ok(Self {
            owner: Owner::process(),
            node: own(&test.node)?,
            service: own(&test.service)?,
            domain: own(&test.domain_name)?,
        })
    }

    /// What leads there, or from there, and has `caps`.
    pub(super) fn find(
        &self,
        here: ProcessContext,
        net: &Namespace,
        source: bool,
        caps: u64,
    ) -> abi::Result<InfoList> {
        let mut hints = Info::new()?;
        hints.set_caps(caps);
        hints.set_ep(&fi_ep_attr {
            type_: abi::FI_EP_MSG,
            ..pin_init::zeroed()
        })?;
        if let Some(name) = &self.domain {
            hints.set_domain_name(name)?;
        }
        let query = Query {
            node: self.node.as_deref(),
            service: self.service.as_deref(),
            source,
            hints: Some(&hints),
            net: Some(net),
        };
        crate::getinfo(here, &query)
    }
}

impl Side {
    pub(super) fn new(test: &kofi_test) -> Result<Self> {
        let by_hand = test.flags & abi::KOFI_TEST_VERBS != 0;
        if test.kind == abi::KOFI_TEST_SERVER {
            // It has nothing of its own.
            let numbers = [test.length, test.count];
            let words = [test.window, test.msec, test.op, test.datatype];
            let is_bare = numbers.iter().all(|&number| number == 0);
            return match is_bare && words.iter().all(|&word| word == 0) {
                true => Ok(Self::Server { by_hand }),
                false => Err(EINVAL),
            };
        }
        let task = Task::new(test)?;
        let traffic = Traffic {
            kind: task.kind(),
            window: test.window.max(1) as usize,
            length: usize::try_from(test.length).map_err(|_| EINVAL)?,
            verify: test.flags & abi::KOFI_TEST_VERIFY != 0,
        };
        if !traffic.is_bounded() || !task.is_whole(traffic.length) {
            return Err(EINVAL);
        }
        if by_hand && !task.is_of_verbs(traffic.length) {
            return Err(EINVAL);
        }
        let bound = Bound {
            count: test.count,
            msec: test.msec,
        };
        Ok(Self::Client(Work {
            traffic,
            task,
            bound,
            by_hand,
        }))
    }
}

impl Task {
    fn new(test: &kofi_test) -> Result<Self> {
        let task = match test.kind {
            abi::KOFI_TEST_PINGPONG => Self::PingPong,
            abi::KOFI_TEST_STREAM => Self::Stream,
            abi::KOFI_TEST_WRITE => Self::Write,
            abi::KOFI_TEST_READ => Self::Read,
            abi::KOFI_TEST_ATOMIC => Self::Change(Change::new(test)?),
            _ => return Err(EINVAL),
        };
        let has_window = matches!(task, Self::Stream | Self::Write | Self::Read);
        let is_atomic = matches!(task, Self::Change(_));
        let is_plain = test.op == 0 && test.datatype == 0;
        match (test.window > 0) == has_window && (is_atomic || is_plain) {
            true => Ok(task),
            false => Err(EINVAL),
        }
    }

    /// What the server is to do for it.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::PingPong => Kind::PingPong,
            Self::Stream => Kind::Stream,
            Self::Write | Self::Read | Self::Change(_) => Kind::Memory,
        }
    }

    /// Whether so many bytes are a whole number of what it changes.
    fn is_whole(self, length: usize) -> bool {
        match self {
            Self::Change(change) => length.is_multiple_of(change.datatype.size()),
            _ => true,
        }
    }

    /// Whether verbs have it too.
    fn is_of_verbs(self, length: usize) -> bool {
        let Self::Change(change) = self else {
            return true;
        };
        let is_theirs = matches!(
            (change.form, change.op),
            (Form::Fetch, Op::Sum) | (Form::Compare, Op::Swap)
        );
        is_theirs && change.datatype.size() == length && length == size_of::<u64>()
    }

    /// What the device has to be capable of.
    pub(super) fn caps(self) -> u64 {
        match self {
            Self::PingPong | Self::Stream => abi::FI_MSG,
            Self::Write | Self::Read => abi::FI_MSG | abi::FI_RMA,
            Self::Change(_) => abi::FI_MSG | abi::FI_RMA | abi::FI_ATOMIC,
        }
    }
}

impl Change {
    /// # Errors
    ///
    /// `EINVAL` for an operation or a type that there is not.
    fn new(test: &kofi_test) -> Result<Self> {
        let form = match Op::from_raw(test.op, Form::Compare) {
            Ok(_) => Form::Compare,
            Err(_) => Form::Fetch,
        };
        Ok(Self {
            form,
            op: Op::from_raw(test.op, form).map_err(|_| EINVAL)?,
            datatype: Datatype::from_raw(test.datatype).map_err(|_| EINVAL)?,
        })
    }
}

impl Traffic {
    /// Whether it is no more than anybody may ask for, in either kernel.
    pub(super) fn is_bounded(&self) -> bool {
        (1..=abi::KOFI_TEST_MAX_LENGTH as usize).contains(&self.length)
            && (1..=abi::KOFI_TEST_MAX_WINDOW as usize).contains(&self.window)
            && self.room() <= abi::KOFI_TEST_MAX_BYTES as usize
    }

    /// How many accesses have a place of their own in the server's memory: as many as may be under way, or
    /// as fit into what every device can register.
    pub(super) fn places(&self) -> usize {
        let fit = LENT.checked_div(self.length).unwrap_or(0);
        self.window.min(fit).max(1)
    }

    /// How many receives, and messages of its own, a server may have posted.
    pub(super) fn server_depth(&self) -> usize {
        2 * self.window + 2
    }

    /// Bytes that a server posts or lends for it.
    pub(super) fn server_bytes(&self) -> usize {
        match self.kind {
            Kind::Memory => self.places() * self.length,
            Kind::PingPong | Kind::Stream => self.length.saturating_mul(self.server_depth()),
        }
    }

    /// Bytes of all that may be under way.
    pub(super) fn room(&self) -> usize {
        self.length.saturating_mul(self.window)
    }
}
