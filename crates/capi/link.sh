#!/bin/sh
# Makes the shared library of the static one: link.sh LIBWEFT_CAPI.A LIBWEFT.SO
#
# rustc has a list of symbols of its own for shared libraries, which excludes versions of symbols.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# A shared library may be in memory at any address, and is never unloaded: its threads may still be
# ending when its last handle is closed.
exec "${CC:-cc}" -shared -o "$2" \
    -Wl,-soname,libweft.so.1 -Wl,--version-script="$here/libweft.map" \
    -Wl,--no-undefined -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,--gc-sections \
    -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
