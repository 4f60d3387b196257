#!/bin/sh
# troupe: releases of the app in this container. The next "troupe deploy" writes this file anew.
set -eu
export LC_ALL=C
umask 022
root=${TROUPE_APP_ROOT:-/root/app}
run=${TROUPE_RUN:-/run}
home=${TROUPE_HOME:-/root/.troupe}
start=$home/start
images=/usr/local/lib/troupe/start
mark='Written by troupe deploy'
keep=5

say() { echo "$*" >&2; }
# Ends with a code. What the present state does not allow (6) is the result of the step: it goes to standard output.
fail() {
  code=$1
  shift
  if [ "$code" = 6 ]; then echo "$*"; else say "$*"; fi
  exit "$code"
}

# A setting of a release.
about() { sed -n "s/^$2=//p" "$root/releases/$1/about" | head -n 1; }

begin() {
  [ -s "$run/troupe-init.pid" ] || fail 6 "This container cannot start its program again by itself: its image is not one of the platform's own, or of an older version. Deploy to a new container."
  for tool in flock curl ss sha256sum comm; do
    command -v "$tool" >/dev/null || fail 6 "The container has no $tool, which a deployment needs: deploy to one that runs an image of the platform."
  done
  [ "$(tr '\0' '\n' <"/proc/$(cat "$run/troupe-init.pid")/cmdline" | wc -l)" -le 2 ] ||
    fail 6 'The container has a command, which runs in the place of what is deployed. Take it away with troupe update NAME --no-command, or deploy to another container.'
  [ ! -e "$images" ] || fail 6 'The image of the container runs a program of its own: deploy to another container.'
  if [ -e "$start" ] && ! grep -q "$mark" "$start"; then
    fail 6 "The container has a program of its own, $start. Remove that file, or deploy to another container."
  fi
  mkdir -p "$root/releases"
  # What was begun and never finished.
  find "$root/releases" -mindepth 1 -maxdepth 1 -name 'new-*' -mmin +1440 -exec rm -rf {} +
  dir=$(mktemp -d "$root/releases/new-XXXXXXXX")
  chmod 755 "$dir"
  mkdir "$dir/app"
  echo "$dir"
}

fill() {
  cat >"$1/files"
  : >"$1/have"
  if [ -s "$root/current/files" ]; then
    # The app may have changed its own files: what they are now counts.
    comm -12 "$root/current/files" "$1/files" | cut -d ' ' -f 2- >"$1/same"
    if [ -s "$1/same" ]; then
      (cd "$root/current/app" && sha256sum --check "$1/same" 2>/dev/null) | sed -n 's/: OK$//p' | sort >"$1/have" || :
    fi
    # Copies, not links: an app that writes into its files must not change the release to go back to.
    (cd "$root/current/app" && xargs -r -d '\n' cp -p --parents --reflink=auto -t "$1/app" --) <"$1/have"
  fi
  # MODE, a space, 64 digits, two spaces.
  sed 's/^[0-7]* [0-9a-f]*  //' "$1/files" | sort | comm -23 - "$1/have"
  rm -f "$1/same" "$1/have"
}

# Takes files of the release: NAME BASE64 a line.
describe() {
  while read -r name data; do
    case $name in about | start | build | release) echo "$data" | base64 -d >"$1/$name" ;; esac
  done
}

killed() {
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ ! -r "$file" ] || sed -n 's/^oom_kill //p' "$file"
  done 2>/dev/null | head -n 1
}

# Gives this shell what the app will have.
as_app() {
  PORT=$(sed -n 's/^port=//p' "$1/about") PATH="$1/app/.venv/bin:$1/app/node_modules/.bin:$PATH" HOST=0.0.0.0
  export PORT PATH HOST
}

# What it is, its own words say: the command line reads them.
no_program() {
  say "A program that the $1 calls is not in the container."
}

build() {
  touch "$1"
  [ -s "$1/build" ] || return 0
  before=$(killed)
  cd "$1/app"
  # Of all that runs here, the build is ended first when memory is short, and waits for everything else.
  code=0
  (
    echo 1000 >/proc/self/oom_score_adj || :
    as_app "$1"
    exec nice -n 19 /bin/sh -e "$1/build" </dev/null
  ) >&2 || code=$?
  [ "$code" != 0 ] || return 0
  if [ "$(killed)" != "$before" ] || [ "$code" = 137 ]; then
    fail 11 "The build was ended because the container has no memory left for it. Give the container more: troupe update NAME --memory 1G."
  fi
  [ "$code" != 127 ] || no_program build
  fail 11 "The build failed with exit code $code."
}

