/**
 * What single containers may reach, as rules of the machine's firewall. A container with rules has a chain of its own,
 * which a dispatch chain leads to by its bridge. A container of which nothing is said has none.
 */
import { createHash } from 'node:crypto';

/**
 * The dispatch chains: to containers that reach nothing, and to those that have a list, and names. Versions of the
 * platform that know nothing of them take chains for theirs that begin with `TROUPE-`.
 */
const CLOSED = 'TRP-CLOSED';
const LISTED = 'TRP-LISTED';
const OWN_PREFIX = 'TRP-E-';

/** What the scripts say first of how many containers have rules. */
const COUNT_PREFIX = 'egress';
/** Exit code of a script that would close a container while names still lead out of it. */
export const NAMES_LEAK = 3;

const REJECT = 'REJECT --reject-with icmp-admin-prohibited';

/**
 * Leads to the dispatch chains, for what passes `$onwards` from bridges that are `ours`. Those with a list ask the
 * machine's name servers, `$servers`, themselves.
 */
export function dispatchScript(ours: string): string {
  return `for to in ${CLOSED} ${LISTED}; do
  ipt -N "$to" 2>/dev/null || true
  ipt -C "$onwards" ${ours} -j "$to" 2>/dev/null || ipt -I "$onwards" ${ours} -j "$to"
  [ "$onwards" = FORWARD ] || while ipt -D FORWARD ${ours} -j "$to" 2>/dev/null; do :; done
done
names=$(for server in $servers; do
  for by in udp tcp; do echo "-A ${LISTED} -d $server/32 -p $by -m $by --dport 53 -j RETURN"; done
done)
listed=$(ipt -S ${LISTED} | grep '^-A' || true)
if [ "$(echo "$listed" | grep -- ' -j RETURN$' || true)" != "$names" ]; then
  jumps=$(echo "$listed" | grep -v -- ' -j RETURN$' || true)
  { echo '*filter'; echo ':${LISTED} - [0:0]'; echo "$names"; echo "$jumps"; echo COMMIT; } |
    iptables-restore -w 10 --noflush
fi`;
}

/** Removes the rules of bridges that are gone. */
export const sweepScript = String.raw`if [ -e /sys/class/net/lo ]; then
  for from in ${CLOSED} ${LISTED}; do
    ipt -S "$from" | sed -n 's/^-A [A-Z-]* -i \([^ ]*\) -j \(${OWN_PREFIX}[0-9a-f]*\)$/\1 \2/p' |
    while read -r bridge own; do
      [ -e "/sys/class/net/$bridge" ] && continue
      { ipt -D "$from" -i "$bridge" -j "$own" && ipt -F "$own" && ipt -X "$own"; } 2>/dev/null || true
    done
  done
fi`;

/** Says how many containers have rules: the last thing that a script says. */
export const countScript = `count=$({ ipt -S ${CLOSED}; ipt -S ${LISTED}; } | grep -c -- '-j ${OWN_PREFIX}') || true
echo "${COUNT_PREFIX} $count"`;

/** As `countScript`; fails when nothing leads to the rules any more. One call of iptables(8), as it is often run. */
export function glanceScript(ours: string): string {
  return `all=$(iptables -w 10 -S)
case "$all" in
  *'-A FORWARD ${ours} -j ${CLOSED}'*) ;;
  *'-A FORWARD -j DOCKER-USER'*) case "$all" in *'-A DOCKER-USER ${ours} -j ${CLOSED}'*) ;; *) exit 1 ;; esac ;;
  *) exit 1 ;;
esac
count=$(echo "$all" | grep -c '^-A TRP-[A-Z]* .* -j ${OWN_PREFIX}') || true
echo "${COUNT_PREFIX} $count"`;
}

