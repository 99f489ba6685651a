// SPDX-License-Identifier: GPL-2.0

//! Sets of flags: the bits that a field may have, and their names.
//!
//! A bit means different things in different fields, so each field has its own [`FlagSet`]. The constants
//! keep their C names.

use kernel::{
    fmt,
    prelude::*, //
};

/// The flags that one field may have.
pub struct FlagSet(&'static [(u64, &'static str)]);

impl FlagSet {
    /// Returns all flags of the set.
    pub const fn mask(&self) -> u64 {
        let mut mask = 0;
        let mut at = 0;
        while at < self.0.len() {
            mask |= self.0[at].0;
            at += 1;
        }
        mask
    }

    /// Returns whether `flags` has no bits outside the set.
    pub const fn contains(&self, flags: u64) -> bool {
        flags & !self.mask() == 0
    }

    /// Returns a value that displays `flags` by name.
    pub fn display(&'static self, flags: u64) -> FlagText {
        FlagText { set: self, flags }
    }
}

/// Displays flags: their names with commas between them, unknown bits as one number.
pub struct FlagText {
    set: &'static FlagSet,
    flags: u64,
}

impl fmt::Display for FlagText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for &(bit, name) in self.set.0 {
            if self.flags & bit != 0 {
                write!(f, "{separator}{name}")?;
                separator = ", ";
            }
        }
        let rest = self.flags & !self.set.mask();
        if rest != 0 {
            write!(f, "{separator}{rest:#x}")?;
        }
        Ok(())
    }
}

