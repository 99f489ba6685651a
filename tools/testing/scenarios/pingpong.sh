# SPDX-License-Identifier: GPL-2.0
# The kernel at one end, and the distribution's fi_pingpong at the other, which is told nothing of that:
# pingpong.sh DEVICE COUNT
END=$KOFI/bin/pingpong
# libfabric makes its queue for so many peers at once: rxe has none for 256, the default.
export FI_UNIVERSE_SIZE=16

# theirs KIND [OPTION]... [ADDRESS]: what is to be in the background.
theirs() {
	kind=$1
	shift
	exec timeout -s KILL $((60 * PATIENCE)) \
		fi_pingpong -e rdm -p "verbs;ofi_rxm" -d "$DEVICE" -m "$kind" -c -I "$COUNT" "$@"
}

# both END THEIRS: theirs waits for ever for what does not come, ours does not.
both() {
	wait "$1"
	ours=$?
	[ $ours = 0 ] || kill -KILL "$2"
	wait "$2" && return $ours
}

# serve PORT KIND [SIZE]: theirs is the client, and begins.
serve() {
	said=/run/end.$1
	rm -f "$said"
	"$END" server "$ADDRESS" "$1" "$2" "$COUNT" ${3:+"$3"} >"$said" &
	end=$!
	eventually 10 grep -qs ready "$said" || return
	theirs "$2" -P "$1" ${3:+-S "$3"} "$ADDRESS" &
	both $end $!
}

# begin PORT KIND [SIZE]: theirs is the server, and waits.
begin() {
	theirs "$2" -B "$1" ${3:+-S "$3"} &
	server=$!
	"$END" client "$ADDRESS" "$1" "$2" "$COUNT" ${3:+"$3"} &
	both $! $server
}

device_up "$1" || fail "$1 does not come up"
COUNT=$2
load kofi_pingpong addr="$ADDRESS" || fail "kofi_pingpong.ko does not load"
check rdm_07_fi_pingpong_asks serve 7480 msg
check rdm_07_fi_pingpong_answers begin 7481 msg
check rdm_07_fi_pingpong_asks_with_tags serve 7480 tagged
check rdm_07_fi_pingpong_answers_with_tags begin 7481 tagged
check rdm_07_fi_pingpong_asks_nothing serve 7480 msg 0
check rdm_07_fi_pingpong_answers_nothing begin 7481 msg 0
# What is one byte too long for one packet.
check rdm_07_fi_pingpong_asks_in_parts serve 7480 msg 16385
check rdm_07_fi_pingpong_answers_in_parts begin 7481 msg 16385
# Who shares its receives counts no packets: the device has to do without.
if [ "$1" = rxe ]; then
	export FI_OFI_RXM_USE_SRX=1
	check rdm_07_fi_pingpong_asks_without_credits serve 7480 msg
	check rdm_07_fi_pingpong_answers_without_credits begin 7481 msg
fi
unload kofi_pingpong kofi || fail "the modules do not unload"
