// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters of the KUnit suites for the C API of kofi.ko. Both ends of
 * every connection are on this machine, on the device that owns the address in
 * the parameter.
 *
 * insmod kofi_kunit.ko addr=10.1.0.1 addr6=fd00:1::1
 */

#include <linux/module.h>

#include "fixture.h"

char *fx_addr = "";
module_param_named(addr, fx_addr, charp, 0444);
MODULE_PARM_DESC(addr, "numeric IPv4 address of an RDMA device of this machine");

char *fx_addr6 = "";
module_param_named(addr6, fx_addr6, charp, 0444);
MODULE_PARM_DESC(addr6, "numeric IPv6 address of the same device, may be empty");

bool fx_serial;
module_param_named(serial, fx_serial, bool, 0444);
MODULE_PARM_DESC(serial, "tests without a threading model of their own serialize their data calls");

MODULE_DESCRIPTION("KUnit suites of kOFI's C API");
MODULE_LICENSE("GPL");
