# SPDX-License-Identifier: GPL-2.0
# Runs one scenario in a new shell: scenario.sh NAME SCRIPT [ARGUMENTS]
SCENARIO=$1
_script=$2
shift 2
. "$KOFI/guest/lib.sh"
. "$_script"
