import assert from 'node:assert/strict';
import {
  type ContainerSpec,
  type Engine,
  EngineError,
  type EngineErrorCode,
  type LogOptions,
  type LogStream,
  type RegistryAuth,
} from '../../../proto/ports/engine.ts';
import { eventually } from './eventually.ts';

/** A workload as it is, by its own process. */
export interface SeenWorkload {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The program and its arguments. */
  readonly words: readonly string[];
  /** Where it runs. */
  readonly folder: string;
}

/** An engine under test, and hands that change things behind its back. */
export interface EngineUnderTest {
  readonly engine: Engine;
  /** An image whose workload listens on port 22 and greets with `SSH-2.0-`, made present by `ensureImage`. */
  readonly image: string;
  /** An image its registry does not have, for an engine that asks the registry. */
  readonly missingImage?: string;
  /** Ends the container's workload with SIGKILL. */
  kill(id: string): Promise<void>;
  /** Removes the container without its data. */
  removeContainer(id: string): Promise<void>;
  /** Writes a file in a running container. */
  writeFile(id: string, path: string, text: string): Promise<void>;
  /** A file of the container, or undefined when there is none. */
  readFile(id: string, path: string): Promise<string | undefined>;
  /** The workload of a container that runs. */
  seen(id: string): Promise<SeenWorkload>;
  /** All that the engine says of a container to whoever may ask it. */
  description(id: string): Promise<string>;
  /** Commands are run by a shell, and not by what stands for one. */
  readonly runsScripts: boolean;
  /** Writes lines to an output of the workload, standard output unless another is named. */
  print(id: string, lines: readonly string[], stream?: LogStream): Promise<void>;
  /** Breaks the connections to the engine that stand now; new ones succeed. */
  cut(): Promise<void>;
  /** A second engine on the same world, as after a crash of the platform. Closed by the suite. */
  again(): Promise<Engine>;
  /** Images in a registry that asks who wants them (`parts.registry`). */
  readonly registry?: {
    /** An image whose workload is that of `EngineUnderTest.image`; not present at first. */
    readonly image: string;
    readonly auth: RegistryAuth;
    /** Gives the image's name another content. */
    publish(): Promise<void>;
  };
  /** Whether a connection from inside a container comes about (`parts.network`, `parts.privateNetworks`). `host`: an address, or an alias. */
  connects?(from: string, host: string, port: number): Promise<boolean>;
  /** Where holders of commands have their sockets, if that is no folder of the container (`parts.perl`). */
  readonly commandFolder?: string;
  /** Removes whatever is left and closes. */
  end(): Promise<void>;
}

/** Keys that may log in. */
export const keys: readonly string[] = [
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPrm1bHQbHgHnTUCkO7sVd5Y3uFKvhBKsDsV8zM+9t1 first',
  'ssh-ed25519 AAAA second',
];

/** Expects an EngineError of `code`. */
export async function rejectsWith(promise: Promise<unknown>, code: EngineErrorCode): Promise<void> {
  await assert.rejects(promise, (error: unknown) => {
    assert.ok(error instanceof EngineError, `not an EngineError: ${String(error)}`);
    assert.equal(error.code, code, error.message);
    return true;
  });
}

/** All lines of a log that ends, or the first `atLeast`. */
export async function collect(
  engine: Engine,
  id: string,
  options: Partial<Omit<LogOptions, 'signal'>> & { readonly enough?: (lines: string[]) => boolean },
): Promise<string[]> {
  const stop = new AbortController();
  const { enough, ...asked } = options;
  const lines: string[] = [];
  for await (const batch of engine.logs(id, { tail: 100, follow: false, ...asked, signal: stop.signal })) {
    lines.push(...batch);
    if (enough?.(lines)) stop.abort();
  }
  return lines;
}

/** The text of a log line without its stamp. */
export function textOfLine(line: string): string {
  return line.slice(line.indexOf(' ') + 1);
}

/** What the parts of the suite share. */
export class Suite {
  readonly under: EngineUnderTest;
  #count = 0;

  constructor(under: EngineUnderTest) {
    this.under = under;
  }

  get engine(): Engine {
    return this.under.engine;
  }

  /** A container that was not there before. */
  spec(change: Partial<ContainerSpec> = {}): ContainerSpec {
    this.#count += 1;
    return this.again({ id: `c${this.#count}`, ...change });
  }

  /** One that may be there. */
  again(change: Partial<ContainerSpec> & Pick<ContainerSpec, 'id'>): ContainerSpec {
    return {
      userId: 'u1',
      hostname: 'box.compute.example.com',
      image: this.under.image,
      cpus: 0.5,
      memoryMb: 128,
      storageGb: 1,
      mountPaths: ['/root'],
      authorizedKeys: keys,
      ...change,
    };
  }

  /** The id of a new container whose SSH port answers. */
  async started(change: Partial<ContainerSpec> = {}): Promise<string> {
    const spec = this.spec(change);
    await this.engine.create(spec);
    await this.engine.start(spec.id, spec.authorizedKeys);
    await this.answers(spec.id);
    return spec.id;
  }

  /** Waits until the SSH port of a container answers. */
  async answers(id: string): Promise<void> {
    await eventually(async () => (await this.engine.dial(id, 22, { timeoutMs: 5000 })).destroy());
  }
}
