# SPDX-License-Identifier: GPL-2.0
# pairings.sh DEVICE SIZE COUNT: runs the samples in all four pairs of a server and a client, in C and in Rust.
require_modules msg_server msg_client msg_server_rs msg_client_rs
device_up "$1" || fail "$1 does not come up"
for server in msg_server msg_server_rs; do
	for client in msg_client msg_client_rs; do
		result=$(pairing $server $client "$ADDRESS" "$2" "$3")
		echo "pairing $server $client $result"
		case $result in
		"count=$3 size=$2 "*" errors=0") ok $server.$client ;;
		*) not_ok $server.$client "'$result'" ;;
		esac
	done
done