# The app's own step before the switch, such as the changes of a database's tables: one at a time, beside the release that runs.
release() {
  touch "$1"
  [ -s "$1/release" ] || return 0
  lock
  cd "$1/app"
  code=0
  (
    # What it leaves running must not hold the lock.
    exec 9>&-
    as_app "$1"
    exec /bin/sh -e "$1/release" </dev/null
  ) >&2 || code=$?
  [ "$code" != 0 ] || return 0
  [ "$code" != 127 ] || no_program 'release command'
  fail 11 "The release command failed with exit code $code."
}

lock() {
  exec 9>"$root/.lock"
  flock -n 9 || fail 6 'Another release is being switched to in this container. Try again in a minute.'
}

lead() {
  ln -sfn "releases/$1" "$root/current.new"
  mv -Tf "$root/current.new" "$root/current"
}

current() { readlink "$root/current" 2>/dev/null | sed 's|^releases/||' || :; }

# How often the program was started since the container was.
starts() { awk '{ print $3 }' "$run/troupe-program" 2>/dev/null || :; }

# Starts the program again, and waits until that has happened.
again() {
  before=$(starts)
  kill -HUP "$(cat "$run/troupe-init.pid")"
  tries=0
  while [ "$(starts)" = "$before" ] && [ "$tries" -lt 200 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
}

# What a switch that was cut short had begun.
recover() {
  [ -e "$root/pending" ] || return 0
  old=$(cat "$root/pending")
  new=$(current)
  if [ -n "$old" ] && [ -d "$root/releases/$old" ]; then
    lead "$old"
    say "A change to release $new was cut short: release $old is the current one again."
  else
    rm -f "$root/current" "$start"
    say "A change to release $new was cut short, and there was none before it."
  fi
  rm -f "$root/pending"
}

write_start() {
  mkdir -p "$home"
  cat >"$start.new" <<END
#!/bin/sh
# $mark: runs the release that $root/current leads to.
cd $root || exit
[ ! -e pending ] || flock -n .lock /bin/sh $home/release.sh recover
cd current/app || exit
PATH="\$PWD/.venv/bin:\$PWD/node_modules/.bin:\$PATH" PORT=\$(sed -n "s/^port=//p" ../about) HOST=0.0.0.0
export PATH PORT HOST
exec /bin/sh ../start
END
  chmod 755 "$start.new"
  mv -f "$start.new" "$start"
}

address() { hostname -I | cut -d ' ' -f 1; }

# Looks once. Prints what was seen when it is not well.
look() {
  case $check in
  none) return 0 ;;
  tcp)
    timeout 2 bash -c "exec 3<>/dev/tcp/$(address)/$port" 2>/dev/null || { echo "nothing answers on port $port"; return 1; }
    ;;
  *)
    answer=$(curl -s -o /dev/null -m 5 -w '%{http_code}' -H "Host: $host" "http://$(address):$port$path" 2>/dev/null) || :
    case $answer in
    2?? | 3??) return 0 ;;
    000) echo "nothing answers on port $port" ;;
    *) echo "it answers $answer at $path" ;;
    esac
    return 1
    ;;
  esac
}

