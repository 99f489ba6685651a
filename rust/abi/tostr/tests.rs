// SPDX-License-Identifier: GPL-2.0

//! Tests of the text of values, attributes and infos.

use super::*;
use kernel::error::Result;
use pin_init::zeroed;

#[kunit_tests(kofi_abi_tostr)]
mod suite {
    use super::*;

    // Returns a result instead of asserting: outside of a test function, `assert!` panics the kernel.
    fn formats_as<T>(value: &T, datatype: fi_type, expected: &str) -> bool {
        let mut buf = [0; 256];
        let mut text = Text::new(&mut buf);
        // SAFETY: `datatype` stands for the type of `value`, which has no pointers.
        let known = unsafe { write_value(ptr::from_ref(value).cast(), datatype, &mut text) };
        known && text.as_bytes() == expected.as_bytes()
    }

    fn contains(text: &Text<'_>, part: &str) -> bool {
        let mut windows = text.as_bytes().windows(part.len());
        windows.any(|window| window == part.as_bytes())
    }

    #[test]
    fn enum_values_print_their_names() {
        for (value, datatype, name) in [
            (abi::FI_EP_MSG, abi::FI_TYPE_EP_TYPE, "FI_EP_MSG"),
            (
                abi::FI_SOCKADDR_IN6,
                abi::FI_TYPE_ADDR_FORMAT,
                "FI_SOCKADDR_IN6",
            ),
            (
                abi::FI_THREAD_SAFE,
                abi::FI_TYPE_THREADING,
                "FI_THREAD_SAFE",
            ),
            (
                abi::FI_PROGRESS_AUTO,
                abi::FI_TYPE_PROGRESS,
                "FI_PROGRESS_AUTO",
            ),
            (abi::FI_PROTO_RXM, abi::FI_TYPE_PROTOCOL, "FI_PROTO_RXM"),
            (abi::FI_AV_TABLE, abi::FI_TYPE_AV_TYPE, "FI_AV_TABLE"),
            (abi::FI_UINT128, abi::FI_TYPE_ATOMIC_TYPE, "FI_UINT128"),
            (abi::FI_VOID, abi::FI_TYPE_ATOMIC_TYPE, "FI_VOID"),
            (abi::FI_MSWAP, abi::FI_TYPE_ATOMIC_OP, "FI_MSWAP"),
            (abi::FI_CONNREQ, abi::FI_TYPE_EQ_EVENT, "FI_CONNREQ"),
            (abi::FI_OP_CNTR_ADD, abi::FI_TYPE_OP_TYPE, "FI_OP_CNTR_ADD"),
            (abi::FI_GATHER, abi::FI_TYPE_COLLECTIVE_OP, "FI_GATHER"),
            (
                abi::FI_HMEM_SYSTEM,
                abi::FI_TYPE_HMEM_IFACE,
                "FI_HMEM_SYSTEM",
            ),
            (
                abi::FI_CQ_FORMAT_DATA,
                abi::FI_TYPE_CQ_FORMAT,
                "FI_CQ_FORMAT_DATA",
            ),
            (abi::FI_LOG_WARN, abi::FI_TYPE_LOG_LEVEL, "FI_LOG_WARN"),
            (abi::FI_LOG_CNTR, abi::FI_TYPE_LOG_SUBSYS, "FI_LOG_CNTR"),
        ] {
            assert!(formats_as(&value, datatype, name));
        }
    }

    #[test]
    fn unknown_values_print_their_number() {
        assert!(formats_as(
            &0x99_u32,
            abi::FI_TYPE_EP_TYPE,
            "unknown (0x99)"
        ));
        let flags = abi::FI_MSG | 1 << 63;
        assert!(formats_as(
            &flags,
            abi::FI_TYPE_CAPS,
            "FI_MSG, 0x8000000000000000"
        ));
    }

