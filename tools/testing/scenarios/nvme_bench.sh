# SPDX-License-Identifier: GPL-2.0
# nvme_bench.sh [ROUNDS]: measures with fio a disk of the kernel's target over the NVMe host of samples/nvme (impl=nvme)
# and over the kernel's own host (impl=host), alternately in one boot. bench.sh explains the order of the turns.
. "$KOFI/guest/nvme.sh"

require_modules nvme_kofi
command -v fio >/dev/null || fail "fio is not installed"
device_up rxe || fail "rxe does not come up"
start_target || fail "the target does not start"
load nvme_kofi || fail "nvme_kofi.ko does not load"

# print_result IMPLEMENTATION NAME SIZE VALUE UNIT
print_result() { echo "bench: impl=$1 name=nvme_$2 size=$3 value=$4 unit=$5 iters=1"; }

# measure IMPLEMENTATION JOB SIZE DEPTH: runs a job of fio, and prints its rate or, if the depth is 1, its latency.
measure() {
	row=$(fio --name=job --filename=$DISK --direct=1 --ioengine=libaio --rw="$2" --bs="$3" --iodepth="$4" \
		--time_based --runtime=2 --thread --output-format=terse --terse-version=3) || fail "fio: $row"
	# Fields of the terse format: operations per second and the average latency in microseconds.
	case $2 in
	*read) fields="8 40" ;;
	*) fields="49 81" ;;
	esac
	for field in $fields; do
		value=$(echo "$row" | cut -d ';' -f "$field")
		if [ "$field" = "${fields% *}" ]; then
			[ "$4" = 1 ] || print_result "$1" "$2" "$3" "${value%.*}" IOPS
		else
			[ "$4" != 1 ] || print_result "$1" "$2" "$3" "$(echo "$value" | awk '{ printf "%d", $1 * 1000 }')" ns
		fi
	done
}

run_jobs() {
	while read -r job; do
		measure "$1" $job
	done <<-END
		randread 4096 1
		randwrite 4096 1
		randread 4096 32
		randwrite 4096 32
		read 1048576 4
		write 1048576 4
	END
}

round=0
while [ $round -lt "${1:-5}" ]; do
	for implementation in nvme host host nvme host nvme nvme host; do
		[ $implementation = nvme ] && transport=kofi || transport=rdma
		connect_disk $transport || fail "$implementation: the disk does not appear"
		run_jobs $implementation
		disconnect_disk || fail "$implementation: the disk does not disappear"
	done
	round=$((round + 1))
done
unload nvme_kofi kofi || fail "the modules do not unload"
stop_target || fail "the target does not stop"
