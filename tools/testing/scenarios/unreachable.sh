# SPDX-License-Identifier: GPL-2.0
# unreachable.sh DEVICE: a client connects to a closed port, to an address without a host, and to an address without a
# route. It reports the error, can be unloaded, and leaves no object.

# connect_and_fail ADDRESS PORT [PATTERN]: runs a client, whose error has to match the pattern.
connect_and_fail() {
	load msg_client addr="$1" port="$2" || return
	# The first line has the address, which is different in each test.
	await 30 "msg_client: $1: .*$3" && await 5 "msg_client: done count=0 .*errors=1"
	status=$?
	unload msg_client kofi && return $status
}

require_modules msg_client
device_up "$1" || fail "$1 does not come up"
check closed_port_is_refused connect_and_fail "$ADDRESS" 4711 "refused"
check closed_port_is_refused_over_ipv6 connect_and_fail "$ADDRESS6" 4711 "refused"
check absent_host_is_an_error connect_and_fail "${ADDRESS%.*}.77" 7471
check missing_route_is_an_error connect_and_fail 192.0.2.1 7471
require_no_rdma_objects
