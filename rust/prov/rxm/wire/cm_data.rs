// SPDX-License-Identifier: GPL-2.0

//! Private data of connection requests, replies and rejections.

use super::{
    layout::Fields,
    EAGER, //
};

const CM_VERSION: u8 = 1;

const CTRL_VERSION: u8 = 4;

const OP_VERSION: u8 = 3;

/// Byte order of this machine.
const ENDIANNESS: u8 = if cfg!(target_endian = "big") { 1 } else { 2 };

/// Connection id of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct ConnId {
    /// Instance of the endpoint: another endpoint at the same address has another number. Not 0.
    pub(in super::super) instance: u32,
    /// Connection id that the endpoint assigned, which packets to it name.
    pub(in super::super) index: u32,
}

impl ConnId {
    fn of(number: u64) -> Self {
        Self {
            instance: (number >> 32) as u32,
            index: number as u32,
        }
    }

    fn number(self) -> u64 {
        u64::from(self.instance) << 32 | u64::from(self.index)
    }
}

/// Protocol extensions of an endpoint, announced in the lower half of a field that libfabric ignores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Extensions(u16);

impl Extensions {
    /// No extension.
    pub(in super::super) const NONE: Self = Self(0);
    /// Shutdown handshake: [`ShutdownMsg`](super::ShutdownMsg).
    pub(in super::super) const SHUTDOWN: Self = Self(1 << 8);
    /// Acknowledgements of delivered messages: [`PktHdr::Ack`](super::PktHdr::Ack).
    pub(in super::super) const DELIVERY: Self = Self(Self::SECOND.0 | 1 << 2);

    /// Accesses to tagged receives: [`PktHdr::TaggedAccess`](super::PktHdr::TaggedAccess).
    pub(in super::super) const TAGGED_RMA: Self = Self(Self::SECOND.0 | 1 << 3);

    /// Receive contexts in message headers. The number of contexts less one has its lower four bits in the uppermost ones
    /// here, and two more in [`Self::MORE_CONTEXTS`].
    const CONTEXTS: Self = Self(1 << 9);

    /// Bits 4 and 5 of the number of contexts less one, with [`Self::SECOND`].
    const MORE_CONTEXTS: u16 = 3 << 6;

    /// Extensions in the lower byte, which otherwise is the number of receives.
    const SECOND: Self = Self(1 << 10);

    /// Upper half of the field if extensions are announced.
    const MAGIC: u32 = 0x6b6f;

    /// Returns whether all of `others` are included.
    pub(in super::super) fn have(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns these extensions and `others`.
    pub(in super::super) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the extensions of an endpoint with `contexts` receive contexts, 64 at most.
    pub(in super::super) fn with_contexts(self, contexts: usize) -> Self {
        let last = contexts.saturating_sub(1).min(0x3f) as u16;
        let more = match last >> 4 {
            0 => 0,
            more => Self::SECOND.0 | more << 6,
        };
        Self(self.0 | Self::CONTEXTS.0 | last << 12 | more)
    }

    /// Returns the number of receive contexts; `None` without the extension.
    pub(in super::super) fn contexts(self) -> Option<usize> {
        let more = match self.have(Self::SECOND) {
            true => (self.0 & Self::MORE_CONTEXTS) >> 2,
            false => 0,
        };
        let last = usize::from(self.0 >> 12 | more);
        self.have(Self::CONTEXTS).then_some(last + 1)
    }

    /// Returns the field of an endpoint that has posted `receives` receives, 255 at most. Extensions in the lower byte
    /// replace their number.
    fn with(self, receives: u32) -> u32 {
        let low = match self.have(Self::SECOND) {
            true => 0,
            false => receives.min(0xff),
        };
        match self {
            Self::NONE => receives,
            Self(bits) => Self::MAGIC << 16 | u32::from(bits) | low,
        }
    }

    /// Parses the field. Unknown extensions are ignored.
    fn of(number: u32) -> (Self, u32) {
        match (number >> 16, Self(number as u16)) {
            (Self::MAGIC, both) if both.have(Self::SECOND) => (both, 0),
            (Self::MAGIC, Self(bits)) => (Self(bits & 0xff00), number & 0xff),
            _ => (Self::NONE, number),
        }
    }
}

/// Flow control, which keeps packets from arriving without a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Flow {
    /// Credits, if both ends support them.
    Credits,
    /// Retries by the device.
    Device,
}

impl Flow {
    const CREDITS: u8 = 1;
    const DEVICE: u8 = 2;

    /// Parses the field. Older peers send 0 and use credits.
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 | Self::CREDITS => Some(Self::Credits),
            Self::DEVICE => Some(Self::Device),
            _ => None,
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Credits => Self::CREDITS,
            Self::Device => Self::DEVICE,
        }
    }

    /// Returns the flow control of two ends: credits only if both support them.
    pub(in super::super) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Credits, Self::Credits) => Self::Credits,
            _ => Self::Device,
        }
    }
}

