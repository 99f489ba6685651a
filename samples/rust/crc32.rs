// SPDX-License-Identifier: GPL-2.0

//! CRC-32, by which a memory server and its clients compare a region.

/// Returns the CRC-32 of Ethernet.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
}
