# SPDX-License-Identifier: GPL-2.0
# pingpong.sh DEVICE COUNT: kofi_pingpong in the kernel exchanges messages with the distribution's fi_pingpong.
END=$KOFI/bin/pingpong
# libfabric sizes its queue for this many peers; the default of 256 exceeds the limit of rxe.
export FI_UNIVERSE_SIZE=16

# run_fi_pingpong KIND [OPTION]... [ADDRESS]: runs fi_pingpong; the caller starts it in the background.
run_fi_pingpong() {
	kind=$1
	shift
	exec timeout -s KILL $((60 * TIMEOUT_FACTOR)) \
		fi_pingpong -e rdm -p "verbs;ofi_rxm" -d "$DEVICE" -m "$kind" -c -I "$COUNT" "$@"
}

# wait_for_both KERNEL USER: waits for both ends. fi_pingpong has no timeout, so it is killed if the kernel's end
# fails.
wait_for_both() {
	wait "$1"
	status=$?
	[ $status = 0 ] || kill -KILL "$2"
	wait "$2" && return $status
}

# serve PORT KIND [SIZE]: runs the kernel's server with fi_pingpong as the client.
serve() {
	output=/run/end.$1
	rm -f "$output"
	"$END" server "$ADDRESS" "$1" "$2" "$COUNT" ${3:+"$3"} >"$output" &
	end=$!
	eventually 10 grep -qs ready "$output" || return
	run_fi_pingpong "$2" -P "$1" ${3:+-S "$3"} "$ADDRESS" &
	wait_for_both $end $!
}

# connect PORT KIND [SIZE]: runs the kernel's client with fi_pingpong as the server.
connect() {
	run_fi_pingpong "$2" -B "$1" ${3:+-S "$3"} &
	server=$!
	"$END" client "$ADDRESS" "$1" "$2" "$COUNT" ${3:+"$3"} &
	wait_for_both $! $server
}

device_up "$1" || fail "$1 does not come up"
COUNT=$2
load kofi_pingpong addr="$ADDRESS" || fail "kofi_pingpong.ko does not load"
# Each check has a port of its own: over siw, a closed connection may still use the port of its listener.
check rdm_07_fi_pingpong_client_exchanges_messages serve 7480 msg
check rdm_07_fi_pingpong_server_exchanges_messages connect 7481 msg
check rdm_07_fi_pingpong_client_exchanges_tagged_messages serve 7482 tagged
check rdm_07_fi_pingpong_server_exchanges_tagged_messages connect 7483 tagged
check rdm_07_fi_pingpong_client_exchanges_empty_messages serve 7484 msg 0
check rdm_07_fi_pingpong_server_exchanges_empty_messages connect 7485 msg 0
# The size is one byte larger than the data of a packet.
check rdm_07_fi_pingpong_client_exchanges_segmented_messages serve 7486 msg 16385
check rdm_07_fi_pingpong_server_exchanges_segmented_messages connect 7487 msg 16385
# Endpoints with a shared receive context grant no credits; the RNR retries of the device replace them.
if [ "$1" = rxe ]; then
	export FI_OFI_RXM_USE_SRX=1
	check rdm_07_fi_pingpong_client_works_without_credits serve 7488 msg
	check rdm_07_fi_pingpong_server_works_without_credits connect 7489 msg
fi
unload kofi_pingpong kofi || fail "the modules do not unload"