/// Error in the private data of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum CmDataError {
    /// The data are too short.
    Short,
    /// The version or the byte order differs.
    Version,
    /// The eager limit differs.
    EagerSize,
    /// A second connection is requested beside the first.
    SecondQp,
    /// A field has an invalid value.
    Invalid,
}

/// Private data of a connection request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct ConnectData {
    /// Port that the peer listens on, at the address that it connects from.
    pub(in super::super) port: u16,
    /// Flow control that the peer supports.
    pub(in super::super) flow: Flow,
    /// Number of receives that the peer has posted; not used.
    pub(in super::super) receives: u32,
    /// Extensions of the peer.
    pub(in super::super) extensions: Extensions,
    /// Connection id of the peer.
    pub(in super::super) conn_id: ConnId,
}

impl ConnectData {
    /// Returns the data in wire format.
    pub(in super::super) fn to_bytes(self) -> [u8; 24] {
        let mut fields = Fields::<24>::new();
        fields.set_u8::<0>(CM_VERSION);
        fields.set_u8::<1>(ENDIANNESS);
        fields.set_u8::<2>(CTRL_VERSION);
        fields.set_u8::<3>(OP_VERSION);
        fields.set_u16::<4>(self.port);
        fields.set_u8::<6>(self.flow.to_byte());
        fields.set_u32::<8>(EAGER as u32);
        fields.set_u32::<12>(self.extensions.with(self.receives));
        fields.set_u64::<16>(self.conn_id.number());
        *fields.as_bytes()
    }

    /// Parses the data of a peer.
    pub(in super::super) fn from_bytes(bytes: &[u8]) -> Result<Self, CmDataError> {
        let fields = Fields::<24>::first_of(bytes).ok_or(CmDataError::Short)?;
        if fields.bytes::<0, 4>() != [CM_VERSION, ENDIANNESS, CTRL_VERSION, OP_VERSION] {
            return Err(CmDataError::Version);
        }
        if fields.u32::<8>() as usize != EAGER {
            return Err(CmDataError::EagerSize);
        }
        if fields.u8::<7>() != 0 {
            return Err(CmDataError::SecondQp);
        }
        let conn_id = ConnId::of(fields.u64::<16>());
        let port = fields.u16::<4>();
        if port == 0 {
            return Err(CmDataError::Invalid);
        }
        let (extensions, receives) = Extensions::of(fields.u32::<12>());
        Ok(Self {
            port,
            flow: Flow::from_byte(fields.u8::<6>()).ok_or(CmDataError::Invalid)?,
            receives,
            extensions,
            conn_id,
        })
    }
}

/// Private data of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct AcceptData {
    /// Connection id of the acceptor.
    pub(in super::super) conn_id: ConnId,
    /// Number of receives that the acceptor has posted; not used.
    pub(in super::super) receives: u32,
    /// Extensions of the acceptor.
    pub(in super::super) extensions: Extensions,
    /// Flow control that the acceptor supports.
    pub(in super::super) flow: Flow,
}

impl AcceptData {
    /// Returns the data in wire format.
    pub(in super::super) fn to_bytes(self) -> [u8; 16] {
        let mut fields = Fields::<16>::new();
        fields.set_u64::<0>(self.conn_id.number());
        fields.set_u32::<8>(self.extensions.with(self.receives));
        fields.set_u8::<12>(self.flow.to_byte());
        *fields.as_bytes()
    }

    /// Parses the data of a peer.
    pub(in super::super) fn from_bytes(bytes: &[u8]) -> Result<Self, CmDataError> {
        let fields = Fields::<16>::first_of(bytes).ok_or(CmDataError::Short)?;
        let (extensions, receives) = Extensions::of(fields.u32::<8>());
        Ok(Self {
            conn_id: ConnId::of(fields.u64::<0>()),
            receives,
            extensions,
            flow: Flow::from_byte(fields.u8::<12>()).ok_or(CmDataError::Invalid)?,
        })
    }
}

/// Reason of a rejection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum RejectReason {
    /// The peer refuses the connection.
    Refused,
    /// A connection exists, a request of the peer is in flight, or the peer is at its limit and will connect itself.
    Already,
    /// No reason was received. On iWARP the data can be lost.
    Unknown,
}

impl RejectReason {
    /// Returns the data in wire format.
    pub(in super::super) fn to_bytes(self) -> [u8; 2] {
        let reason = match self {
            Self::Refused | Self::Unknown => 1,
            Self::Already => 2,
        };
        [CM_VERSION, reason]
    }

    /// Parses the data of a peer, or the empty data of the lower connection manager.
    pub(in super::super) fn from_bytes(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self::Unknown,
            [CM_VERSION, 2, ..] => Self::Already,
            _ => Self::Refused,
        }
    }
}
