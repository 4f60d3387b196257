/** The menu of those who log in by SSH without a command: their containers, and what a key does with them. */
import type { Container } from '../../../client/index.ts';
import { clean } from '../clean.ts';
import { ClientFailure, failureOf } from '../failure.ts';
import { showLogs } from '../logs.ts';

import { runContainer } from '../run.ts';
import { type ClientSession, openSession } from '../session.ts';
import { openShell } from '../shell.ts';
import { type MenuKey, MenuKeys } from './menu-keys.ts';
import { drawMenu } from './menu-screen.ts';
import type { AccountPlace } from './place.ts';

/** Without a key for so long it ends, ms. */
const IDLE_MS = 3_600_000;
const ENTER_SCREEN = '\x1b[?1049h\x1b[?25l';
const LEAVE_SCREEN = '\x1b[0m\x1b[?25h\x1b[?1049l';
/** Where text goes on below whatever stands on the screen of before: a shell may have left the cursor anywhere. */
const BELOW = '\x1b[999;1H\r\n';
const START_SECONDS = 300;
const LOG_LINES = 100;

/** Calls `work` after so many ms, until what comes back is called. */
export type MenuTimer = (ms: number, work: () => void) => () => void;

/** Shows it until it is left. */
export async function showMenu(place: AccountPlace, after: MenuTimer): Promise<void> {
  await new Menu(openSession({ place }), place, after).show();
  place.exitWith(0);
}

class Menu {
  readonly #session: ClientSession;
  readonly #place: AccountPlace;
  readonly #keys = new MenuKeys();
  readonly #queue: MenuKey[] = [];
  #containers: readonly Container[] | undefined;
  /** The id of the chosen container. */
  #chosen = '';
  #message = '';
  #isShown = false;
  /** Something was shown on the screen of before. */
  #wasAside = false;
  #wake: () => void = () => {};
  #isOver = false;
  readonly #after: MenuTimer;
  #stopIdle: () => void = () => {};

  constructor(session: ClientSession, place: AccountPlace, after: MenuTimer) {
    this.#after = after;
    this.#session = session;
    this.#place = place;
  }

