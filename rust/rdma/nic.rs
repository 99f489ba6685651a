// SPDX-License-Identifier: GPL-2.0

//! Identification of a device, and the state of its link.

use super::{
    device_attr::CStrBuf,
    prelude::*, //
};

/// Speed of one lane in multiples of 100 Mb/s, for each `enum ib_port_speed`.
const LANE_SPEEDS: [(bindings::ib_port_speed, u64); 9] = [
    (bindings::ib_port_speed_IB_SPEED_SDR, 25),
    (bindings::ib_port_speed_IB_SPEED_DDR, 50),
    (bindings::ib_port_speed_IB_SPEED_QDR, 100),
    (bindings::ib_port_speed_IB_SPEED_FDR10, 100),
    (bindings::ib_port_speed_IB_SPEED_FDR, 140),
    (bindings::ib_port_speed_IB_SPEED_EDR, 250),
    (bindings::ib_port_speed_IB_SPEED_HDR, 500),
    (bindings::ib_port_speed_IB_SPEED_NDR, 1000),
    (bindings::ib_port_speed_IB_SPEED_XDR, 2000),
];

/// Number of lanes, for each `enum ib_port_width`.
const LANES: [(bindings::ib_port_width, u64); 5] = [
    (bindings::ib_port_width_IB_WIDTH_1X, 1),
    (bindings::ib_port_width_IB_WIDTH_2X, 2),
    (bindings::ib_port_width_IB_WIDTH_4X, 4),
    (bindings::ib_port_width_IB_WIDTH_8X, 8),
    (bindings::ib_port_width_IB_WIDTH_12X, 12),
];

/// Size in bytes of a firmware version, including the NUL.
const FIRMWARE_SIZE: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;

/// Link layer of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkLayer {
    InfiniBand,
    Ethernet,
    Unspecified,
}

/// PCI address of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PciAddr {
    pub(crate) domain: u16,
    pub(crate) bus: u8,
    pub(crate) device: u8,
    pub(crate) function: u8,
}

impl PciAddr {
    /// Converts the result of `kofi_pci_address()`, which is negative for a device without such an address.
    fn from_raw(raw: i64) -> Option<Self> {
        let [.., high, low, bus, devfn] = u32::try_from(raw).ok()?.to_be_bytes();
        Some(Self {
            domain: u16::from_be_bytes([high, low]),
            bus,
            device: devfn >> 3,
            function: devfn & 7,
        })
    }
}

/// Identification of a device, and the state of one of its ports.
pub(crate) struct NicAttr {
    pub(crate) vendor_id: u32,
    pub(crate) part_id: u32,
    pub(crate) hw_version: u32,
    pub(crate) driver: CStrBuf<64>,
    pub(crate) firmware: CStrBuf<FIRMWARE_SIZE>,
    pub(crate) pci: Option<PciAddr>,
    /// NUMA node, or -1.
    pub(crate) numa_node: i32,
    /// Hardware address of the network interface, or the first GID.
    pub(crate) address: CStrBuf<64>,
    /// Maximum transmission unit in bytes; 0 if unknown.
    pub(crate) mtu: usize,
    /// Bits per second; 0 if unknown.
    pub(crate) speed: u64,
    pub(crate) is_up: bool,
    /// Maximum length of a message in bytes.
    pub(crate) max_msg_size: u32,
    pub(crate) link_layer: LinkLayer,
}

impl NicAttr {
    /// Reads the attributes of a device and of its port from the driver. May sleep.
    ///
    /// # Errors
    ///
    /// The driver's errors.
    ///
    /// # Safety
    ///
    /// `raw` is a registered device, and `port` one of its ports.
    pub(super) unsafe fn query(raw: *mut bindings::ib_device, port: u32) -> Result<Self> {
        let mut attr: bindings::ib_port_attr = pin_init::zeroed();
        // SAFETY: By this function's contract; `attr` is only written.
        to_result(unsafe { bindings::ib_query_port(raw, port, &mut attr) })?;
        let (mut firmware, mut address) = ([0; FIRMWARE_SIZE], [0; 64]);
        // SAFETY: By this function's contract. The buffers have the size that the functions write at
        // most.
        let (pci, numa_node, driver, layer) = unsafe {
            bindings::ib_get_device_fw_str(raw, (&raw mut firmware).cast());
            bindings::kofi_link_address(raw, port, (&raw mut address).cast(), 64);
            (
                bindings::kofi_pci_address(raw),
                bindings::ibdev_to_node(raw),
                CStr::from_char_ptr(bindings::kofi_driver_name(raw)),
                bindings::rdma_port_get_link_layer(raw, port),
            )
        };
        // SAFETY: The attributes do not change after registration.
        let device = unsafe { &(*raw).attrs };
        Ok(Self {
            vendor_id: device.vendor_id,
            part_id: device.vendor_part_id,
            hw_version: device.hw_ver,
            driver: CStrBuf::truncated(driver.to_bytes()),
            firmware: CStrBuf::new(&firmware),
            pci: PciAddr::from_raw(pci),
            numa_node,
            address: CStrBuf::new(&address),
            mtu: mtu_bytes(attr.active_mtu),
            speed: link_speed(attr.active_speed, attr.active_width),
            is_up: attr.state == bindings::ib_port_state_IB_PORT_ACTIVE,
            max_msg_size: attr.max_msg_sz,
            link_layer: match layer {
                bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
                bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                _ => LinkLayer::Unspecified,
            },
        })
    }
}

/// Converts an `enum ib_mtu` to bytes; 0 for an unknown value.
fn mtu_bytes(mtu: bindings::ib_mtu) -> usize {
    match mtu {
        bindings::ib_mtu_IB_MTU_256..=bindings::ib_mtu_IB_MTU_4096 => 128 << mtu,
        _ => 0,
    }
}

/// Returns the speed of a link in bits per second; 0 for an unknown speed or width.
fn link_speed(speed: u16, width: u8) -> u64 {
    let lane = LANE_SPEEDS.iter().find(|(it, _)| *it == speed.into());
    let lanes = LANES.iter().find(|(it, _)| *it == width.into());
    match (lane, lanes) {
        (Some((_, speed)), Some((_, lanes))) => speed * lanes * 100_000_000,
        _ => 0,
    }
}

#[kunit_tests(kofi_rdma_nic)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_that_of_all_lanes() {
        assert_eq!(link_speed(1, 1), 2_500_000_000);
        assert_eq!(link_speed(32, 2), 100_000_000_000);
        assert_eq!(link_speed(256, 8), 2_400_000_000_000);
        assert_eq!(link_speed(3, 2), 0);
        assert_eq!(link_speed(32, 0), 0);
    }

    #[test]
    fn mtu_is_in_bytes() {
        let bytes = [0, 256, 512, 1024, 2048, 4096, 0];
        for (mtu, bytes) in bytes.into_iter().enumerate() {
            assert_eq!(mtu_bytes(mtu as bindings::ib_mtu), bytes);
        }
    }

    #[test]
    fn pci_address_is_split() {
        assert_eq!(PciAddr::from_raw(-1), None);
        let addr = PciAddr {
            domain: 0x1234,
            bus: 0x56,
            device: 0x1f,
            function: 7,
        };
        assert_eq!(PciAddr::from_raw(0x1234_56ff), Some(addr));
    }
}
