/** Terminals whose shells count all the time, through every gateway: they come back when a process ends under them, and nothing may be missing. */
import { type ReturningTerminal, returningTerminal } from '../../clients/returning-terminal.ts';
import type { WholePlatform } from './platform.ts';

/** Numbers that each shell prints from when this is asked for until it counts as going on. */
const ADVANCE_BY = 20;

export interface Terminals {
  /** Resolves once all have gone on counting since; with what is wrong by then. */
  check(): Promise<string[]>;
  /** Closes them for good. */
  stop(): Promise<void>;
  /** Numbers that were printed and seen. */
  readonly numbers: number;
  /** How often they came back. */
  readonly returns: number;
}

/** Opens one through each gateway, to the same container; they end with the platform. */
export async function openTerminals(platform: WholePlatform, containerId: string, token: string): Promise<Terminals> {
  const { ground, gateways } = platform;
  const all: ReturningTerminal[] = [];
  const stop = async () => {
    for (let one = all.pop(); one !== undefined; one = all.pop()) await one.stop();
  };
  ground.after(stop);
  for (const [n, gateway] of gateways.entries()) {
    const path = `/compute/containers/${containerId}/terminal?session=of-the-rolling-trial-${n}&token=${token}`;
    let isFirst = true;
    const connect = () => {
      // First there, afterwards wherever one is let in.
      const socket = platform.connect(path, isFirst ? gateway : undefined);
      isFirst = false;
      return socket;
    };
    all.push(await returningTerminal(connect));
  }
  const counted = [...all];
  return {
    stop,
    check: async () => {
      const late = await Promise.allSettled(counted.map((one) => one.advance(ADVANCE_BY)));
      return [
        ...counted.flatMap(({ problems }) => problems),
        ...late.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : [])),
      ].map((problem) => `terminals: ${problem}`);
    },
    get numbers() {
      return counted.reduce((sum, { last }) => sum + last, 0);
    },
    get returns() {
      return counted.reduce((sum, { connections }) => sum + connections - 1, 0);
    },
  };
}