    #[test]
    fn flag_name_depends_on_the_field() {
        let bit = 1_u64 << 59;
        assert!(formats_as(&bit, abi::FI_TYPE_CAPS, "FI_DIRECTED_RECV"));
        assert!(formats_as(&bit, abi::FI_TYPE_MODE, "FI_CONTEXT"));
        assert!(formats_as(&bit, abi::FI_TYPE_OP_FLAGS, "FI_CLAIM"));
        assert!(formats_as(&0_u64, abi::FI_TYPE_CAPS, ""));
        let order = abi::FI_ORDER_SAS | abi::FI_ORDER_RMA_WAW;
        assert!(formats_as(
            &order,
            abi::FI_TYPE_MSG_ORDER,
            "FI_ORDER_SAS, FI_ORDER_RMA_WAW",
        ));
        let flags = abi::FI_MSG | abi::FI_RECV | abi::FI_REMOTE_CQ_DATA;
        assert!(formats_as(
            &flags,
            abi::FI_TYPE_CQ_EVENT_FLAGS,
            "FI_MSG, FI_RECV, FI_REMOTE_CQ_DATA",
        ));
        let mode = abi::FI_MR_LOCAL | abi::FI_MR_PROV_KEY;
        assert!(formats_as(
            &mode,
            abi::FI_TYPE_MR_MODE,
            "FI_MR_LOCAL, FI_MR_PROV_KEY"
        ));
    }

    #[test]
    fn unknown_types_print_nothing() {
        for datatype in [
            abi::FI_TYPE_LOG_SUBSYS + 1,
            abi::FI_TYPE_CQ_ERR_ENTRY - 1,
            abi::FI_TYPE_AV_ATTR + 1,
            u32::MAX,
        ] {
            let mut buf = [1; 8];
            let mut text = Text::new(&mut buf);
            let value = 0_u64;
            // SAFETY: An unknown type is not read at all.
            let known = unsafe { write_value(ptr::from_ref(&value).cast(), datatype, &mut text) };
            assert!(!known && text.as_bytes().is_empty() && buf[0] == 0);
        }
    }

    #[test]
    fn text_is_truncated_and_terminated() {
        let whole = b"FI_MSG, FI_RMA";
        let flags = abi::FI_MSG | abi::FI_RMA;
        for size in 0..=whole.len() + 1 {
            let mut buf = [b'x'; 17];
            let mut text = Text::new(&mut buf[..size]);
            // SAFETY: `flags` is the u64 that the type stands for.
            let known =
                unsafe { write_value(ptr::from_ref(&flags).cast(), abi::FI_TYPE_CAPS, &mut text) };
            assert!(known);
            let fits = size.saturating_sub(1);
            assert!(text.as_bytes() == &whole[..fits]);
            assert!(size == 0 || buf[fits] == 0);
            assert!(buf[size..].iter().all(|&byte| byte == b'x'));
        }
    }

    #[test]
    fn info_without_attributes_prints_null() -> Result<(), kernel::alloc::AllocError> {
        let info: fi_info = zeroed();
        let mut buf = KVVec::from_elem(0, 4096, GFP_KERNEL)?;
        let mut text = Text::new(&mut buf);
        // SAFETY: A zeroed info has no pointers.
        assert!(unsafe { write_value(ptr::from_ref(&info).cast(), abi::FI_TYPE_INFO, &mut text) });
        assert!(text
            .as_bytes()
            .starts_with(b"fi_info:\n    caps: [  ]\n    mode: [  ]\n"));
        assert!(contains(&text, "\n    src_addr: (null)\n"));
        assert!(text
            .as_bytes()
            .ends_with(b"\n    fi_fabric_attr: (null)\n    nic: (null)\n"));
        Ok(())
    }

