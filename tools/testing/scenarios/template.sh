# SPDX-License-Identifier: GPL-2.0
# template.sh DEVICE: the modules of samples/template, which are built against an installed kOFI, log the devices.
require_modules template_c template_rs

# lists_infos MODULE COUNT [LINE]: checks that the module logs COUNT infos, and that LINE is one of them.
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
