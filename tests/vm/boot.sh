#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# boot.sh [OPTIONS] KERNEL_DIR -- COMMAND [ARG...]
#
# Runs a command on another Linux kernel, in QEMU under software emulation (no KVM), with this
# machine's root file system as the guest's own. KERNEL_DIR is an unpacked kernel: boot/vmlinuz-VERSION
# and boot/config-VERSION (or vmlinuz and config beside the modules), and lib/modules/VERSION, as
# Debian's packages have them.
#
# The guest sees / read-only below a tmpfs overlay: it may write anywhere, and what it writes is gone
# when it stops, except below a -w DIR. COMMAND runs as root in the caller's directory, with an empty
# standard input. Its standard output and error come back apart, as they are written.
#
# The exit status is COMMAND's; 124 when -t ran out; 125 when the guest gave none (it did not boot,
# or it died). Both times the end of its console is printed.
#
#   -m SIZE      guest memory (1G); the overlay's files come out of it
#   -c N         guest CPUs (2; 1 where QEMU is older than 10)
#   -t SECONDS   wall-clock limit (300)
#   -w DIR       share DIR read-write, at its own path; may be repeated
#   -e VAR=VAL   set an environment variable for COMMAND; may be repeated
#   -o FILE      keep the console in FILE
#
# BOOT_QEMU is the QEMU program (qemu-system-x86_64 on the PATH). QEMU older than 10 loses code changes
# made by one CPU while another runs the same code: guests with two CPUs oops or hang as soon as
# tracepoints, kprobes or fentry are switched on. There the guest has one CPU, or, when -c asks for
# more, they run in one thread, which is safe and slow.
set -u
mem=1G cpus='' limit=300 keep=''
shares=() envs=()

die()
{
	echo "boot: $*" >&2
	exit 125
}

while getopts m:c:t:w:e:o: opt; do
	case $opt in
	m) mem=$OPTARG ;;
	c) cpus=$OPTARG ;;
	t) limit=$OPTARG ;;
	w) shares+=("$(realpath -e -- "$OPTARG")") || die "no directory $OPTARG" ;;
	e) envs+=("$OPTARG") ;;
	o) keep=$OPTARG ;;
	*) die "the options are in the comment at the top of $0" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || die "usage: boot.sh [OPTIONS] KERNEL_DIR -- COMMAND [ARG...]"
kernel_dir=$(realpath -e -- "$1") || die "no directory $1"
shift
[ "$1" = -- ] && shift
[ $# -ge 1 ] || die "no command"

# ---- what there is ----

modules=
for dir in "$kernel_dir"/usr/lib/modules/*/ "$kernel_dir"/lib/modules/*/; do
	[ -d "$dir" ] && modules=${dir%/} && break
done
[ -n "$modules" ] || die "$kernel_dir holds no lib/modules/VERSION"
version=${modules##*/} base=${modules%/lib/modules/*}
image=$kernel_dir/boot/vmlinuz-$version
[ -e "$image" ] || image=$modules/vmlinuz
config=$kernel_dir/boot/config-$version
[ -e "$config" ] || config=$modules/config
[ -e "$image" ] && [ -e "$config" ] || die "$kernel_dir holds no vmlinuz and config of $version"

PATH=$PATH:/usr/sbin:/sbin
qemu=${BOOT_QEMU:-qemu-system-x86_64}
for tool in "$qemu" busybox depmod modprobe cpio xz zstd lz4 gzip flock unshare timeout; do
	command -v "$tool" >/dev/null || die "$tool is not installed"
done
busybox=$(command -v busybox)
virtiofsd=
for tool in /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd; do
	[ -x $tool ] && virtiofsd=$tool && break
done
[ -n "$virtiofsd" ] || die "virtiofsd is not installed"
major=$("$qemu" --version | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p')
thread=multi
if [ "${major:-0}" -lt 10 ]; then
	cpus=${cpus:-1}
	[ "$cpus" = 1 ] || thread=single
fi
cpus=${cpus:-2}

# ---- once for each kernel: an uncompressed kernel and an initramfs ----

# From a bzImage the ELF kernel, which QEMU starts directly: no unpacking in the guest.
extract()
{
	local setup_sectors offset length

	setup_sectors=$(od -An -tu1 -j 497 -N 1 "$image")
	setup_sectors=$((setup_sectors ? setup_sectors : 4))
	read -r offset length < <(od -An -tu4 -j 584 -N 8 "$image")
	payload()
	{
		tail -c +$(((setup_sectors + 1) * 512 + offset + 1)) "$image" | head -c $((length - 4))
	}
	case $(payload 2>/dev/null | head -c 4 | od -An -tx1 | tr -d ' ') in
	1f8b*) payload | gzip -dc ;;
	fd377a58) payload | xz -dc ;;
	28b52ffd) payload | zstd -dc ;;
	02214c18) payload | lz4 -dc ;;
	*) return 1 ;;
	esac
}

unpack_module()
{
	case $1 in
	*.xz) xz -dc "$1" ;;
	*.zst) zstd -dc "$1" ;;
	*.gz) gzip -dc "$1" ;;
	*) cat "$1" ;;
	esac
}

