// SPDX-License-Identifier: GPL-2.0

//! Description of an operation for the queue that it is posted to, the policy for reporting its
//! success, and the kind of its slot.

use super::{
    PostTarget,
    StatKind, //
};
use crate::{
    fi::memory::Context,
    prov::verbs::prelude::*, //
};

/// Kind of operation that has a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u16)] // lets one store write it with the rest of the slot
pub(in crate::prov::verbs) enum OpKind {
    /// Operation whose success writes a completion entry.
    Reported,
    /// Operation whose success writes no completion entry.
    Silent,
    /// Work request of an operation that has several, except the last; never reported. See
    /// [`part`](super::part).
    Part,
    /// Last work request of an operation of which a part could not be posted: the operation fails
    /// when the work request completes.
    Aborted,
    /// Work request of a drain: when it completes, no earlier operation is in flight.
    DrainMarker,
    /// Receive into a piece of a multi-receive buffer; its completion has the address of the piece.
    MultiRecv,
    /// Last piece of a multi-receive buffer. Its completion is always reported, with FI_MULTI_RECV:
    /// the buffer is the consumer's again.
    LastMultiRecv,
    /// Invalidation of a region whose success writes a completion entry. The slot's context owns the region; see
    /// [`WorkQueue::end_invalidation`].
    Invalidation,
    /// Invalidation of a region whose success writes no completion entry.
    SilentInvalidation,
}

impl OpKind {
    /// Returns whether a success writes no completion entry.
    #[inline(always)]
    pub(super) fn is_silent(self) -> bool {
        matches!(self, Self::Silent | Self::Part | Self::SilentInvalidation)
    }

    /// Returns whether a work request of that kind has to be signalled.
    #[inline(always)]
    pub(super) fn needs_signal(self) -> bool {
        !matches!(self, Self::Silent | Self::Part)
    }
}

/// Description of an operation, as far as the queue needs it.
#[derive(Clone, Copy)]
pub(in crate::prov::verbs) struct OpDesc {
    pub(in crate::prov::verbs) context: Context,
    /// Flags of the completion.
    pub(in crate::prov::verbs) flags: u64,
    /// Number of bytes of its memory.
    pub(in crate::prov::verbs) len: usize,
    pub(in crate::prov::verbs) report_policy: ReportPolicy,
}

/// Policy for reporting the success of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::prov::verbs) enum ReportPolicy {
    Always,
    /// Reported unless the completion queue is bound with FI_SELECTIVE_COMPLETION.
    PerBinding,
    Never,
    /// Not an operation, but an [`OpKind::DrainMarker`].
    DrainMarker,
    /// Invalidation of a region. The context of the operation is the region.
    Invalidation {
        reports: bool,
    },
    /// Receive into a piece of a multi-receive buffer; the piece begins at `start`. The last piece
    /// is always reported, the others as the consumer asks.
    MultiRecv {
        start: usize,
        last: bool,
        always: bool,
    },
    /// Not an operation, but an [`OpKind::Part`] of one; `later` is the number of its work requests after this one.
    Part {
        later: u32,
    },
}

impl OpDesc {
    /// The drain marker.
    pub(in crate::prov::verbs) const DRAIN_MARKER: Self = Self {
        context: Context::NULL,
        flags: 0,
        len: 0,
        report_policy: ReportPolicy::DrainMarker,
    };

    /// Returns the statistics that count the operation.
    #[inline(always)]
    pub(super) fn stat_kind(&self) -> StatKind {
        match self.report_policy {
            ReportPolicy::DrainMarker | ReportPolicy::Part { .. } => StatKind::NoOperation,
            _ if self.flags & FI_REGION != 0 => StatKind::Region,
            _ => StatKind::from_flags(self.flags),
        }
    }
}

impl PostTarget {
    /// Returns the kind of the slot of an operation that is posted with `policy`.
    #[inline(always)]
    pub(super) fn op_kind(&self, policy: ReportPolicy) -> OpKind {
        match policy {
            ReportPolicy::Always => OpKind::Reported,
            ReportPolicy::PerBinding if !self.is_selective => OpKind::Reported,
            ReportPolicy::PerBinding | ReportPolicy::Never => OpKind::Silent,
            ReportPolicy::DrainMarker => OpKind::DrainMarker,
            ReportPolicy::Invalidation { reports: true } => OpKind::Invalidation,
            ReportPolicy::Invalidation { .. } => OpKind::SilentInvalidation,
            ReportPolicy::MultiRecv { last: true, .. } => OpKind::LastMultiRecv,
            ReportPolicy::MultiRecv { always, .. } if always || !self.is_selective => {
                OpKind::MultiRecv
            }
            ReportPolicy::MultiRecv { .. } => OpKind::Silent,
            ReportPolicy::Part { .. } => OpKind::Part,
        }
    }
}