# Who listens inside, but for SSH: "node listens on 127.0.0.1:3000".
listeners() {
  ss -H -l -t -n -p 2>/dev/null | awk '{
    name = $6
    sub(/^users:\(\("/, "", name)
    sub(/".*/, "", name)
    if (name == "sshd" || name == "") next
    print name " listens on " $4
  }' | sort -u
}

# Waits until the release is well. Fails with a sentence.
well() {
  port=$(about "$1" port)
  check=$(about "$1" check)
  path=$(about "$1" path)
  host=$(about "$1" host)
  grace=$(about "$1" grace)
  began=$(starts)
  end=$(($(date +%s) + grace))
  while :; do
    seen=$(look) && return 0
    # It may have been started again between two looks.
    code=$(awk -v began="$began" '$1 == "ended" { print $2 } $1 == "running" && $3 != began { print $4 }' \
      "$run/troupe-program")
    if [ -n "$code" ] && [ "$code" != 0 ]; then
      say "The program ended with exit code $code."
      [ "$code" != 127 ] || say 'A program that it calls is not in the container.'
      return 1
    fi
    [ "$(date +%s)" -lt "$end" ] || break
    sleep 1
  done
  say "After $grace s $seen."
  [ "$code" != 0 ] || say 'The program has ended with exit code 0: it must stay in the foreground.'
  case $seen in
  nothing*)
    found=$(listeners)
    [ -z "$found" ] || say "$found"
    say "It must listen on 0.0.0.0:$port. The variable PORT has the port."
    # One that others reach: 127.0.0.1 would be of no use with its port either.
    other=$(echo "$found" | sed -n 's/.* listens on \(\*\|0\.0\.0\.0\|\[::\]\):\([0-9]*\)$/\2/p' | head -n 1)
    [ -z "$other" ] || say "If the app is what listens on $other, say so: troupe deploy --port $other, or port = $other in troupe.toml."
    ;;
  *) say "The check wants a status from 200 to 399. Name another path with --health, or with health in troupe.toml; tcp in its place wants a connection only." ;;
  esac
  return 1
}

# As lines of a log are stamped; $1: the fraction of a second where date does not know it.
stamp() {
  exact=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
  case $exact in
  *[0-9]Z) echo "$exact" ;;
  *) echo "$(date -u +%Y-%m-%dT%H:%M:%S).$1Z" ;;
  esac
}

# Prints from when to when the release was tried: what it said in the log is from then.
back() {
  trap '' HUP INT TERM
  tried="$since $(stamp 999999999)"
  if [ -n "$old" ]; then
    lead "$old"
    again
    rm -f "$root/pending"
    if well "$old"; then say "Release $old runs again."; else say "Release $old was started again, and is not well either."; fi
  else
    rm -f "$start" "$root/current" "$root/pending"
    again
  fi
  # One that has run before stays.
  [ "$isnew" = no ] || rm -rf "$root/releases/${1:?}"
  echo "$tried"
  exit 10
}

# Makes a release the current one, or goes back.
switch() {
  new=$1
  old=$(current)
  since=$(stamp 000000000)
  trap 'say Interrupted.; back "$new"' HUP INT TERM
  echo "$old" >"$root/pending.new"
  mv -f "$root/pending.new" "$root/pending"
  lead "$new"
  write_start
  say "Starting release $new."
  again
  well "$new" || back "$new"
  trap '' HUP INT TERM
  touch "$root/releases/$new"
  rm -f "$root/pending"
  prune
  echo "$new"
}

numbers() {
  for each in "$root"/releases/*; do echo "${each##*/}"; done | grep -E '^[0-9]+$' | sort -n || :
}

prune() {
  numbers | head -n -"$keep" | while read -r n; do
    [ "$n" = "$(current)" ] || rm -rf "$root/releases/${n:?}"
  done
}

activate() {
  lock
  recover
  isnew=yes
  n=$(($(numbers | tail -n 1) + 1))
  mv "$1" "$root/releases/$n"
  sync -f "$root"
  switch "$n"
}

rollback() {
  [ -d "$root/releases" ] || fail 6 'Nothing is deployed here.'
  lock
  recover
  isnew=no
  now=$(current)
  [ -n "$now" ] || fail 6 'Nothing is deployed here.'
  n=${1:-$(numbers | awk -v now="$now" '$1 < now' | tail -n 1)}
  [ -n "$n" ] || fail 6 "There is no release before $now."
  [ "$n" != "$now" ] || fail 6 "Release $n runs already."
  [ -d "$root/releases/$n" ] || fail 6 "There is no release $n: there are $(numbers | tr '\n' ' ')"
  switch "$n"
}

list() {
  for n in $(numbers); do
    mark=
    [ "$n" != "$(current)" ] || mark=current
    printf '%s\t%s\t%s\t%s\n' "$n" "$(stat -c %Y "$root/releases/$n/about")" "$mark" "$(about "$n" note)"
  done
}

verb=$1
shift
case $verb in
begin | fill | describe | build | release | activate | rollback | list | recover) "$verb" "$@" ;;
*) fail 2 "no such step: $verb" ;;
esac
