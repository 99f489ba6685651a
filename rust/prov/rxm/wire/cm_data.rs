// SPDX-License-Identifier: GPL-2.0

//! What two endpoints tell each other as they connect: the private data of the request, of the reply
//! and of the refusal.

use super::{
    layout::Fields,
    EAGER, //
};

const CM_VERSION: u8 = 1;

const CTRL_VERSION: u8 = 4;

const OP_VERSION: u8 = 3;

/// The byte order of this machine.
const ENDIANNESS: u8 = if cfg!(target_endian = "big") { 1 } else { 2 };

/// The other end as somebody knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct ConnId {
    /// Which endpoint it is: another one at the same address, after a restart, has another number. Not 0.
    pub(in super::super) instance: u32,
    /// What it calls the connection: the packets to it say so.
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

/// What an endpoint understands beyond the protocol. It says so to whoever it connects with, in a number of
/// which libfabric takes no notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Extensions(u8);

impl Extensions {
    /// Nothing.
    pub(in super::super) const NONE: Self = Self(0);
    /// Words about the end of a connection: [`ShutdownMsg`](super::Farewell).
    pub(in super::super) const SHUTDOWN: Self = Self(1);

    /// Bytes of messages that name a receive context. How many there are of those stands in the upper half,
    /// less one.
    const CONTEXTS: Self = Self(2);

    /// What it begins with if there are any.
    const MAGIC: u32 = 0x6b6f;

    /// Whether all of `others` are among them.
    pub(in super::super) fn have(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The same of an endpoint that has so many receive contexts, 16 at most.
    pub(in super::super) fn with_contexts(self, contexts: usize) -> Self {
        let last = contexts.saturating_sub(1).min(0xf) as u8;
        Self(self.0 | Self::CONTEXTS.0 | last << 4)
    }

    /// How many it has; none if nobody can name them.
    pub(in super::super) fn contexts(self) -> Option<usize> {
        let last = usize::from(self.0 >> 4);
        self.have(Self::CONTEXTS).then_some(last + 1)
    }

    /// The number of an endpoint that has posted so many receives, 255 at most.
    fn with(self, receives: u32) -> u32 {
        match self {
            Self::NONE => receives,
            Self(bits) => Self::MAGIC << 16 | u32::from(bits) << 8 | receives.min(0xff),
        }
    }

    /// What such a number says: what is not known here means nothing.
    fn of(number: u32) -> (Self, u32) {
        match number >> 16 {
            Self::MAGIC => (Self((number >> 8) as u8), number & 0xff),
            _ => (Self::NONE, number),
        }
    }
}

/// How packets are kept from arriving where there is no receive for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Flow {
    /// The peer is to have credits, if it can.
    Credits,
    /// The device has them sent again.
    Device,
}

impl Flow {
    const CREDITS: u8 = 1;
    const DEVICE: u8 = 2;

    /// Older peers say 0, and always want credits.
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

    /// What there is between two who say this of themselves: credits only if both do.
    pub(in super::super) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Credits, Self::Credits) => Self::Credits,
            _ => Self::Device,
        }
    }
}

/// Why the words of a peer were not understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum CmDataError {
    /// There are too few of them.
    Short,
    /// It speaks another version, or another byte order.
    Version,
    /// Its packets have another size.
    EagerSize,
    /// It wants a second connection beside the first.
    SecondQp,
    /// It says what cannot be so.
    Invalid,
}

/// What comes with a request to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct ConnectData {
    /// Where the peer listens, at the address that it connects from.
    pub(in super::super) port: u16,
    /// What it can do about packets without receives.
    pub(in super::super) flow: Flow,
    /// How many receives it has posted: nobody asks for that.
    pub(in super::super) receives: u32,
    /// What it understands.
    pub(in super::super) extensions: Extensions,
    /// Who it is.
    pub(in super::super) conn_id: ConnId,
}

impl ConnectData {
    /// As it goes on the wire.
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

    /// What a peer has said.
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

/// What comes back with the reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct AcceptData {
    /// Who has accepted.
    pub(in super::super) conn_id: ConnId,
    /// How many receives it has posted: nobody asks for that.
    pub(in super::super) receives: u32,
    /// What it understands.
    pub(in super::super) extensions: Extensions,
    /// What it can do about packets without receives.
    pub(in super::super) flow: Flow,
}

impl AcceptData {
    /// As it goes on the wire.
    pub(in super::super) fn to_bytes(self) -> [u8; 16] {
        let mut fields = Fields::<16>::new();
        fields.set_u64::<0>(self.conn_id.number());
        fields.set_u32::<8>(self.extensions.with(self.receives));
        fields.set_u8::<12>(self.flow.to_byte());
        *fields.as_bytes()
    }

    /// What a peer has said.
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

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum RejectReason {
    /// It does not want the connection.
    Refused,
    /// There is one already, or one on its way from the other side.
    Already,
    /// Nobody has said. On iWARP words can be lost on their way.
    Unknown,
}

impl RejectReason {
    /// As it goes on the wire.
    pub(in super::super) fn to_bytes(self) -> [u8; 2] {
        let reason = match self {
            Self::Refused | Self::Unknown => 1,
            Self::Already => 2,
        };
        [CM_VERSION, reason]
    }

    /// What a peer has said, or the connection manager in its place, which says nothing.
    pub(in super::super) fn from_bytes(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self::Unknown,
            [CM_VERSION, 2, ..] => Self::Already,
            _ => Self::Refused,
        }
    }
}
