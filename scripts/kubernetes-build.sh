#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster, which the tests run themselves, from Debian's source package, and keeps them outside the
# repository: in KUBERNETES_BINARIES, else in kubernetes-1.20.2 below TROUPE_TEST_CACHE or ~/.cache/troupe. Once: some 15 minutes of processor
# time, eight minutes on two free processors, and 4 GB of temporary disk. Does nothing when they are there.
# Needs Debian 12 and golang-1.19-go make rsync jq dpkg-dev.
set -euo pipefail

version=1.20.2
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
target=${KUBERNETES_BINARIES:-${TROUPE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/troupe}/kubernetes-$version}

# Raised when what is built changes.
revision=2
complete=
[ "$(cat "$target/revision" 2>/dev/null)" = $revision ] && complete=yes
for program in "${programs[@]}"; do [ -x "$target/$program" ] || complete=; done
if [ -n "$complete" ]; then
  echo "Kubernetes $version is in $target"
  exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-kubernetes-XXXXXX")
trap 'chmod -R u+w "$work" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

echo "fetching the source of Kubernetes $version"
# A list of its own, so that the machine's is left as it is.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
  sed -n -E 's/^(deb|URIs:) +(\[[^]]*\] +)?(https?:[^ ]*\/debian)\/?( .*)?$/\3/p' | awk 'NR == 1' || true)
mkdir -p apt/lists/partial
[ -n "$mirror" ] || { echo "the apt of this machine names no Debian archive to take the source from" >&2; exit 1; }
echo "deb-src $mirror bookworm main" >apt/sources.list
options=(-o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/apt/lists" -o APT::Sandbox::User=root)
apt-get "${options[@]}" update -q
apt-get "${options[@]}" source -q kubernetes

source=$(find . -maxdepth 1 -type d -name 'kubernetes-*' | head -1)
mkdir -p gopath/src/k8s.io
ln -s "$work/${source#./}" gopath/src/k8s.io/kubernetes
export PATH=/usr/lib/go-1.19/bin:$PATH GOPATH=$work/gopath GOCACHE=$work/cache GO111MODULE=off
export KUBE_GIT_VERSION=v$version KUBE_GIT_TREE_STATE=archive KUBE_GIT_COMMIT=debian

cd gopath/src/k8s.io/kubernetes
# From Go 1.18 on the runtime begins a walk through a map with a third argument, which this version of reflect2 does not pass: whatever lies there is
# written to, and the API server crashes under load. As in reflect2 1.0.2.
reflect2=vendor/github.com/modern-go/reflect2
perl -0pi -e 's/m unsafe\.Pointer\) \*hiter/m unsafe.Pointer, it *hiter)/; s{\t// rest fields are ignored\n}{\tpointers [6]unsafe.Pointer\n\trest [4]uintptr\n}' $reflect2/unsafe_link.go
perl -0pi -e 's/\treturn &UnsafeMapIterator\{\n\t\thiter:      mapiterinit\(([^\n]*)\),\n/\tvar it hiter\n\tmapiterinit($1, &it)\n\treturn &UnsafeMapIterator{\n\t\thiter:      &it,\n/' $reflect2/unsafe_map.go
grep -q 'it \*hiter)' $reflect2/unsafe_link.go && grep -q 'rest \[4\]uintptr' $reflect2/unsafe_link.go && grep -q ', &it)' $reflect2/unsafe_map.go
make WHAT="${programs[*]/#/cmd/}"
mkdir -p "$target"
# Renamed into place: one that was cut short is not taken for whole.
for program in "${programs[@]}"; do
  cp "_output/local/bin/linux/$(go env GOARCH)/$program" "$target/.$program"
  mv "$target/.$program" "$target/$program"
done
echo $revision >"$target/revision"
echo "Kubernetes $version is in $target"
