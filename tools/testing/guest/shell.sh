# SPDX-License-Identifier: GPL-2.0
# An interactive guest: both soft devices up, kofi.ko loaded, the samples at hand.
rxe_up
siw_up
has_module kofi && load kofi
dmesg -n 4
cat <<TEXT

kOFI guest ($LANE): rxe0 at $RXE_IP, siw0 at $SIW_IP; modules in $KOFI/modules.
  . $KOFI/guest/lib.sh      load NAME [PARAMETERS], run_suites PATTERN, pair_up rxe, ...
  exit                      powers off

TEXT
cd "$KOFI" || exit
ENV=$KOFI/guest/lib.sh setsid cttyhack sh -i