  async show(): Promise<void> {
    const { stdin, stdout } = this.#place;
    const following = this.#session.client.follow.containers({
      onChange: (containers) => {
        this.#containers = containers;
        this.#draw();
      },
      onState: (state) => {
        if (state.state === 'waiting') this.#say('The connection is lost; trying again ...');
        else if (state.state === 'open' && state.again) this.#say('');
      },
    });
    // A list that is refused says why.
    void following.done.then(({ error }) => {
      if (error !== undefined) this.#say(error.message);
    });
    const onResize = () => this.#draw();
    const onData = (data: Uint8Array) => {
      this.#queue.push(...this.#keys.take(data));
      this.#wake();
    };
    const onEnd = () => this.#leave();
    stdout.on('resize', onResize);
    stdin.on('end', onEnd);
    // What is done aside hears of it by itself, once it listens.
    const release = this.#place.onInterrupt(() => {
      if (this.#isShown) this.#leave();
      else this.#place.keepInterrupt();
    });
    this.#enter(onData);
    try {
      while (!this.#isOver) {
        const key = await this.#nextKey();
        if (key === undefined) break;
        await this.#act(key, onData);
      }
    } finally {
      this.#stopIdle();
      following.close();
      release();
      stdout.off('resize', onResize);
      stdin.off('end', onEnd);
      this.#exit(onData);
    }
  }

  #leave(): void {
    this.#isOver = true;
    this.#wake();
  }

  async #nextKey(): Promise<MenuKey | undefined> {
    this.#stopIdle();
    this.#stopIdle = this.#after(IDLE_MS, () => this.#leave());
    while (!this.#isOver && this.#queue.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#isOver ? undefined : this.#queue.shift();
  }

  /** Takes the screen and the keys. */
  #enter(onData: (data: Uint8Array) => void): void {
    const { stdin, stdout } = this.#place;
    stdin.setRawMode?.(true);
    stdin.on('data', onData);
    stdin.resume();
    stdout.write(ENTER_SCREEN);
    this.#isShown = true;
    this.#draw();
  }

  /** Gives them back as they were. */
  #exit(onData: (data: Uint8Array) => void): void {
    const { stdin, stdout } = this.#place;
    if (!this.#isShown) return;
    this.#isShown = false;
    stdin.off('data', onData);
    stdin.setRawMode?.(false);
    stdout.write(this.#wasAside ? LEAVE_SCREEN + BELOW : LEAVE_SCREEN);
  }

  #draw(): void {
    if (!this.#isShown) return;
    const { out, profile } = this.#session;
    const { columns = 80, rows = 24 } = this.#place.stdout;
    const containers = this.#containers;
    if (containers !== undefined && !containers.some(({ id }) => id === this.#chosen))
      this.#chosen = containers[0]?.id ?? '';
    const view = { containers, chosen: this.#chosen, message: this.#message, columns, rows };
    const who = `${profile.username ?? ''}@${new URL(profile.url).hostname}`;
    this.#place.stdout.write(drawMenu(out, { ...view, who }));
  }

  #say(message: string): void {
    this.#message = message;
    this.#draw();
  }

  async #act(key: MenuKey, onData: (data: Uint8Array) => void): Promise<void> {
    this.#message = '';
    switch (key) {
      case 'quit':
        return this.#leave();
      case 'up':
        return this.#move(-1);
      case 'down':
        return this.#move(1);
      case 'create':
        return this.#aside(onData, () => this.#create());
      case 'enter':
        return this.#withChosen('running', ({ id, name }) =>
          this.#aside(onData, async () => {
            const container = await this.#session.client.call('getContainer', { params: { id } });
            await openShell(this.#session, container, {});
            return `You left ${name}.`;
          }),
        );
      case 'logs':
        return this.#withChosen(undefined, (container) => this.#aside(onData, () => this.#logs(container)));
      case 'start':
        return this.#withChosen(undefined, (container) => this.#toggle(container));
      case 'redraw':
        return this.#draw();
      default:
        return this.#move(key - 1 - this.#at());
    }
  }

  /** Where the chosen one is in the list. */
  #at(): number {
    return Math.max(0, this.#containers?.findIndex(({ id }) => id === this.#chosen) ?? 0);
  }

  #move(by: number): void {
    const containers = this.#containers ?? [];
    const chosen = containers[this.#at() + by];
    if (chosen !== undefined) this.#chosen = chosen.id;
    this.#draw();
  }

  async #withChosen(
    needed: Container['status'] | undefined,
    work: (container: Container) => void | Promise<void>,
  ): Promise<void> {
    const container = this.#containers?.[this.#at()];
    if (container === undefined) return this.#say('You have no container: c creates one.');
    if (needed !== undefined && container.status !== needed)
      return this.#say(`${container.name} is ${container.status}: s starts it.`);
    await work(container);
  }

  /** Does work on the screen of before, and comes back with what it says. */
  async #aside(onData: (data: Uint8Array) => void, work: () => Promise<string>): Promise<void> {
    this.#stopIdle();
    this.#wasAside = true;
    this.#exit(onData);
    try {
      this.#message = await work();
    } catch (error) {
      this.#message = this.#reasonOf(error);
    }
    this.#place.forgetInterrupt();
    if (!this.#isOver) this.#enter(onData);
  }

  async #toggle({ id, name, status }: Container): Promise<void> {
    const { client } = this.#session;
    try {
      if (status === 'stopped' || status === 'failed') {
        await client.call('startContainer', { params: { id }, query: { discard: 'false' } });
        this.#say(`${name} is starting.`);
      } else {
        await client.call('stopContainer', { params: { id } });
        this.#say(`${name} is stopping.`);
      }
    } catch (error) {
      this.#say(this.#reasonOf(error));
    }
  }

  async #logs({ id, name }: Container): Promise<string> {
    const { out } = this.#session;
    out.note(out.paint(`The log of ${name}; Ctrl-C goes back to the menu.`, 'dim'));
    await showLogs(id, { place: this.#place, follow: true, tail: LOG_LINES });
    return '';
  }

  async #create(): Promise<string> {
    const typed = await this.#place.ask('Name of the new container (Enter makes one up): ');
    await runContainer(typed === '' ? undefined : typed, [], { place: this.#place, timeout: START_SECONDS });
    return typed === '' ? 'The container runs.' : `${typed} runs.`;
  }

  /** A sentence for the line of messages. What is no failure of the user's goes on. */
  #reasonOf(error: unknown): string {
    if (failureOf(error) === 'interrupted' && error instanceof ClientFailure) return clean(error.message);
    if (error instanceof Error && (error instanceof ClientFailure || 'status' in error))
      return clean(error.message.replaceAll('\n', ' '));
    throw error;
  }
}
