# SPDX-License-Identifier: GPL-2.0

# bindgen gives a macro the smallest type that holds it. Give it the type of the fields that it is
# for: int for error numbers and mr_mode bits, u64 for flags.
s/^pub const (FI_EVENT): u32 = /pub const \1: u64 = /
s/^pub const (FI_SUCCESS|FI_ERRNO_OFFSET|FI_E[0-9A-Z]+|FI_MR_[A-Z_]+): u32 = /pub const \1: ffi::c_int = /
/^pub const FI_([A-Z]+_VERSION|PROV_SPECIFIC|PROV_SPECIFIC_[A-Z]+|COLLECTIVE_OFFSET): /!s/^pub const (FI_[A-Z0-9_]+): u32 = /pub const \1: u64 = /