prepare()
{
	local work=$cache/tmp.$$ module name

	rm -rf "$cache"/tmp.* "$cache/ready"
	mkdir -p "$work"/ir/{bin,mod,proc,sys,dev,lower,upper,root} || return
	depmod -b "$base" "$version" 2>"$work/depmod.log" || return
	cp -- "$busybox" "$work/ir/bin/busybox" || return
	# The modules in the order of loading, each once, uncompressed.
	for module in virtio_pci virtio_console overlay virtiofs; do
		modprobe -d "$base" -S "$version" --show-depends $module 2>/dev/null
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$work/order"
	while read -r module; do
		name=$(basename "$module" | sed 's/\.ko.*/.ko/')
		unpack_module "$module" >"$work/ir/mod/$name" || return
		echo "$name"
	done <"$work/order" >"$work/ir/mod/order"
	write_initramfs_init >"$work/ir/init"
	chmod 755 "$work/ir/init"
	(cd "$work/ir" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz" || return
	extract >"$work/vmlinux" 2>/dev/null
	[ "$(head -c 4 "$work/vmlinux" | od -An -tx1 | tr -d ' ')" = 7f454c46 ] ||
		rm -f "$work/vmlinux"
	rm -rf "$work/ir"
	mv "$work"/* "$cache/" && rmdir "$work" && : >"$cache/ready"
}

write_initramfs_init()
{
	cat <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
quiet() { "$@" >/dev/null 2>&1; }
fail() { echo "boot: $*"; $b sync; $b reboot -f; $b sleep 60; }
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
while read -r m; do $b insmod /mod/$m || echo "boot: cannot load $m"; done </mod/order
share() { $b mount -t virtiofs -o $3 "$1" "$2"; }
share root /lower ro || fail "cannot mount the host's root"
$b mount -t tmpfs -o mode=755 tmpfs /upper
$b mkdir /upper/u /upper/w
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w overlay /root ||
	fail "cannot mount the overlay"
for d in boot-job dev proc sys run tmp var/tmp boot; do $b mkdir -p /root/$d; done
share job /root/boot-job ro || fail "cannot mount the job"
i=0
while read -r d; do
	$b mkdir -p "/root$d"
	share rw$i "/root$d" rw || fail "cannot mount $d"
	i=$((i + 1))
done </root/boot-job/shares
. /root/boot-job/vars
[ "$($b date +%s)" -ge "$now" ] || quiet $b date -s "@$now"
$b mkdir -p /dev/pts /dev/shm
$b ln -sf /proc/self/fd /dev/fd
for i in 0:stdin 1:stdout 2:stderr; do $b ln -sf /proc/self/fd/${i%:*} /dev/${i#*:}; done
quiet $b hostname guest
quiet $b mount -t devpts devpts /dev/pts
quiet $b mount -t tmpfs tmpfs /dev/shm
quiet $b mount -t cgroup2 cgroup2 /sys/fs/cgroup
quiet $b mount -t bpf bpf /sys/fs/bpf
quiet $b mount -t securityfs securityfs /sys/kernel/security
quiet $b mount -t debugfs debugfs /sys/kernel/debug
quiet $b mount -t tracefs tracefs /sys/kernel/tracing
quiet $b ip link set lo up
for d in dev proc sys; do $b mount --move /$d /root/$d; done
quiet $b mount -t tmpfs tmpfs /root/run
# The kernel's own modules and configuration, where tools look for them.
$b mkdir -p "/root/lib/modules/$version"
quiet $b mount --bind "/lower$modules" "/root/lib/modules/$version"
$b cp /root/boot-job/config "/root/boot/config-$version"
exec $b switch_root /root /boot-job/busybox sh /boot-job/init
INIT
}

cache=$kernel_dir/.boot
mkdir -p "$cache" || die "cannot write to $cache"
(
	flock 9
	if [ ! -e "$cache/ready" ] || [ "$0" -nt "$cache/ready" ]; then prepare; fi
) 9>"$cache/lock"
[ -e "$cache/ready" ] || die "cannot prepare $kernel_dir"
kernel=$cache/vmlinux
[ -e "$kernel" ] || kernel=$image

# ---- the job, which the guest reads ----

work=$(mktemp -d "${TMPDIR:-/tmp}/boot.XXXXXX") || die "no temporary directory"
# Only what this shell has started and what still runs.
cleanup()
{
	local pids

	pids=$(jobs -pr)
	# Words on purpose.
	# shellcheck disable=SC2086
	[ -n "$pids" ] && kill $pids 2>/dev/null && wait
	[ -z "$keep" ] || tr -d '\r' <"$work/console" >"$keep" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

job=$work/job
mkdir "$job"
printf '%s\n' "${shares[@]}" | sed '/^$/d' >"$job/shares"
{
	printf 'export PATH=%q HOME=%q TERM=dumb LANG=%q\n' "$PATH" "${HOME:-/root}" "${LANG:-C.UTF-8}"
	for var in "${envs[@]}"; do printf 'export %q\n' "$var"; done
	printf 'cd %q || exit 125\n' "$PWD"
	printf 'exec'
	printf ' %q' "$@"
	echo
} >"$job/command"
printf 'modules=%q version=%q now=%s\n' "$modules" "$version" "$(date +%s)" >"$job/vars"
cp -- "$config" "$job/config"
cp -- "$busybox" "$job/busybox"
cat >"$job/init" <<'INIT'
b=/boot-job/busybox
for p in /sys/class/virtio-ports/*; do
	read -r name <$p/name
	case $name in
	boot.out) out=/dev/${p##*/} ;;
	boot.err) err=/dev/${p##*/} ;;
	boot.status) status=/dev/${p##*/} ;;
	esac
done
exec 7>$status
# By way of pipes: a port can be opened only once, so /dev/stdout would not open.
$b mkfifo /run/boot.out /run/boot.err
$b cat /run/boot.out >$out 7>&- & o=$!
$b cat /run/boot.err >$err 7>&- & e=$!
/bin/bash /boot-job/command </dev/null >/run/boot.out 2>/run/boot.err 7>&-
rc=$?
# Something that COMMAND left running may hold a pipe open: that is waited for, 2 s at most.
i=0
while [ $i -lt 40 ] && { [ -d /proc/$o ] || [ -d /proc/$e ]; }; do
	case $($b cat /proc/$o/stat /proc/$e/stat 2>/dev/null) in *") Z "*") Z "*) break ;; esac
	$b usleep 50000
	i=$((i + 1))
