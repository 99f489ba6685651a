// SPDX-License-Identifier: GPL-2.0

//! Assertions on layouts that C code and wire formats rely on, for the Rust side of bindgen; the headers
//! assert the C side.

use super::*;
use core::mem::offset_of;

macro_rules! layout {
    ($($type:ident: $size:literal $(, $field:ident at $offset:literal)*;)*) => {
        $(
            const _: () = assert!(size_of::<$type>() == $size);
            $(const _: () = assert!(offset_of!($type, $field) == $offset);)*
        )*
    };
}

#[cfg(CONFIG_64BIT)]
layout! {
    fid: 24, context at 8, ops at 16;
    fid_fabric: 40, ops at 24;
    fid_domain: 40, ops at 24, mr at 32;
    fid_mr: 40, mem_desc at 24, key at 32;
    fid_ep: 80, ops at 24, cm at 32, msg at 40, rma at 48, tagged at 56, atomic at 64;
    fid_pep: 40, ops at 24, cm at 32;
    fi_info: 120, src_addr at 48, handle at 64, tx_attr at 72, fabric_attr at 104;
    fi_fabric_attr: 40, api_version at 28, net at 32;
    fi_domain_attr: 192, mr_mode at 36, tclass at 184;
    fi_ep_attr: 96, auth_key at 88;
    fi_tx_attr: 80;
    fi_rx_attr: 64;
    fi_av_attr: 48;
    fi_eq_attr: 40, wait_set at 24, eq_event_handler at 32;
    fi_eq_err_entry: 48, err at 24, err_data at 32;
    fi_eq_cm_entry: 16, data at 16;
    fi_cq_attr: 48, wait_set at 32, cq_event_handler at 40;
    fi_cq_entry: 8;
    fi_cq_msg_entry: 24;
    fi_cq_data_entry: 40;
    fi_cq_tagged_entry: 48;
    fi_cq_err_entry: 88, err at 56, err_data at 64, src_addr at 80;
    fi_msg: 48, desc at 8, addr at 24;
    fi_msg_rma: 64;
    fi_msg_tagged: 64;
    fi_mr_attr: 80;
    fi_peer_rx_entry: 104, iov at 96;
}
