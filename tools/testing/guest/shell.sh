# SPDX-License-Identifier: GPL-2.0
# Runs an interactive shell in a guest, with both soft devices and kofi.ko.
rxe_up
siw_up
has_module kofi && load kofi || echo 'kofi.ko is not loaded'
dmesg -n 4
export PATH="$PATH:$KOFI/bin"
cat <<TEXT

kOFI guest ($LANE): rxe0 at $RXE_IP, siw0 at $SIW_IP.
  kofi info                 devices and what they offer; kofi --help lists the other commands
  load NAME [PARAMETERS]    loads a module of $KOFI/modules, and those it needs; unload NAME
  run_suites PATTERN        runs KUnit suites, after: load kofi_kunit addr=$RXE_IP
  pair_up rxe               two network namespaces, left and right, with a device each
  dmesg                     the kernel's log; /sys/kernel/debug/kofi has the open objects
  exit                      powers off

Programs are in $KOFI/bin; $KOFI/guest/lib.sh has the functions above and more.

TEXT
cd "$KOFI" || exit
ENV=$KOFI/guest/lib.sh setsid cttyhack sh -i
