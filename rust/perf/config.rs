// SPDX-License-Identifier: GPL-2.0

//! The parsed argument of KOFI_PERF_IOC_START.

use super::bindings::{
    self,
    kofi_test, //
};
use kernel::{
    prelude::*,
    str::CString, //
};
use kofi::{
    abi::{
        self,
        fi_ep_attr,
        info::{
            Info,
            InfoList, //
        }, //
    },
    dev::ioctl_arg::string,
    fi::{
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        info::Query,
        Owner, //
    },
    util::{
        context::ProcessContext,
        namespace::Namespace, //
    },
};

/// Limit of the memory that a server exposes to a client.
const MAX_EXPOSED: usize = bindings::KOFI_TEST_MAX_LENGTH as usize;

/// The side of the test.
pub(super) enum Role {
    Server {
        /// Use raw verbs as the transport instead of kOFI.
        raw_verbs: bool,
    },
    Client(ClientConfig),
}

/// The configuration of a client.
pub(super) struct ClientConfig {
    pub(super) traffic: Traffic,
    pub(super) task: Task,
    pub(super) limit: Limit,
    /// Use raw verbs as the transport instead of kOFI.
    pub(super) raw_verbs: bool,
}

/// The task of a client.
#[derive(Clone, Copy)]
pub(super) enum Task {
    /// Sends messages, which the server returns.
    PingPong,
    /// Sends messages.
    Stream,
    /// Writes to the server's memory.
    Write,
    /// Reads the server's memory.
    Read,
    /// Changes the server's memory atomically.
    Atomic(AtomicConfig),
}

/// The atomic operation of a client.
#[derive(Clone, Copy)]
pub(super) struct AtomicConfig {
    pub(super) form: Form,
    pub(super) op: Op,
    pub(super) datatype: Datatype,
}

/// The traffic as the server has to know it.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    pub(super) kind: Kind,
    /// Messages or accesses that may be outstanding.
    pub(super) window: usize,
    /// Bytes of each.
    pub(super) length: usize,
    /// Receivers verify the content.
    pub(super) verify: bool,
}

/// The part of the server in the traffic, with its number in the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sends each message back.
    PingPong = 0,
    /// Receives messages.
    Stream = 1,
    /// Exposes memory.
    Memory = 2,
}

/// The limit of a client.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// Messages or accesses; 0 for no limit.
    pub(super) count: u64,
    /// Milliseconds; 0 for no limit.
    pub(super) msec: u32,
}

/// The address of the server, and the process that the objects of the test belong to.
pub(super) struct Target {
    pub(super) owner: Owner,
    node: Option<CString>,
    service: Option<CString>,
    domain: Option<CString>,
}

impl Target {
    /// Parses the address. The caller is in a system call of the process.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a string without a NUL, `ENOMEM`.
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

    /// Returns the infos with `caps` for the address, which is the source or the destination. May sleep.
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
        kofi::getinfo(here, &query)
    }
}

impl Role {
    /// # Errors
    ///
    /// `EINVAL` for unknown values, and for values above the limits.
    pub(super) fn new(test: &kofi_test) -> Result<Self> {
        let raw_verbs = test.flags & bindings::KOFI_TEST_VERBS != 0;
        if test.kind == bindings::KOFI_TEST_SERVER {
            // A server has no configuration.
            let narrow = test.window | test.msec | test.op | test.datatype;
            let has_none = test.length | test.count | u64::from(narrow) == 0;
            return has_none.then_some(Self::Server { raw_verbs }).ok_or(EINVAL);
        }
        let task = Task::new(test)?;
        let traffic = Traffic {
            kind: task.kind(),
            window: test.window.max(1) as usize,
            length: usize::try_from(test.length).map_err(|_| EINVAL)?,
            verify: test.flags & bindings::KOFI_TEST_VERIFY != 0,
        };
        let is_supported = !raw_verbs || task.is_supported_by_verbs(traffic.length);
        if !traffic.is_within_limits() || !task.is_whole(traffic.length) || !is_supported {
            return Err(EINVAL);
        }
        Ok(Self::Client(ClientConfig {
            traffic,
            task,
            limit: Limit {
                count: test.count,
                msec: test.msec,
            },
            raw_verbs,
        }))
    }
}