done
echo "$rc" >&7
exec 7>&-
$b sync
echo 1 >/proc/sys/kernel/sysrq
echo b >/proc/sysrq-trigger
$b sleep 60
INIT

# ---- the machine ----

args=(
	-accel "tcg,thread=$thread" -cpu max -smp "$cpus" -m "$mem"
	-object "memory-backend-memfd,id=ram,size=$mem,share=on" -M "pc,memory-backend=ram"
	-nodefaults -no-user-config -display none -no-reboot
	-kernel "$kernel" -initrd "$cache/initramfs.gz" -device virtio-serial-pci
	-append "console=ttyS0 quiet panic=-1 reboot=t tsc=reliable no_timer_check"
	-chardev "file,id=console,path=$work/console" -serial "chardev:console"
)
for stream in out err status; do
	mkfifo "$work/$stream"
	args+=(-chardev "file,id=$stream,path=$work/$stream"
		-device "virtserialport,chardev=$stream,name=boot.$stream")
done
: >"$work/console"

# share TAG DIR ro|rw: a read-only view is a bind mount in a mount namespace of virtiofsd's own.
n=0
share()
{
	local source=$2 view=: cached=auto

	if [ "$3" = ro ]; then
		source=/mnt cached=always
		view="mount --rbind \"\$2\" /mnt && mount -o remount,bind,ro /mnt"
	fi
	unshare -m bash -c "$view"' && exec "$1" --socket-path="$3" -o source="$4" -o sandbox=chroot \
		-o cache="$5"' - "$virtiofsd" "$2" "$work/fs$n" "$source" "$cached" \
		>"$work/virtiofsd$n.log" 2>&1 &
	args+=(-chardev "socket,id=f$n,path=$work/fs$n"
		-device "vhost-user-fs-pci,chardev=f$n,tag=$1")
	n=$((n + 1))
}
share root / ro
share job "$job" ro
for i in "${!shares[@]}"; do share "rw$i" "${shares[i]}" rw; done
for ((i = 0; i < n; i++)); do
	for ((j = 0; j < 200; j++)); do
		[ -S "$work/fs$i" ] && break
		sleep 0.05
	done
	[ -S "$work/fs$i" ] || die "virtiofsd: $(tail -n 3 "$work/virtiofsd$i.log")"
done

# Each pipe is held open for writing until QEMU has ended, so that no cat can wait for ever.
exec 3<>"$work/out" 4<>"$work/err" 5<>"$work/status" 6<"$work/out" 7<"$work/err" 8<"$work/status"
cat <&6 3>&- 4>&- 5>&- 6<&- 7<&- 8<&- &
out=$!
cat <&7 >&2 3>&- 4>&- 5>&- 6<&- 7<&- 8<&- &
err=$!
cat <&8 >"$work/rc" 3>&- 4>&- 5>&- 6<&- 7<&- 8<&- &
rc=$!
exec 6<&- 7<&- 8<&-
timeout --signal=TERM --kill-after=5 "$limit" "$qemu" "${args[@]}" \
	</dev/null >"$work/qemu.log" 2>&1 3>&- 4>&- 5>&- &
wait $! 2>/dev/null
qemu_status=$?
exec 3>&- 4>&- 5>&-
wait $out $err $rc
read -r status <"$work/rc" && exit "$status"

status=125
if [ "$qemu_status" = 124 ] || [ "$qemu_status" = 137 ]; then
	status=124
	echo "boot: ran past $limit s; the guest's console ends:" >&2
else
	echo "boot: the guest gave no exit status (QEMU exited $qemu_status); its console ends:" >&2
fi
{
	tail -n 60 "$work/console" | tr -d '\r'
	cat "$work/qemu.log"
} >&2
exit $status
