# A fresh Debian machine for a test, in namespaces that end with this shell. Its environment says how it is, see machine.ts.
# Says "ready", then waits for its input to end.
set -eu
mount --make-rprivate /
mount -t proc proc /proc
ip link set lo up
echo namespaces
read -r _
ip addr add "$ITS/30" dev eth0
ip link set eth0 up
ip route add default via "$OURS"
root=$FOLDER/root
mkdir -p "$FOLDER/upper" "$FOLDER/work" "$root"
mount -t overlay overlay -o "lowerdir=$SYSTEM,upperdir=$FOLDER/upper,workdir=$FOLDER/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir "$root/run/lock"
# Docker's layers cannot lie on layers.
for data in var/lib/docker var/lib/troupe; do
  mkdir -p "$FOLDER/$data" "$root/$data"
  mount --bind "$FOLDER/$data" "$root/$data"
done
home=$root$HOME_THERE
if [ "$PERSON" != 0 ]; then
  chroot "$root" groupadd --gid "$DOCKER_GROUP" docker
  chroot "$root" useradd --create-home --home-dir "$HOME_THERE" --uid "$PERSON" --user-group --groups docker person
fi
# What the machine has besides Debian: perhaps Node with npm, and how it reaches registries.
if [ -n "$NODE" ]; then
  mkdir -p "$root/usr/lib/node_modules"
  cp "$NODE" "$root/usr/bin/node"
  cp -a "$NPM" "$root/usr/lib/node_modules/npm"
  for program in npm npx; do ln -sf "../lib/node_modules/npm/bin/$program-cli.js" "$root/usr/bin/$program"; done
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
bundle=/etc/ssl/certs/ca-certificates.crt
[ ! -f $bundle ] || cp -L --remove-destination $bundle "$root$bundle"
[ ! -f "$HOME/.npmrc" ] || cp "$HOME/.npmrc" "$home/.npmrc"
echo "prefer-offline=true" >>"$home/.npmrc"
# What was fetched before need not be fetched again.
mkdir -p "$NPM_CACHE" "$home/.npm" "$ARCHIVES/partial"
mount --bind "$NPM_CACHE" "$home/.npm"
mount --bind "$ARCHIVES" "$root/var/cache/apt/archives"
rm -f "$root/etc/apt/apt.conf.d/docker-clean"
mkdir "$home/troupe"
tar -C "$CLONE" --exclude=./node_modules --exclude=./dist --exclude=./coverage --exclude=./.git -cf - . | tar -C "$home/troupe" -xf -
[ "$PERSON" = 0 ] || chown -R "$PERSON:$PERSON" "$home/troupe" "$home/.npmrc" "$NPM_CACHE"
# Its Docker Engine: the machine's program, on a network and with processes that nobody else has.
if [ -n "$DOCKER" ]; then
  mkdir -p "$DOCKER/data" "$FOLDER/exec"
  unshare --mount dockerd --data-root "$DOCKER/data" --exec-root "$FOLDER/exec" --pidfile "$FOLDER/dockerd.pid" \
    --group "$DOCKER_GROUP" --host "unix://$root/run/docker.sock" >"$FOLDER/dockerd.log" 2>&1 &
  for _ in $(seq 600); do
    [ ! -S "$root/run/docker.sock" ] || break
    sleep 0.1
  done
fi
# The root of its mounts, not a chroot: in one nobody may make a namespace of users, which mmdebstrap takes.
mkdir "$root/old"
cd "$root"
pivot_root . old
umount --lazy /old
rmdir /old
echo ready
cat >/dev/null