    #[test]
    fn info_prints_its_attributes() -> Result<(), kernel::alloc::AllocError> {
        let mut name = *b"rxe0\0";
        let mut provider = *b"verbs\0";
        let mut addr = [0_u8; 16];
        addr[2..8].copy_from_slice(&[0x1d, 0x4c, 10, 0, 0, 1]);
        let mut domain: fi_domain_attr = zeroed();
        domain.name = name.as_mut_ptr();
        domain.mr_mode = abi::FI_MR_PROV_KEY;
        let mut fabric: fi_fabric_attr = zeroed();
        fabric.prov_name = provider.as_mut_ptr();
        fabric.api_version = VERSION;
        let mut info: fi_info = zeroed();
        info.caps = abi::FI_MSG | abi::FI_SEND;
        info.addr_format = abi::FI_SOCKADDR_IN;
        info.src_addr = addr.as_mut_ptr().cast();
        info.src_addrlen = addr.len();
        info.domain_attr = &mut domain;
        info.fabric_attr = &mut fabric;

        let mut buf = KVVec::from_elem(0, 4096, GFP_KERNEL)?;
        let mut text = Text::new(&mut buf);
        // SAFETY: The info points to live variables of this function.
        assert!(unsafe { write_value(ptr::from_ref(&info).cast(), abi::FI_TYPE_INFO, &mut text) });
        for line in [
            "    caps: [ FI_MSG, FI_SEND ]\n",
            "    addr_format: FI_SOCKADDR_IN\n",
            "    src_addr: fi_sockaddr_in://10.0.0.1:7500\n",
            "    fi_domain_attr:\n        domain: (null)\n        name: rxe0\n",
            "        mr_mode: [ FI_MR_PROV_KEY ]\n",
            "        prov_name: verbs\n",
            "        api_version: 1.17\n",
            "        net: (null)\n",
        ] {
            assert!(contains(&text, line));
        }
        Ok(())
    }

    #[test]
    fn static_buffers_are_used_in_turn() {
        let (first, second) = (abi::FI_EP_MSG, abi::FI_EP_RDM);
        // SAFETY: Both are the u32 that the type stands for.
        let texts = unsafe {
            [
                tostr_static(ptr::from_ref(&first).cast(), abi::FI_TYPE_EP_TYPE),
                tostr_static(ptr::from_ref(&second).cast(), abi::FI_TYPE_EP_TYPE),
            ]
        };
        for (text, expected) in texts.into_iter().zip([c"FI_EP_MSG", c"FI_EP_RDM"]) {
            assert!(!text.is_null());
            // SAFETY: The text is in a static buffer, and ends in a NUL.
            assert!(unsafe { CStr::from_char_ptr(text) } == expected);
        }
        // SAFETY: Null and unknown types are allowed.
        unsafe {
            assert!(tostr_static(ptr::null(), abi::FI_TYPE_EP_TYPE).is_null());
            assert!(tostr_static(ptr::from_ref(&first).cast(), u32::MAX).is_null());
        }
    }

    #[test]
    fn static_buffer_fits_an_info_with_every_flag() {
        let (caps, mode, order) = (u64::MAX, u64::MAX, u64::MAX);
        let mut tx = fi_tx_attr {
            caps,
            mode,
            op_flags: u64::MAX,
            msg_order: order,
            comp_order: order,
            ..zeroed()
        };
        let mut rx = fi_rx_attr {
            caps,
            mode,
            op_flags: u64::MAX,
            msg_order: order,
            comp_order: order,
            ..zeroed()
        };
        let mut ep: fi_ep_attr = zeroed();
        let mut domain = fi_domain_attr {
            caps,
            mode,
            mr_mode: -1,
            ..zeroed()
        };
        let mut fabric: fi_fabric_attr = zeroed();
        let info = fi_info {
            caps,
            mode,
            tx_attr: &mut tx,
            rx_attr: &mut rx,
            ep_attr: &mut ep,
            domain_attr: &mut domain,
            fabric_attr: &mut fabric,
            ..zeroed()
        };
        // SAFETY: The info points to live variables of this function.
        let text = unsafe { tostr_static(ptr::from_ref(&info).cast(), abi::FI_TYPE_INFO) };
        assert!(!text.is_null());
        // SAFETY: The text is in a static buffer, and ends in a NUL.
        let text = unsafe { CStr::from_char_ptr(text) };
        assert!(text.to_bytes().ends_with(b"    nic: (null)\n"));
    }

    #[test]
    fn errors_and_versions_are_formatted() {
        let mut buf = [0; 64];
        let mut text = Text::new(&mut buf);
        let written = text.write_fmt(fmt!("{} {}", Version(abi::version(1, 17)), Error(-259)));
        assert!(written.is_ok());
        assert!(text.as_bytes() == b"1.17 An error entry is available");
    }
}
