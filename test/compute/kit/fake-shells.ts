/** Shells in this process: the test holds the far end of each. */
import type { Duplex } from 'node:stream';
import type { Shell, ShellEnd, Shells } from '../../../proto/ports.ts';
import { duplexPair } from '../../engine/memory-engine.ts';

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
}

export interface FakeShells extends Shells {
  readonly opened: FakeShell[];
  /** Holds openings back until the returned function is called. */
  hold(): () => void;
  /** The next opening is refused. */
  fail(error: Error): void;
  /** Openings whose asker gave up before they came about. */
  readonly givenUp: number;
}

export function fakeShells(): FakeShells {
  const opened: FakeShell[] = [];
  let gate: Promise<void> | undefined;
  let failure: Error | undefined;
  let givenUp = 0;
  return {
    opened,
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
    async open(containerId, asked, signal): Promise<Shell> {
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
      return open(containerId, asked);
    },
  };

  function open(containerId: string, asked: FakeShell['asked']): Shell {
    const [near, far] = duplexPair();
    const sizes: string[] = [];
    let typed = '';
    let isClosed = false;
    far.on('error', () => {});
    opened.push({
      containerId,
      asked,
      sizes,
      far,
      near,
      typed() {
        for (let chunk: unknown = far.read(); chunk !== null; chunk = far.read()) typed += String(chunk);
        return typed;
      },
      get isClosed() {
        return isClosed;
      },
    });
    const ended = new Promise<ShellEnd>((resolve) => {
      near.once('close', () => resolve({ code: null, signal: null }));
    });
    return {
      stream: near,
      resize: (cols, rows) => void sizes.push(`${cols}x${rows}`),
      close() {
        isClosed = true;
        near.destroy();
      },
      ended,
    };
  }
}
