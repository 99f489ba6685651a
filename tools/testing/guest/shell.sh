# SPDX-License-Identifier: GPL-2.0
# An interactive guest: both soft devices, every module loaded.
rxe_up
siw_up
for file in "$KOFI"/modules/*.ko; do
	module=$(basename "$file" .ko)
	case $module in
	kofi) loaded kofi || load kofi ;;
	esac
done
dmesg -n 4
cat <<TEXT

kOFI guest ($LANE): rxe0 at $RXE_IP, siw0 at $SIW_IP; modules in $KOFI/modules.
  . $KOFI/guest/lib.sh      load NAME [PARAMETERS], run_suites PATTERN, pair_up rxe, ...
  exit                      powers off

TEXT
cd "$KOFI" || exit
ENV=$KOFI/guest/lib.sh setsid cttyhack sh -i
