#!/bin/sh
# Creates the user spindle and its folders: user.sh CONFIGURATION DATA LOG. Existing ones stay.
set -e
conf=$1 data=$2 log=$3
getent group spindle >/dev/null || groupadd --system spindle
getent passwd spindle >/dev/null ||
	useradd --system --gid spindle --home-dir "$data" --no-create-home --shell /usr/sbin/nologin \
		--comment "spindle" spindle
for folder in "$data" "$data-sentinel" "$data-dashboard"; do
	[ -d "$folder" ] || install -d -o spindle -g spindle -m 750 "$folder"
done
[ -d "$log" ] || install -d -o spindle -g adm -m 2750 "$log"
# Until the end only root may write to the folder. Otherwise the user could replace a file that find has
# seen by a link, and root would give away the link's target. A file with a second name (a hard link) is left alone.
chown root:spindle "$conf" && chmod 750 "$conf"
find "$conf" -maxdepth 1 -name '*.conf' -type f -links 1 ! -user spindle \
	-exec chmod 640 {} + -exec chown -h spindle:spindle {} +
# CONFIG REWRITE writes a new file in the folder and renames it.
chmod 2770 "$conf"