impl Task {
    fn new(test: &kofi_test) -> Result<Self> {
        let task = match test.kind {
            bindings::KOFI_TEST_PINGPONG => Self::PingPong,
            bindings::KOFI_TEST_STREAM => Self::Stream,
            bindings::KOFI_TEST_WRITE => Self::Write,
            bindings::KOFI_TEST_READ => Self::Read,
            bindings::KOFI_TEST_ATOMIC => Self::Atomic(AtomicConfig::new(test)?),
            _ => return Err(EINVAL),
        };
        let has_window = matches!(task, Self::Stream | Self::Write | Self::Read);
        let is_atomic = matches!(task, Self::Atomic(_));
        let no_op = test.op == 0 && test.datatype == 0;
        let is_valid = (test.window > 0) == has_window && (is_atomic || no_op);
        is_valid.then_some(task).ok_or(EINVAL)
    }

    /// Returns the part of the server.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::PingPong => Kind::PingPong,
            Self::Stream => Kind::Stream,
            Self::Write | Self::Read | Self::Atomic(_) => Kind::Memory,
        }
    }

    /// Returns whether `length` bytes are a whole number of elements.
    fn is_whole(self, length: usize) -> bool {
        match self {
            Self::Atomic(atomic) => length.checked_rem(atomic.datatype.size()) == Some(0),
            _ => true,
        }
    }

    /// Returns whether one work request of verbs performs the task.
    fn is_supported_by_verbs(self, length: usize) -> bool {
        let Self::Atomic(atomic) = self else {
            return true;
        };
        let op_is_supported = matches!(
            (atomic.form, atomic.op),
            (Form::Fetch, Op::Sum) | (Form::Compare, Op::Swap)
        );
        op_is_supported && atomic.datatype.size() == length && length == size_of::<u64>()
    }

    /// Returns the capabilities that the device needs.
    pub(super) fn caps(self) -> u64 {
        match self {
            Self::PingPong | Self::Stream => abi::FI_MSG,
            Self::Write | Self::Read => abi::FI_MSG | abi::FI_RMA,
            Self::Atomic(_) => abi::FI_MSG | abi::FI_RMA | abi::FI_ATOMIC,
        }
    }
}

impl AtomicConfig {
    /// # Errors
    ///
    /// `EINVAL` for an unknown operation or datatype.
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
    /// Returns whether the traffic is within the limits, which client and server both check.
    pub(super) fn is_within_limits(&self) -> bool {
        (1..=bindings::KOFI_TEST_MAX_LENGTH as usize).contains(&self.length)
            && (1..=bindings::KOFI_TEST_MAX_WINDOW as usize).contains(&self.window)
            && self.window_bytes() <= bindings::KOFI_TEST_MAX_BYTES as usize
    }

    /// Returns the number of slots in the server's memory: one for each access of the window, or as many as fit into
    /// what every device can register.
    pub(super) fn slots(&self) -> usize {
        let fit = MAX_EXPOSED.checked_div(self.length).unwrap_or(0);
        self.window.min(fit).max(1)
    }

    /// Returns the number of receives, and of sends, that a server may have posted.
    pub(super) fn server_depth(&self) -> usize {
        2 * self.window + 2
    }

    /// Returns the bytes of a server's receives or exposed memory.
    pub(super) fn server_bytes(&self) -> usize {
        match self.kind {
            Kind::Memory => self.slots() * self.length,
            Kind::PingPong | Kind::Stream => self.length.saturating_mul(self.server_depth()),
        }
    }

    /// Returns the bytes of the window.
    pub(super) fn window_bytes(&self) -> usize {
        self.length.saturating_mul(self.window)
    }
}
