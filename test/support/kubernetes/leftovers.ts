/** What a cluster leaves on the machine, and how it goes: the same whether the test ends in order or is killed. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findProgram } from '../require.ts';

const run = promisify(execFile);

/**
 * A script of /bin/sh for the cluster in folder $1, with ip(8) as $2: ends its programs and all that runs in its containers, and removes
 * bridge, mounts, control groups, logs and the folder. Its processes are those whose command lines name the folder.
 */
export const endOfCluster = `
end() { for pid in "$@"; do kill -KILL "$pid" 2>/dev/null; done; }
# Nothing may be started again; twice, for something may just be starting.
for once in 1 2; do
  end $(pgrep -f -- "(kubelet|kube-|dockerd|etcd).*$1/")
  for shim in $(pgrep -f -- "containerd-shim.*$1/"); do end $(pgrep -P "$shim"); done
  end $(pgrep -f -- "containerd.*$1/")
  sleep 0.1
done
if [ -f "$1/bridge" ]; then
  bridge=$(cat "$1/bridge")
  "$2" link del "$bridge" 2>/dev/null
  iptables -D FORWARD -i "$bridge" -o "$bridge" -j ACCEPT 2>/dev/null
fi
awk -v folder="$1/" 'index($2, folder) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r path; do
  umount -l "$path" 2>/dev/null
done
for id in $(ls "$1/d/containers" 2>/dev/null); do
  find /sys/fs/cgroup -depth -type d -name "$id" -exec rmdir {} + 2>/dev/null
done
for uid in $(ls "$1/kubelet/pods" 2>/dev/null); do rm -rf /var/log/pods/*_"$uid"; done
# Links into what is gone.
find /var/log/containers -xtype l -delete 2>/dev/null
for tries in 1 2 3 4 5; do rm -rf "$1" 2>/dev/null && break; sleep 0.2; done
`;

/** The arguments of the script. */
export function endArguments(folder: string): string[] {
  return [folder, findProgram('ip') ?? 'ip'];
}

/** Runs the script. */
export async function endCluster(folder: string): Promise<void> {
  await run('/bin/sh', ['-c', endOfCluster, 'end', ...endArguments(folder)]);
}
