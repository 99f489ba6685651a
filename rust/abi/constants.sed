# SPDX-License-Identifier: GPL-2.0

# bindgen gives a macro the smallest type that holds it. Give it the type of the fields that it is
# for: int for error numbers and mr_mode bits, u64 for flags. If there is no rustfmt, bindgen writes
# everything in one line, with a space before each colon.
s/\bpub const (FI_EVENT) ?: u32 = /pub const \1: u64 = /g
s/\bpub const (FI_(SUCCESS|ERRNO_OFFSET|E[0-9A-Z]+|MR_[A-Z_]+)) ?: u32 = /pub const \1: ffi::c_int = /g
s/\bpub const (FI_([A-Z]+_VERSION|PROV_SPECIFIC|PROV_SPECIFIC_[A-Z]+|COLLECTIVE_OFFSET)) ?: u32 = /pub const \1: ffi::c_uint = /g
s/\bpub const (FI_[A-Z0-9_]+) ?: u32 = /pub const \1: u64 = /g