/** The number that `countScript` said. */
export function countIn(said: string): number | undefined {
  const digits = new RegExp(`^${COUNT_PREFIX} (\\d+)$`).exec(said.trim())?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** The chain of the container whose network Docker calls by this name. */
function chainOf(network: string): string {
  return `${OWN_PREFIX}${createHash('sha256').update(network).digest('hex').slice(0, 12)}`;
}

/**
 * Ends the script where Docker asks the machine's own name server (at a loopback address) in a container's place, from
 * outside of its network: no rule about its bridge stops that.
 */
const mustNotLeak = String.raw`servers_in() {
  sed -n 's/^[[:space:]]*nameserver[[:space:]]*//p' "$1" 2>/dev/null || true
}
own=$(servers_in /etc/resolv.conf)
if [ "$own" = 127.0.0.53 ]; then own=$(servers_in /run/systemd/resolve/resolv.conf); fi
if tr -d '[:space:]' </etc/docker/daemon.json 2>/dev/null | grep -q '"dns":\["'; then own=; fi
if echo "$own" | grep -q '^\(127\.\|::1\)'; then exit ${NAMES_LEAK}; fi`;

/** The rules of a container's own chain. What it does not end goes on to those of all containers. */
function ownRules(egress: readonly string[] | undefined): readonly string[] {
  if (egress === undefined) return ['-j RETURN'];
  return [
    // Answers to what others began, and no more of what it began itself before.
    '-m conntrack --ctstate RELATED,ESTABLISHED --ctdir REPLY -j RETURN',
    ...egress.map((network) => `-d ${network} -j RETURN`),
    `-j ${REJECT}`,
  ];
}

/**
 * Sets the rules of one container, all at once, behind a script that made the dispatch chains. Undefined `egress`:
 * where it has a chain, that closes nothing any more. With `isKept`, rules that are there stay as they are, and a
 * bridge that is gone gets none.
 */
export function egressScript(
  network: string,
  bridge: string,
  egress: readonly string[] | undefined,
  { isKept = false }: { readonly isKept?: boolean } = {},
): string {
  const own = chainOf(network);
  const isClosed = egress?.length === 0;
  const [present, gone] = ['[ -n "$leading" ]', `[ ! -e /sys/class/net/${bridge} ]`];
  const isDone = egress === undefined ? '[ -z "$leading" ]' : isKept ? `${present} || ${gone}` : 'false';
  const lines = ownRules(egress).map((rule) => `-A ${own} ${rule}`);
  return `${isClosed ? mustNotLeak : ''}
leading=$(for from in ${CLOSED} ${LISTED}; do ipt -S "$from" | grep -- ' -j ${own}$' || true; done)
wanted="-A ${isClosed ? CLOSED : LISTED} -i ${bridge} -j ${own}"
if ${isDone}; then ${countScript}; exit 0; fi
change() {
  echo '*filter'
  echo ':${own} - [0:0]'
  echo "$leading" | while read -r rule; do
    [ -z "$rule" ] || [ "$rule" = "$wanted" ] || echo "$rule" | sed 's/^-A/-D/'
  done
${lines.map((line) => `  echo '${line}'`).join('\n')}
  if ! echo "$leading" | grep -qxF -- "$wanted"; then echo "$wanted"; fi
  echo COMMIT
}
change | iptables-restore -w 10 --noflush 2>/dev/null ||
  change | sed 's/-j ${REJECT}$/-j DROP/' | iptables-restore -w 10 --noflush
${countScript}`;
}

/** Takes the rules of a container away, also where there are none. */
export function releaseScript(network: string): string {
  const own = chainOf(network);
  return String.raw`ipt() { iptables -w 10 "$@"; }
for from in ${CLOSED} ${LISTED}; do
  { ipt -S "$from" 2>/dev/null || true; } | sed -n 's/^-A \(.* -j ${own}\)$/\1/p' |
    while read -r rule; do ipt -D $rule; done
done
{ ipt -F ${own} && ipt -X ${own}; } 2>/dev/null || true`;
}
