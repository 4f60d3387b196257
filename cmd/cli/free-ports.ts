/** Tries the ports of a platform before anything is made for it. */
import { portProblem } from '../../transports/http/listen-error.ts';
import { CliError } from '../config/cli-error.ts';
import { NETWORK_HOST, type Ports } from '../config/config.ts';

/** A port that cannot be listened on: for which listener, and why, as the end of a sentence. */
interface TakenPort {
  readonly title: string;
  readonly host: string;
  readonly port: number;
  readonly why: string;
}

/** Listens on each port for a moment, on `host` (the networking API's on loopback). Port 0 is never taken. */
export async function takenPorts(host: string, ports: Ports): Promise<TakenPort[]> {
  const tried = TITLES.filter(([name]) => ports[name] !== 0).map(async ([name, title]) => {
    const at = { title, host: name === 'net' ? NETWORK_HOST : host, port: ports[name] };
    const why = await portProblem(at.host, at.port);
    return why === undefined ? [] : [{ ...at, why }];
  });
  return (await Promise.all(tried)).flat();
}

/** One line a port. */
export function wordsOf(taken: readonly TakenPort[]): string {
  return taken
    .map(({ title, host, port, why }) => `Cannot listen on ${host}:${port}: it is ${why} (${title}).`)
    .join('\n');
}

/** Throws CliError when there are such ports. */
export function refuseTaken(taken: readonly TakenPort[]): void {
  if (taken.length > 0)
    throw new CliError(
      `${wordsOf(taken)}\nStop what uses ${taken.length === 1 ? 'it' : 'them'}, or move all ports with ` +
        '--port-offset N.',
    );
}

const TITLES = [
  ['auth', 'the auth service'],
  ['compute', 'the compute service'],
  ['net', 'the domains service'],
  ['monitor', 'the monitor'],
  ['notify', 'the notification service'],
  ['http', "the gateway's HTTP"],
  ['https', "the gateway's HTTPS"],
  ['ssh', "the gateway's SSH"],
] as const satisfies (readonly [keyof Ports, string])[];
