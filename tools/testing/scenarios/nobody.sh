# SPDX-License-Identifier: GPL-2.0
# A client that finds nobody: at a port where nobody listens, at an address that nobody has, and on
# a way that does not exist. It says so, lets itself be unloaded, and leaves nothing behind.
alone() {
	load msg_client addr="$1" port="$2" || return
	# The address is in one line of the two, and new each time.
	await 30 "msg_client: $1: .*$3" && await 5 "msg_client: done count=0 .*errors=1"
	told=$?
	unload msg_client kofi && return $told
}

need_module msg_client
device_up "$1" || fail "$1 does not come up"
check port_4711 alone "$ADDRESS" 4711 "refused"
check port_4711_ipv6 alone "$ADDRESS6" 4711 "refused"
check neighbour alone "${ADDRESS%.*}.77" 7471
check no_route alone 192.0.2.1 7471
rdma resource show | grep "kofi" && fail "something is left"
true
