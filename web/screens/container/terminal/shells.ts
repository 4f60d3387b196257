/**
 * The shells of this tab, by container. They go on while other screens are shown, and are joined again after a reload:
 * the tab remembers their sessions.
 */
import { effect, type Signal, signal, untracked } from '@preact/signals';
import type { Terminal, TroupeError } from '../../../../client/index.ts';
import { loadFile } from '../../../core/chunk.ts';
import { rememberedHere, rememberHere } from '../../../core/memory.ts';
import { asTroupeError, client, noteRefusal } from '../../../core/platform.ts';
import { session } from '../../../core/session.ts';
import type { Emulator } from './emulator.ts';
import { whenLeft } from './pop-out.ts';

/** How a shell is. */
export type ShellState =
  | { readonly state: 'connecting' | 'live' | 'lost' | 'ended' | 'taken' }
  | { readonly state: 'failed'; readonly error: TroupeError };

/** The id of the element that says how a terminal is left. */
export const WAY_OUT = 'terminal-way-out';

const SESSION = /^[\w-]{16,64}$/;
const all = new Map<string, Signal<readonly OpenShell[]>>();

/** Those of a container. The first time, those that this tab had before it was loaded again. */
export function shellsOf(id: string): Signal<readonly OpenShell[]> {
  const known = all.get(id);
  if (known !== undefined) return known;
  const list = signal<readonly OpenShell[]>([]);
  all.set(id, list);
  const kept = (rememberedHere(`shells.${id}`) ?? '').split(' ').filter((one) => SESSION.test(one));
  list.value = kept.map((one, at) => new OpenShell(id, at + 1, one));
  return list;
}

/** A shell that is no tab's: of a window of its own. `session` is one that was named before, or a new one. */
export function shellAlone(id: string, session: string, n: number): OpenShell {
  return new OpenShell(id, n, SESSION.test(session) ? session : crypto.randomUUID());
}

// Its window has closed: it comes back to where it was.
whenLeft((session) => {
  const shell = [...all.values()].flatMap(({ value }) => value).find((one) => one.session === session);
  if (shell?.state.value.state === 'taken') shell.rejoin();
});

export function openShell(id: string): OpenShell {
  const list = shellsOf(id);
  const n = Math.max(0, ...list.value.map((one) => one.n)) + 1;
  const shell = new OpenShell(id, n, crypto.randomUUID());
  list.value = [...list.value, shell];
  keep(id);
  return shell;
}

/** Ends a shell, and forgets it. */
export function endShell(id: string, shell: OpenShell): void {
  const list = shellsOf(id);
  shell.close();
  list.value = list.value.filter((one) => one !== shell);
  keep(id);
}

function keep(id: string): void {
  const sessions = shellsOf(id).value.map((one) => one.session);
  rememberHere(`shells.${id}`, sessions.length === 0 ? undefined : sessions.join(' '));
}

/** Whose they are. */
let userId: string | undefined;

effect(() => {
  const now = session.value;
  if (now.state === 'unknown') return;
  untracked(() => {
    const person = now.state === 'none' ? undefined : now.person.userId;
    // Whoever logs in next has nothing to do with them.
    const isOther = userId !== undefined && userId !== person;
    userId = person;
    for (const [id, list] of all)
      for (const shell of list.value) {
        if (isOther || person === undefined) endShell(id, shell);
        else if (now.state === 'active') shell.loggedIn();
      }
  });
});

/** A shell and its screen. */
export class OpenShell {
  /** Counts from 1 within its container. */
  readonly n: number;
  readonly session: string;
  readonly state = signal<ShellState>({ state: 'connecting' });
  /** Its screen, once it is loaded. */
  readonly emulator = signal<Emulator | undefined>(undefined);
  readonly #id: string;
  #terminal: Terminal | undefined;
  #isClosed = false;

  constructor(id: string, n: number, name: string) {
    this.#id = id;
    this.n = n;
    this.session = name;
    void this.#load();
  }

  write(data: string): void {
    this.#terminal?.write(data);
  }

  /** Joins it again after another window took it. */
  rejoin(): void {
    this.emulator.value?.reset();
    this.#join();
  }

  /** There is a session: begins anew if the shell ended with the one before. */
  loggedIn(): void {
    const { value } = this.state;
    if (value.state === 'failed' && value.error.code === 'unauthorized') this.rejoin();
  }

  /** Ends it. */
  close(): void {
    this.#isClosed = true;
    this.#terminal?.close();
    this.emulator.value?.close();
  }

  async #load(): Promise<void> {
    try {
      const { openEmulator } = await loadFile('terminal', () => import('./emulator.ts'));
      const emulator = await openEmulator({
        onType: (data) => this.#terminal?.write(data),
        onSize: (size) => this.#terminal?.resize(size),
        describedBy: WAY_OUT,
      });
      if (this.#isClosed) return emulator.close();
      this.emulator.value = emulator;
      this.#join();
    } catch (error) {
      this.state.value = { state: 'failed', error: asTroupeError(error) };
    }
  }

  #join(): void {
    const emulator = this.emulator.value;
    if (emulator === undefined) return;
    this.state.value = { state: 'connecting' };
    const terminal = client.follow.terminal({
      id: this.#id,
      session: this.session,
      onOutput: (bytes) => emulator.write(bytes),
      onReturn: () => emulator.reset(),
      onState: ({ state }) => {
        if (state === 'open') this.state.value = { state: 'live' };
        else if (state === 'waiting') this.state.value = { state: 'lost' };
      },
    });
    this.#terminal = terminal;
    emulator.fit();
    void terminal.done.then(({ how, error }) => {
      if (this.#isClosed || this.#terminal !== terminal) return;
      noteRefusal(error);
      if (how === 'taken') this.state.value = { state: 'taken' };
      else if (error !== undefined) this.state.value = { state: 'failed', error };
      else this.state.value = { state: 'ended' };
    });
  }
}
