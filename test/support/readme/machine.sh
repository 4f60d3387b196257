# A fresh Debian machine for a test, in namespaces that end with this shell: $1 its folder, $2 the cached system, $3 the folder of its
# Docker Engine, $4 the clone, $5 what its network is named, $6 and $7 its addresses (ours, its). Says "ready", then waits for its input to end.
set -eu
folder=$1 system=$2 docker=$3 clone=$4 name=$5 ours=$6 its=$7
mount --make-rprivate /
mount -t proc proc /proc
ip link set lo up
echo namespaces
read -r _
ip addr add "$its/30" dev eth0
ip link set eth0 up
ip route add default via "$ours"
root=$folder/root
mkdir -p "$folder/upper" "$folder/work" "$root"
mount -t overlay overlay -o "lowerdir=$system,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/run/lock" "$root/root/troupe" "$root/usr/lib/node_modules"
# What the machine has besides Debian: Node with npm, and how it reaches registries.
cp "$(command -v node)" "$root/usr/bin/node"
cp -a "$(dirname "$(dirname "$(realpath "$(command -v npm)")")")" "$root/usr/lib/node_modules/npm"
for program in npm npx; do ln -sf "../lib/node_modules/npm/bin/$program-cli.js" "$root/usr/bin/$program"; done
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
bundle=/etc/ssl/certs/ca-certificates.crt
[ ! -f $bundle ] || cp -L --remove-destination $bundle "$root$bundle"
[ ! -f "$HOME/.npmrc" ] || cp "$HOME/.npmrc" "$root/root/.npmrc"
echo "prefer-offline=true" >>"$root/root/.npmrc"
# What was fetched before need not be fetched again.
mkdir -p "$HOME/.npm" "$root/root/.npm" "$docker/archives/partial"
mount --bind "$HOME/.npm" "$root/root/.npm"
mount --bind "$docker/archives" "$root/var/cache/apt/archives"
rm -f "$root/etc/apt/apt.conf.d/docker-clean"
tar -C "$clone" --exclude=./node_modules --exclude=./dist --exclude=./coverage --exclude=./.git -cf - . | tar -C "$root/root/troupe" -xf -
# Its Docker Engine: the machine's program, on a network and with processes that nobody else has.
mkdir -p "$docker/data" "$folder/exec"
dockerd --data-root "$docker/data" --exec-root "$folder/exec" --pidfile "$folder/dockerd.pid" --host "unix://$root/run/docker.sock" \
  >"$folder/dockerd.log" 2>&1 &
for _ in $(seq 600); do
  [ ! -S "$root/run/docker.sock" ] || break
  sleep 0.1
done
echo ready
cat >/dev/null
