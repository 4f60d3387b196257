/** The SSH sessions in a container, and the keys that may open them. */

/** Where the images' sshd looks for the platform's keys (deploy/base-image). */
const AUTHORIZED_KEYS_PATH = '/etc/troupe/authorized_keys';

/** Keys as sshd reads them, one a line. */
export function keysText(authorizedKeys: readonly string[]): string {
  const lines = authorizedKeys.map((key) => key.replace(/[\r\n]+/g, ' ').trim()).filter((key) => key !== '');
  return lines.map((line) => `${line}\n`).join('');
}

/**
 * Run in the container by any POSIX shell: hangs up every SSH session whose key does not stand in the file, and every
 * login that is under way. What key a session came with stands in the file its processes know as SSH_USER_AUTH
 * (sshd_config(5), ExposeAuthInfo); a session that tells nothing is hung up too, unless it does within a second: one
 * that has just been let in has no process yet.
 */
export const endSessionsScript = `
# 0: its key stands in the file; 1: it does not; 2: it tells of none.
look() {
  told=2
  for child in $(grep -s '^PPid:' /proc/[0-9]*/status |
    sed -n "s|^/proc/\\([0-9]*\\)/status:PPid:[[:space:]]*$1\\$|\\1|p"); do
    file=$(tr '\\0' '\\n' <"/proc/$child/environ" 2>/dev/null | sed -n 's/^SSH_USER_AUTH=//p')
    [ -n "$file" ] || continue
    key=$(sed -n 's/^publickey //p' "$file" 2>/dev/null)
    [ -n "$key" ] || continue
    grep -qF -- "$key" ${AUTHORIZED_KEYS_PATH} && return 0
    told=1
  done
  return $told
}
check() {
  look "$1"
  case $? in
    0) return ;;
    2) sleep 1; look "$1" && return ;;
  esac
  kill "$1"
}
for folder in /proc/[0-9]*; do
  pid=\${folder#/proc/}
  case $(tr '\\0' ' ' <"$folder/cmdline" 2>/dev/null) in
    *'[listener]'* | *'[priv]'*) ;;
    'sshd: '*@* | 'sshd-session: '*@*) check "$pid" & ;;
    'sshd: '*'[net]'* | 'sshd: '*'[accepted]'* | 'sshd-session: '*'['*) kill "$pid" ;;
  esac
done 2>/dev/null
wait
exit 0`;