/// Defines flag sets. A set exports the flags before its `|`; the flags after it are exported by an earlier set.
macro_rules! sets {
    ($($(#[$doc:meta])* $set:ident: $($new:ident)* | $($known:ident)*;)*) => {
        $(
            $(pub use super::$new;)*

            $(#[$doc])*
            pub static $set: FlagSet = FlagSet(&[
                $((super::$new, stringify!($new)),)*
                $((super::$known, stringify!($known)),)*
            ]);
        )*
    };
}

sets! {
    /// Primary capabilities, which a consumer has to request.
    PRIMARY_CAPS:
        FI_MSG FI_RMA FI_TAGGED FI_ATOMIC FI_MULTICAST FI_COLLECTIVE FI_XPU_TRIGGER FI_HMEM
        FI_VARIABLE_MSG FI_NAMED_RX_CTX FI_DIRECTED_RECV FI_TAGGED_RMA
        |;

    /// Modifiers of the primary capabilities; a request without any stands for all of them.
    MODIFIERS:
        FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ FI_REMOTE_WRITE
        |;

    /// Secondary capabilities, which a provider may offer without a request.
    SECONDARY_CAPS:
        FI_MULTI_RECV FI_TRIGGER FI_FENCE FI_AV_USER_ID FI_PEER FI_RMA_PMEM FI_SOURCE_ERR
        FI_LOCAL_COMM FI_REMOTE_COMM FI_SHARED_AV FI_RMA_EVENT FI_SOURCE FI_REMOTE_SIGNAL
        FI_TAGGED_MULTI_RECV
        |;

    /// `caps` of infos and attributes: the three sets above.
    CAPS:
        |
        FI_MSG FI_RMA FI_TAGGED FI_ATOMIC FI_MULTICAST FI_COLLECTIVE
        FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ FI_REMOTE_WRITE
        FI_MULTI_RECV FI_TRIGGER FI_FENCE FI_AV_USER_ID FI_PEER FI_XPU_TRIGGER FI_HMEM
        FI_VARIABLE_MSG FI_RMA_PMEM FI_SOURCE_ERR FI_LOCAL_COMM FI_REMOTE_COMM FI_SHARED_AV
        FI_RMA_EVENT FI_SOURCE FI_REMOTE_SIGNAL FI_NAMED_RX_CTX FI_DIRECTED_RECV FI_TAGGED_RMA
        FI_TAGGED_MULTI_RECV;

    /// `flags` of `fi_getinfo()`.
    GETINFO:
        FI_PROV_ATTR_ONLY FI_NUMERICHOST
        | FI_SOURCE;

    /// `mode` of infos and attributes.
    MODE:
        FI_CONTEXT FI_MSG_PREFIX FI_ASYNC_IOV FI_RX_CQ_DATA FI_LOCAL_MR FI_NOTIFY_FLAGS_ONLY
        FI_RESTRICTED_COMP FI_CONTEXT2 FI_BUFFERED_RECV FI_PEER_TRANSFER
        |;

    /// Flags of one operation, and `op_flags` of attributes.
    OP_FLAGS:
        FI_BVEC FI_SGL FI_REMOTE_CQ_DATA FI_MORE FI_PEEK FI_PRIORITY FI_COMPLETION
        FI_INJECT FI_INJECT_COMPLETE FI_TRANSMIT_COMPLETE FI_DELIVERY_COMPLETE FI_AFFINITY
        FI_COMMIT_COMPLETE FI_MATCH_COMPLETE FI_CLAIM FI_DISCARD FI_SGL_DMA
        FI_REMOTE_INVALIDATE
        | FI_REMOTE_SIGNAL FI_MULTI_RECV FI_TRIGGER FI_FENCE FI_PEER_TRANSFER FI_PEER FI_XPU_TRIGGER;

    /// `msg_order` and `comp_order`.
    ORDER:
        FI_ORDER_RAR FI_ORDER_RAW FI_ORDER_RAS FI_ORDER_WAR FI_ORDER_WAW FI_ORDER_WAS FI_ORDER_SAR
        FI_ORDER_SAW FI_ORDER_SAS FI_ORDER_DATA FI_ORDER_RMA_RAR FI_ORDER_RMA_RAW FI_ORDER_RMA_WAR
        FI_ORDER_RMA_WAW FI_ORDER_ATOMIC_RAR FI_ORDER_ATOMIC_RAW FI_ORDER_ATOMIC_WAR
        FI_ORDER_ATOMIC_WAW
        |;

    /// `flags` of a completion entry.
    COMPLETION_FLAGS:
        FI_REGION
        |
        FI_MSG FI_RMA FI_TAGGED FI_ATOMIC FI_MULTICAST FI_COLLECTIVE
        FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ FI_REMOTE_WRITE
        FI_MULTI_RECV FI_REMOTE_CQ_DATA FI_MORE FI_CLAIM FI_REMOTE_INVALIDATE;

    /// `access` of a memory region.
    ACCESS:
        |
        FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ FI_REMOTE_WRITE FI_COLLECTIVE;

    /// `flags` of `fi_ep_bind()` for a completion queue.
    CQ_BINDING:
        FI_TRANSMIT FI_SELECTIVE_COMPLETION
        | FI_RECV;

    /// `flags` of `fi_ep_bind()` for a counter.
    CNTR_BINDING:
        |
        FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ FI_REMOTE_WRITE;

    /// `flags` of a completion queue's attributes.
    CQ_ATTR:
        FI_CB_CTX_INTR FI_CB_CTX_SOFTIRQ
        | FI_AFFINITY FI_PEER;

    /// `flags` of an event queue's attributes.
    EQ_ATTR:
        |
        FI_WRITE FI_AFFINITY FI_PEER;

    /// `flags` of an address vector's attributes.
    AV_ATTR:
        FI_EVENT FI_SYMMETRIC
        | FI_READ FI_PEER;

    /// `flags` of an insertion into an address vector.
    AV_INSERT:
        FI_SYNC_ERR
        | FI_MORE FI_AV_USER_ID;
}

/// Bits of `mr_mode`, which is an `int`; the bits below FI_MR_LOCAL are the modes of API 1.4.
pub static MR_MODE: FlagSet = FlagSet(&[
    (super::FI_MR_BASIC as u64, "FI_MR_BASIC"),
    (super::FI_MR_SCALABLE as u64, "FI_MR_SCALABLE"),
    (super::FI_MR_LOCAL as u64, "FI_MR_LOCAL"),
    (super::FI_MR_RAW as u64, "FI_MR_RAW"),
    (super::FI_MR_VIRT_ADDR as u64, "FI_MR_VIRT_ADDR"),
    (super::FI_MR_ALLOCATED as u64, "FI_MR_ALLOCATED"),
    (super::FI_MR_PROV_KEY as u64, "FI_MR_PROV_KEY"),
    (super::FI_MR_MMU_NOTIFY as u64, "FI_MR_MMU_NOTIFY"),
    (super::FI_MR_RMA_EVENT as u64, "FI_MR_RMA_EVENT"),
    (super::FI_MR_ENDPOINT as u64, "FI_MR_ENDPOINT"),
    (super::FI_MR_HMEM as u64, "FI_MR_HMEM"),
    (super::FI_MR_COLLECTIVE as u64, "FI_MR_COLLECTIVE"),
]);

// The three kinds of capabilities are disjoint.
const _: () = {
    let (primary, modifiers) = (PRIMARY_CAPS.mask(), MODIFIERS.mask());
    let secondary = SECONDARY_CAPS.mask();
    assert!(primary & modifiers == 0 && primary & secondary == 0 && modifiers & secondary == 0);
    assert!(primary | modifiers | secondary == CAPS.mask());
};

// These flags, which kOFI adds to libfabric's, collide with no other flag of `caps`, `mode`, `access` and completions.
const _: () = {
    let ours = super::FI_CB_CTX_INTR | super::FI_CB_CTX_SOFTIRQ | super::FI_BVEC | super::FI_SGL;
    let others = MODE.mask() | COMPLETION_FLAGS.mask() | ACCESS.mask();
    assert!(ours & (CAPS.mask() | others) == 0 && super::FI_REMOTE_SIGNAL & others == 0);
};

#[kunit_tests(kofi_abi_flags)]
mod tests {
    use super::*;

    #[test]
    fn flag_set_contains_its_flags_only() {
        assert!(CQ_BINDING.contains(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
        assert!(!CQ_BINDING.contains(FI_READ));
        assert!(CAPS.contains(0) && !CAPS.contains(1));
        assert_eq!(
            GETINFO.mask(),
            FI_PROV_ATTR_ONLY | FI_NUMERICHOST | FI_SOURCE
        );
    }

    #[test]
    fn flags_of_a_set_have_distinct_bits() {
        let sets = [
            &PRIMARY_CAPS,
            &MODIFIERS,
            &SECONDARY_CAPS,
            &CAPS,
            &GETINFO,
            &MODE,
            &OP_FLAGS,
            &ORDER,
            &COMPLETION_FLAGS,
            &ACCESS,
            &CQ_BINDING,
            &CNTR_BINDING,
            &CQ_ATTR,
            &EQ_ATTR,
            &AV_ATTR,
            &AV_INSERT,
            &MR_MODE,
        ];
        for set in sets {
            let mut seen = 0;
            for &(bit, _) in set.0 {
                assert!(bit.is_power_of_two() && seen & bit == 0);
                seen |= bit;
            }
        }
    }
}
