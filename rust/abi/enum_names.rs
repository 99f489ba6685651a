// SPDX-License-Identifier: GPL-2.0

//! Names of the values of enumerations, for text output.

use kernel::fmt;

/// The names of the values of one enumeration.
pub(crate) struct EnumNames(&'static [(u32, &'static str)]);

impl EnumNames {
    /// Returns the name of `value`, if it has one.
    pub(crate) fn name(&self, value: u32) -> Option<&'static str> {
        let found = self.0.iter().find(|entry| entry.0 == value);
        found.map(|entry| entry.1)
    }

    /// Returns `value` for display. A value outside the range of `u32` is displayed as unknown, with the number
    /// `u32::MAX`.
    pub(crate) fn display(&'static self, value: impl TryInto<u32>) -> EnumText {
        let value = value.try_into().unwrap_or(u32::MAX);
        EnumText { names: self, value }
    }
}

/// Displays the name of a value, or `unknown` and its number if it has no name.
pub(crate) struct EnumText {
    names: &'static EnumNames,
    value: u32,
}

impl fmt::Display for EnumText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.names.name(self.value) {
            Some(name) => f.write_str(name),
            None => write!(f, "unknown ({:#x})", self.value),
        }
    }
}

macro_rules! short_names {
    ($($(#[$doc:meta])* $names:ident: $($name:ident $text:literal)*;)*) => {
        $(
            $(#[$doc])*
            pub(crate) static $names: EnumNames = EnumNames(&[$((super::$name, $text)),*]);
        )*
    };
}

short_names! {
    /// `enum kofi_object_kind`
    OBJECT:
        KOFI_OBJECT_FABRIC "fabric" KOFI_OBJECT_DOMAIN "domain" KOFI_OBJECT_EP "ep"
        KOFI_OBJECT_PASSIVE_EP "pep" KOFI_OBJECT_CQ "cq" KOFI_OBJECT_EQ "eq" KOFI_OBJECT_CNTR "cntr"
        KOFI_OBJECT_AV "av" KOFI_OBJECT_AV_SET "av_set" KOFI_OBJECT_MR "mr"
        KOFI_OBJECT_POLL_SET "poll_set" KOFI_OBJECT_WAIT_SET "wait_set" KOFI_OBJECT_SRX "srx"
        KOFI_OBJECT_SEP "sep" KOFI_OBJECT_TX_CTX "tx_ctx" KOFI_OBJECT_RX_CTX "rx_ctx"
        KOFI_OBJECT_STX "stx";

    /// `enum kofi_object_state`
    STATE:
        KOFI_STATE_OPEN "open" KOFI_STATE_ENABLED "enabled" KOFI_STATE_LISTENING "listening"
        KOFI_STATE_CONNECTING "connecting" KOFI_STATE_CONNECTED "connected"
        KOFI_STATE_NO_TRANSMIT "no-transmit" KOFI_STATE_NO_RECEIVE "no-receive" KOFI_STATE_LOST "lost"
        KOFI_STATE_SHUT "shut";

    /// `enum kofi_object_value`
    VALUE:
        KOFI_VALUE_TX_CQ "tx_cq" KOFI_VALUE_RX_CQ "rx_cq" KOFI_VALUE_EQ "eq"
        KOFI_VALUE_TX_SIZE "tx_size" KOFI_VALUE_RX_SIZE "rx_size" KOFI_VALUE_SIZE "size"
        KOFI_VALUE_DEPTH "depth" KOFI_VALUE_COUNT "count" KOFI_VALUE_ERRORS "errors"
        KOFI_VALUE_ADDRESSES "addresses" KOFI_VALUE_MEMBERS "members" KOFI_VALUE_LENGTH "length"
        KOFI_VALUE_TX_DEPTH "tx_depth" KOFI_VALUE_RX_DEPTH "rx_depth" KOFI_VALUE_SENDS "sends"
        KOFI_VALUE_RECEIVES "receives" KOFI_VALUE_WRITES "writes" KOFI_VALUE_READS "reads"
        KOFI_VALUE_ATOMICS "atomics" KOFI_VALUE_TX_DONE "tx_done" KOFI_VALUE_RX_DONE "rx_done"
        KOFI_VALUE_TX_BYTES "tx_bytes" KOFI_VALUE_RX_BYTES "rx_bytes" KOFI_VALUE_TX_ERRORS "tx_errors"
        KOFI_VALUE_RX_ERRORS "rx_errors" KOFI_VALUE_TX_AGAIN "tx_again" KOFI_VALUE_RX_AGAIN "rx_again"
        KOFI_VALUE_ENTRIES "entries" KOFI_VALUE_CALLBACKS "callbacks" KOFI_VALUE_OVERRUNS "overruns"
        KOFI_VALUE_SRX "srx" KOFI_VALUE_TX_CTXS "tx_ctxs" KOFI_VALUE_RX_CTXS "rx_ctxs"
        KOFI_VALUE_INDEX "index" KOFI_VALUE_CONNECTIONS "connections" KOFI_VALUE_STX "stx"
        KOFI_VALUE_VIOLATIONS "violations";
}

macro_rules! c_names {
    ($($(#[$doc:meta])* $names:ident: $($name:ident)*;)*) => {
        $(
            $(#[$doc])*
            pub(crate) static $names: EnumNames = EnumNames(&[$((super::$name, stringify!($name))),*]);
        )*
    };
}

c_names! {
    /// `enum fi_ep_type`
    EP_TYPE:
        FI_EP_UNSPEC FI_EP_MSG FI_EP_DGRAM FI_EP_RDM FI_EP_SOCK_STREAM FI_EP_SOCK_DGRAM;

    /// Address formats.
    ADDR_FORMAT:
        FI_FORMAT_UNSPEC FI_SOCKADDR FI_SOCKADDR_IN FI_SOCKADDR_IN6 FI_SOCKADDR_IB FI_ADDR_PSMX
        FI_ADDR_GNI FI_ADDR_BGQ FI_ADDR_MLX FI_ADDR_STR FI_ADDR_PSMX2 FI_ADDR_IB_UD FI_ADDR_EFA
        FI_ADDR_PSMX3 FI_ADDR_OPX FI_ADDR_CXI;

    /// Wire protocols.
    PROTOCOL:
        FI_PROTO_UNSPEC FI_PROTO_RDMA_CM_IB_RC FI_PROTO_IWARP FI_PROTO_IB_UD FI_PROTO_PSMX
        FI_PROTO_UDP FI_PROTO_SOCK_TCP FI_PROTO_MXM FI_PROTO_IWARP_RDM FI_PROTO_IB_RDM FI_PROTO_GNI
        FI_PROTO_RXM FI_PROTO_RXD FI_PROTO_MLX FI_PROTO_NETWORKDIRECT FI_PROTO_PSMX2 FI_PROTO_SHM
        FI_PROTO_MRAIL FI_PROTO_RSTREAM FI_PROTO_RDMA_CM_IB_XRC FI_PROTO_EFA FI_PROTO_PSMX3
        FI_PROTO_RXM_TCP FI_PROTO_OPX FI_PROTO_CXI FI_PROTO_XNET;

    /// `enum fi_threading`
    THREADING:
        FI_THREAD_UNSPEC FI_THREAD_SAFE FI_THREAD_FID FI_THREAD_DOMAIN FI_THREAD_COMPLETION
        FI_THREAD_ENDPOINT;

    /// `enum fi_progress`
    PROGRESS:
        FI_PROGRESS_UNSPEC FI_PROGRESS_AUTO FI_PROGRESS_MANUAL;

    /// `enum fi_resource_mgmt`
    RESOURCE_MGMT:
        FI_RM_UNSPEC FI_RM_DISABLED FI_RM_ENABLED;

    /// `enum fi_av_type`
    AV_TYPE:
        FI_AV_UNSPEC FI_AV_MAP FI_AV_TABLE;

    /// `enum fi_datatype`
    DATATYPE:
        FI_INT8 FI_UINT8 FI_INT16 FI_UINT16 FI_INT32 FI_UINT32 FI_INT64 FI_UINT64 FI_FLOAT
        FI_DOUBLE FI_FLOAT_COMPLEX FI_DOUBLE_COMPLEX FI_LONG_DOUBLE FI_LONG_DOUBLE_COMPLEX
        FI_INT128 FI_UINT128 FI_VOID;

    /// `enum fi_op`
    ATOMIC_OP:
        FI_MIN FI_MAX FI_SUM FI_PROD FI_LOR FI_LAND FI_BOR FI_BAND FI_LXOR FI_BXOR FI_ATOMIC_READ
        FI_ATOMIC_WRITE FI_CSWAP FI_CSWAP_NE FI_CSWAP_LE FI_CSWAP_LT FI_CSWAP_GE FI_CSWAP_GT
        FI_MSWAP FI_NOOP;

    /// `enum fi_collective_op`
    COLLECTIVE_OP:
        FI_BARRIER FI_BROADCAST FI_ALLTOALL FI_ALLREDUCE FI_ALLGATHER FI_REDUCE_SCATTER FI_REDUCE
        FI_SCATTER FI_GATHER;

    /// `enum fi_op_type`
    OP_TYPE:
        FI_OP_RECV FI_OP_SEND FI_OP_TRECV FI_OP_TSEND FI_OP_READ FI_OP_WRITE FI_OP_ATOMIC
        FI_OP_FETCH_ATOMIC FI_OP_COMPARE_ATOMIC FI_OP_CNTR_SET FI_OP_CNTR_ADD;

    /// Events of event queues.
    EQ_EVENT:
        FI_NOTIFY FI_CONNREQ FI_CONNECTED FI_SHUTDOWN FI_MR_COMPLETE FI_AV_COMPLETE
        FI_JOIN_COMPLETE;

    /// `enum fi_cq_format`
    CQ_FORMAT:
        FI_CQ_FORMAT_UNSPEC FI_CQ_FORMAT_CONTEXT FI_CQ_FORMAT_MSG FI_CQ_FORMAT_DATA
        FI_CQ_FORMAT_TAGGED;

    /// `enum fi_cq_wait_cond`
    CQ_WAIT_COND:
        FI_CQ_COND_NONE FI_CQ_COND_THRESHOLD;

    /// `enum fi_cntr_events`
    CNTR_EVENTS:
        FI_CNTR_EVENTS_COMP;

    /// `enum fi_log_subsys`
    LOG_SUBSYS:
        FI_LOG_CORE FI_LOG_FABRIC FI_LOG_DOMAIN FI_LOG_EP_CTRL FI_LOG_EP_DATA FI_LOG_AV FI_LOG_CQ
        FI_LOG_EQ FI_LOG_MR FI_LOG_CNTR;

    /// `enum fi_log_level`
    LOG_LEVEL:
        FI_LOG_WARN FI_LOG_TRACE FI_LOG_INFO FI_LOG_DEBUG;

    /// `enum fi_wait_obj`
    WAIT_OBJ:
        FI_WAIT_NONE FI_WAIT_UNSPEC FI_WAIT_SET FI_WAIT_FD FI_WAIT_MUTEX_COND FI_WAIT_YIELD
        FI_WAIT_POLLFD FI_WAIT_QUEUE;

    /// `enum fi_hmem_iface`
    HMEM_IFACE:
        FI_HMEM_SYSTEM FI_HMEM_CUDA FI_HMEM_ROCR FI_HMEM_ZE FI_HMEM_NEURON FI_HMEM_SYNAPSEAI;

    /// `enum fi_bus_type`
    BUS_TYPE:
        FI_BUS_UNSPEC FI_BUS_PCI;

    /// `enum fi_link_state`
    LINK_STATE:
        FI_LINK_UNKNOWN FI_LINK_DOWN FI_LINK_UP;

    /// Classes of fids.
    CLASS:
        FI_CLASS_UNSPEC FI_CLASS_FABRIC FI_CLASS_DOMAIN FI_CLASS_EP FI_CLASS_SEP FI_CLASS_RX_CTX
        FI_CLASS_SRX_CTX FI_CLASS_TX_CTX FI_CLASS_STX_CTX FI_CLASS_PEP FI_CLASS_INTERFACE
        FI_CLASS_AV FI_CLASS_MR FI_CLASS_EQ FI_CLASS_CQ FI_CLASS_CNTR FI_CLASS_WAIT FI_CLASS_POLL
        FI_CLASS_CONNREQ FI_CLASS_MC FI_CLASS_NIC FI_CLASS_AV_SET FI_CLASS_MR_CACHE
        FI_CLASS_MEM_MONITOR FI_CLASS_PEER_CQ FI_CLASS_PEER_SRX FI_CLASS_LOG FI_CLASS_PEER_AV
        FI_CLASS_PEER_AV_SET;
}
