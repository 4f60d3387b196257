/** Shells in this process: the test holds the far end of each. */
import type { Duplex } from 'node:stream';
import type { KeptShell, Shell, ShellEnd, ShellKeeping, Shells } from '../../../proto/ports/shell.ts';
import { duplexPair } from './memory-engine.ts';

/** A shell that was opened, as the container sees it. */
export interface FakeShell {
  readonly containerId: string;
  readonly asked: { readonly cols: number; readonly rows: number; readonly term: string };
  /** Sizes set afterwards, as `cols x rows`. */
  readonly sizes: string[];
  /** The shell's own end: what is typed comes out, what is written is printed. */
  readonly far: Duplex;
  /** The platform's end. */
  readonly near: Duplex;
  /** What was typed so far. */
  typed(): string;
  readonly isClosed: boolean;
  /** How it was asked to be kept. */
  readonly keeping: ShellKeeping | undefined;
  /** What was said to its keeper, where it is kept: `look 30000`, `wait`, `seen 5`, `leave`. */
  readonly said: string[];
  /** What is known of its end, once it has ended. */
  endsWith(end: ShellEnd): void;
  /** Another connection takes it over. */
  take(): void;
}

export interface FakeShells extends Shells {
  readonly opened: FakeShell[];
  /** Holds openings back until the returned function is called. */
  hold(): () => void;
  /** The next opening is refused. */
  fail(error: Error): void;
  /** From now on shells that are asked to be kept are. */
  keeps: boolean;
  /** Openings whose asker gave up before they came about. */
  readonly givenUp: number;
}

export function fakeShells(): FakeShells {
  const opened: FakeShell[] = [];
  let gate: Promise<void> | undefined;
  let failure: Error | undefined;
  let givenUp = 0;
  let keeps = false;
  return {
    opened,
    get keeps() {
      return keeps;
    },
    set keeps(value) {
      keeps = value;
    },
    get givenUp() {
      return givenUp;
    },
    hold() {
      let release: () => void = () => {};
      gate = new Promise((resolve) => {
        release = resolve;
      });
      return () => {
        gate = undefined;
        release();
      };
    },
    fail(error) {
      failure = error;
    },
    async open(containerId, asked, signal, keeping): Promise<Shell> {
      const heldBack = new Promise<never>((_resolve, reject) => {
        signal.addEventListener(
          'abort',
          () => {
            givenUp++;
            reject(signal.reason);
          },
          { once: true },
        );
      });
      heldBack.catch(() => {});
      await (gate === undefined ? undefined : Promise.race([gate, heldBack]));
      if (failure !== undefined) {
        const error = failure;
        failure = undefined;
        throw error;
      }
      return open(containerId, asked, keeping);
    },
  };

  function open(containerId: string, asked: FakeShell['asked'], keeping: ShellKeeping | undefined): Shell {
    const [near, far] = duplexPair();
    const sizes: string[] = [];
    const said: string[] = [];
    let isTaken = false;
    let typed = '';
    let isClosed = false;
    let end: ShellEnd = { code: null, signal: null };
    far.on('error', () => {});
    opened.push({
      containerId,
      asked,
      sizes,
      far,
      near,
      keeping,
      said,
      endsWith(how) {
        end = how;
      },
      take() {
        isTaken = true;
        near.destroy();
      },
      typed() {
        for (let chunk: unknown = far.read(); chunk !== null; chunk = far.read()) typed += String(chunk);
        return typed;
      },
      get isClosed() {
        return isClosed;
      },
    });
    const ended = new Promise<ShellEnd>((resolve) => {
      near.once('close', () => resolve(end));
    });
    const kept: KeptShell = {
      look({ lingerMs, lifeMs }) {
        while (near.readableLength > 0 && near.read() !== null);
        said.push(`look ${lingerMs} ${lifeMs}`);
      },
      wait: () => void said.push('wait'),
      seen: (bytes) => void said.push(`seen ${bytes}`),
      leave() {
        said.push('leave');
        near.destroy();
      },
      get isTaken() {
        return isTaken;
      },
    };
    return {
      stream: near,
      resize: (cols, rows) => void sizes.push(`${cols}x${rows}`),
      close() {
        isClosed = true;
        near.destroy();
      },
      ended,
      ...(keeps && keeping !== undefined ? { kept } : {}),
    };
  }
}
