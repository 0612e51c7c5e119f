#!/bin/sh
# Builds bench/transfer.c against the static Lua and runs it; the arguments are passed on (see there).
# COUNT=1 counts instructions instead of time, by callgrind, per message: COUNT=1 bench/transfer.sh -s view '1000 integers'
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/bench
sources=$(ls src/port/*.c src/base/*.c src/heap/*.c src/lua/layout.c src/lua/build.c src/lua/probe.c src/lua/finaliser.c src/transfer/*.c | grep -v _test)
${CC:-gcc} -std=c11 -D_GNU_SOURCE= -O2 -g ${CFLAGS:-} -Isrc -Iinclude -I/usr/include/lua5.4 bench/transfer.c $sources \
  -o build/bench/transfer -l:liblua5.4.a -lm -ldl -lpthread
[ "${COUNT:-}" ] || exec build/bench/transfer "$@"
count() {
  valgrind --tool=callgrind --callgrind-out-file="$1" build/bench/transfer -n "$2" "$3" "$4" "$5" 2>&1 >/dev/null |
    sed -n 's/.*Collected : *//p'
}
few=$(count build/bench/callgrind.few 100 "$@")
many=$(count build/bench/callgrind.many 1100 "$@")
echo "$3: $(( (many - few) / 1000 )) instructions"
