#!/bin/busybox sh
# The first process of a guest. It changes its root to that of the host, read-only, with its own /dev,
# /proc, /sys, /run and /dev/shm. Then it runs the host's commands: for a line with a number on the second
# serial port, it runs /run/share/NUMBER.sh and answers with the number and the exit status.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
echo 3 >/proc/sys/kernel/printk
while read -r module; do insmod "/modules/$module" || echo "insmod $module failed"; done </modules/order
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose host /host
mount -t proc proc /host/proc
mount -t sysfs sysfs /host/sys
mount -t devtmpfs dev /host/dev
mkdir -p /host/dev/shm /host/dev/pts
mount -t tmpfs tmpfs /host/dev/shm
mount -t devpts devpts /host/dev/pts
mount -t tmpfs tmpfs /host/run
mkdir -p /host/run/share /host/run/tmp
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=none share /host/run/share
sed -n 's/.*guest_name=\([a-z0-9]*\).*/\1/p' /proc/cmdline >/proc/sys/kernel/hostname
ip link set lo up
stty -F /dev/ttyS1 raw -echo
ulimit -l unlimited
ulimit -c 0
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run/tmp HOME=/run/tmp
exec chroot /host /bin/sh -c '
  exec 3<>/dev/ttyS1
  echo ready >&3
  while read -r job <&3; do
    (
      setsid -w sh "/run/share/$job.sh" >"/run/share/$job.out" 2>&1 </dev/null 3>&-
      echo "$job $?" >&3
    ) &
  done'
