# SPDX-License-Identifier: GPL-2.0
# The modules of samples/template, built against an installed kOFI, load, and name the devices.
require_modules template_c template_rs

# lists_infos MODULE COUNT [LINE]: checks that the module finds COUNT infos, and LINE among them.
lists_infos() {
	reset_kernel_log
	load "$1" && await 5 "$1: ready count=$2\$" && unload "$1" || return
	[ -z "$3" ] || kernel_logged "$1: $3\$"
}

check c.finds_loop_without_devices lists_infos template_c 1 'loop on loop'
check rust.finds_loop_without_devices lists_infos template_rs 1 'loop on loop'
device_up "$1" || fail "$1 does not come up"
check c.finds_the_device lists_infos template_c '[1-9]' "verbs on $DEVICE"
check rust.finds_the_device lists_infos template_rs '[1-9]' "verbs on $DEVICE"
unload kofi
