#!/bin/sh
# Installs the package on a clean Debian with redis-server and its data, moves to spindle, and back.
#
#	test.sh PACKAGE [ROOT]        ROOT: a debootstrap root to copy; without it the script makes one
#
# Needs root. Everything runs in the new root, in its own name spaces: it touches no port or process of the host.
set -eu
package=$1
suite=bookworm
port=6379

if [ "${2-}" != --inside ]; then
	scratch=$(mktemp -d)
	trap 'rm -rf --one-file-system "$scratch"' EXIT
	if [ -n "${2-}" ]; then
		cp -a "$2" "$scratch/tree"
	else
		debootstrap --variant=minbase --include=redis-server,redis-tools,procps "$suite" "$scratch/tree" \
			>"$scratch/log" 2>&1 || { tail -20 "$scratch/log"; exit 1; }
	fi
	cp "$package" "$scratch/tree/spindle.deb"
	unshare --mount --net --pid --fork sh "$0" "$scratch/tree" --inside
	exit
fi

root=$1
ip link set lo up 2>/dev/null || true
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
# No service is started by the packages: there is no systemd in the root.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"

in_root() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
cli() { in_root redis-cli "$@"; }
fail() {
	echo "FAIL: $*" >&2
	cat "$root"/var/log/spindle/*.log "$root"/var/log/redis/*.log "$root/out" 2>/dev/null | tail -30 >&2
	exit 1
}
is() { [ "$2" = "$3" ] || fail "$1 is '$2', not '$3'"; }

# serve USER COMMAND...: starts the command as systemd would, and waits until it answers. stop ends it.
serve() {
	user=$1
	shift
	install -d -o "$(in_root id -u "$user")" -g "$(in_root id -g "$user")" "$root/run/$user"
	in_root setpriv --reuid="$user" --regid="$user" --init-groups --inh-caps=-all -- "$@" >"$root/out" 2>&1 &
	server=$!
	for _ in $(seq 300); do
		[ "$(cli -p "$port" ping 2>/dev/null)" = PONG ] && return
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	fail "$* as $user does not serve"
}
stop() {
	cli shutdown >/dev/null 2>&1 || true
	wait "$server" || fail "the server ended with $?"
}
# words FILE KEY: the last value of a unit's directive.
words() { sed -n "s/^$2=//p" "$root/$1" | tail -1; }

echo "== Debian's redis-server makes data"
# --supervised systemd finds no systemd here, and the server continues without.
# shellcheck disable=SC2046
serve redis $(words lib/systemd/system/redis-server.service ExecStart)
for i in $(seq 100); do cli set "key:$i" "value $i" >/dev/null; done
cli rpush list a b c >/dev/null
stop
is "the data's owner" "$(in_root stat -c %U /var/lib/redis/dump.rdb)" redis

echo "== the package takes redis-server's place"
in_root dpkg -i /spindle.deb >"$root/out" 2>&1 || fail "dpkg -i"
is "redis-server's state" "$(in_root dpkg-query -W -f '${db:Status-Status}' redis-server)" config-files
is "spindle's state" "$(in_root dpkg-query -W -f '${db:Status-Status}' spindle)" installed
is "the user's home" "$(in_root getent passwd spindle | cut -d: -f6)" /var/lib/spindle
is "the data folder" "$(in_root stat -c '%U:%G %a' /var/lib/spindle)" "spindle:spindle 750"
is "the configuration" "$(in_root stat -c '%U:%G %a' /etc/spindle/spindle.conf)" "spindle:spindle 640"
is "redis-server" "$(in_root readlink /usr/bin/redis-server)" spindle
in_root spindle --check-config /etc/spindle/spindle.conf >/dev/null || fail "--check-config"
unit=lib/systemd/system/spindle.service

echo "== the unit's command as its user, on its own configuration"
# shellcheck disable=SC2046
serve "$(words $unit User)" $(words $unit ExecStart)
is "SET" "$(cli set a 1)" OK
is "CONFIG REWRITE" "$(cli config rewrite)" OK
echo "== the backup's unit pushes and prunes, as its user"
in_root install -d -o spindle -g spindle -m 700 /var/backups/spindle
echo "store /var/backups/spindle" >>"$root/etc/spindle/backup.conf"
for what in push prune; do
	# shellcheck disable=SC2046
	in_root setpriv --reuid=spindle --regid=spindle --init-groups --inh-caps=-all -- \
		$(sed -n "s/^ExecStart=\(.* $what .*\)/\1/p" "$root/lib/systemd/system/spindle-backup.service") >"$root/out" 2>&1 ||
		fail "backup $what"
done
is "whole backups" "$(in_root spindle backup list --store /var/backups/spindle | grep -c 'whole$')" 1
rm -r "$root/var/backups/spindle"
stop
is "the data" "$(in_root stat -c %U /var/lib/spindle/dump.rdb)" spindle
is "the log" "$(in_root stat -c %U /var/log/spindle/spindle.log)" spindle

echo "== Sentinel's unit, the same way"
sentinel=lib/systemd/system/spindle-sentinel.service
port=26379
# shellcheck disable=SC2046
serve "$(words $sentinel User)" $(words $sentinel ExecStart)
is "the primaries" "$(cli -p 26379 sentinel masters | grep -c '^mymaster$')" 1
cli -p 26379 shutdown >/dev/null 2>&1 || true
wait "$server" || fail "Sentinel ended with $?"
port=6379
is "its log" "$(in_root stat -c %U /var/log/spindle/sentinel.log)" spindle

echo "== a proxy's unit, the same way, and the dashboard's"
in_root spindle --port 7000 --cluster-enabled yes --daemonize yes --dir /tmp --save "" >/dev/null
for _ in $(seq 300); do [ "$(cli -p 7000 ping 2>/dev/null)" = PONG ] && break; sleep 0.1; done
is "ADDSLOTSRANGE" "$(cli -p 7000 cluster addslotsrange 0 16383)" OK
sed -e 's|^proxy-cluster ""$|proxy-cluster 127.0.0.1:7000|' "$root/etc/spindle/proxy.conf" \
	>"$root/etc/spindle/proxy-6400.conf"
in_root chown spindle:spindle /etc/spindle/proxy-6400.conf
proxy='lib/systemd/system/spindle-proxy@.service'
port=6400
# shellcheck disable=SC2046
serve "$(words $proxy User)" $(words $proxy ExecStart | sed 's|%i|6400|')
is "SET" "$(cli -p 6400 set a 1)" OK
kill "$(cli -p 6400 info server | tr -d '\r' | sed -n 's/^process_id://p')"
wait "$server" || fail "the proxy ended with $?"
cli -p 7000 shutdown nosave >/dev/null 2>&1 || true
rm "$root/etc/spindle/proxy-6400.conf"
port=6379
dashboard=lib/systemd/system/spindle-dashboard.service
# shellcheck disable=SC2046
is "the dashboard's settings" \
	"$(in_root $(words $dashboard ExecStart | sed 's| .*||') --help store-prefix | grep -c /spindle)" 1

echo "== as the user redis, on Debian's redis.conf and data"
drop_in=usr/share/doc/spindle/examples/redis-data.conf
# shellcheck disable=SC2046
serve "$(words $drop_in User)" $(words $drop_in ExecStart)
is "DBSIZE" "$(cli dbsize)" 101
is "GET" "$(cli get key:7)" "value 7"
is "INFO" "$(cli info server | tr -d '\r' | sed -n 's/^config_file://p')" /etc/redis/redis.conf
cli set of spindle >/dev/null
stop

echo "== as the unit's user, on a copy of them that is given to it"
sed -e 's|/var/lib/redis|/var/lib/spindle|; s|/var/log/redis/redis-server.log|/var/log/spindle/spindle.log|' \
	-e 's|/run/redis/redis-server.pid|/run/spindle/spindle.pid|' \
	"$root/etc/redis/redis.conf" >"$root/etc/spindle/redis.conf"
cp "$root/var/lib/redis/dump.rdb" "$root/var/lib/spindle/dump.rdb"
in_root chown spindle:spindle /etc/spindle/redis.conf /var/lib/spindle/dump.rdb
# shellcheck disable=SC2046
serve spindle $(words $unit ExecStart | sed 's|/etc/spindle/spindle.conf|/etc/spindle/redis.conf|')
is "DBSIZE" "$(cli dbsize)" 102
stop
rm "$root/etc/spindle/redis.conf"

echo "== installed once more, over itself"
echo "# mine" >>"$root/etc/spindle/spindle.conf"
in_root dpkg -i /spindle.deb >"$root/out" 2>&1 || fail "dpkg -i over itself"
tail -1 "$root/etc/spindle/spindle.conf" | grep -q mine || fail "an upgrade changed the configuration"

echo "== removed: programs go, configuration and data stay"
in_root dpkg -r spindle >"$root/out" 2>&1 || fail "dpkg -r"
for gone in usr/bin/spindle usr/bin/redis-server usr/bin/spindle-check-rdb $unit; do
	[ ! -e "$root/$gone" ] || fail "$gone is still there"
done
for stays in etc/spindle/spindle.conf var/lib/spindle/dump.rdb; do
	[ -e "$root/$stays" ] || fail "$stays is gone"
done

echo "== purged: nothing is left"
in_root dpkg -P spindle >"$root/out" 2>&1 || fail "dpkg -P"
left=$(find "$root" -xdev -path "$root/proc" -prune -o -path "$root/spindle.deb" -prune -o -name '*spindle*' -print)
is "what is left" "$left" ""
! in_root getent passwd spindle >/dev/null || fail "the user is still there"

echo "== and back: redis-server reads what spindle has saved"
archive=$(cd "$root" && ls var/cache/apt/archives/redis-server_*.deb)
in_root dpkg -i "/$archive" >"$root/out" 2>&1 || fail "redis-server again"
# shellcheck disable=SC2046
serve redis $(words lib/systemd/system/redis-server.service ExecStart)
is "GET" "$(cli get of)" spindle
stop
echo "OK"
