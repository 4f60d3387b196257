/** A platform whose every reply, line and byte is looked through for the canaries of a trial. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { type Finished, type RunningPlatform, startPlatform, troupe } from '../cluster/platform.ts';
import { startReceiver } from '../notify/receiver.ts';
import { publicKey } from '../ssh/public-key.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { Canaries, type FoundCanary } from './canaries.ts';

const ADMIN_PASSWORD = 'the admin of this trial';
type Who = 'ann' | 'bob' | 'admin';

/** A reply whose text was looked through. */
export interface SearchedReply {
  readonly status: number;
  readonly text: string;
  readonly json: Record<string, unknown>;
}

/** The platform of the trial, with ann, whose containers hold the canaries, and bob, another tenant. */
export class CanaryWorld {
  readonly canaries = new Canaries();
  readonly found: FoundCanary[] = [];
  readonly data: string;
  readonly folder: string;
  readonly #passwords: Record<Who, string>;
  readonly #env: Record<string, string>;
  readonly #tokens = new Map<Who, string>();
  #platform: RunningPlatform | undefined;

  private constructor(folder: string, env: Record<string, string>) {
    this.folder = folder;
    this.data = join(folder, 'data');
    this.#env = { ...env, ADMIN_PASSWORD };
    // A password goes through a login, basic credentials and a change.
    this.#passwords = { ann: this.canaries.make('password of ann'), bob: 'the password of bob', admin: ADMIN_PASSWORD };
  }

  static async open(t: Cleanup, env: Record<string, string>): Promise<CanaryWorld> {
    const world = new CanaryWorld(await tempDir(t), { ...env, LOG_LEVEL: 'debug', WEBHOOK_ALLOW: '127.0.0.0/8' });
    await world.start();
    t.after(async () => void (await world.#platform?.stop()));
    for (const name of ['ann', 'bob'] as const) await world.operator(['users', 'add', name], world.#passwords[name]);
    await world.#enter();
    const receiver = await startReceiver(t);
    await world.ask('ann', 'POST', `${world.urls.notify}/api/notifications/webhooks`, { url: receiver.url });
    t.after(
      () =>
        void world.search('webhooks', receiver.hooks.map(({ text, headers }) => text + JSON.stringify(headers)).join()),
    );
    return world;
  }

  get platform(): RunningPlatform {
    assert.ok(this.#platform);
    return this.#platform;
  }

  get urls() {
    return this.platform.ready.urls;
  }

  search(place: string, content: string | Buffer): void {
    this.found.push(...this.canaries.find(place, content));
  }

  async start(): Promise<void> {
    this.#platform = await startPlatform({ data: this.data, env: this.#env });
  }

  /** Ends the platform, and starts it again. */
  async again(how: 'stop' | 'kill'): Promise<void> {
    await this.platform[how]();
    this.search(`the platform's log until it was ended (${how})`, this.platform.log());
    await this.start();
    await this.#enter();
  }

  async #enter(): Promise<void> {
    for (const name of ['ann', 'bob', 'admin'] as const) {
      const body = { username: name, password: this.#passwords[name] };
      const { json, text } = await this.ask(undefined, 'POST', `${this.urls.auth}/api/login`, body);
      this.#tokens.set(name, z.string({ error: text }).parse(json.token));
    }
    const home = { XDG_CONFIG_HOME: join(this.folder, 'client') };
    const words = ['login', '--data', this.data, '--user', 'ann', '--password-stdin'];
    const login = await troupe(words, { env: { ...this.#env, ...home }, input: `${this.#passwords.ann}\n` });
    assert.equal(login.code, 0, login.stderr);
  }

  /** A request; its reply is searched. `isOwn`: it may hold what its owner may see. */
  async ask(who: Who | undefined, method: string, url: string, body?: unknown, isOwn = false): Promise<SearchedReply> {
    const token = who === undefined ? undefined : this.#tokens.get(who);
    const response = await fetch(url, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const place = `${method} ${new URL(url).pathname} as ${who ?? 'nobody'} (${response.status})`;
    if (!isOwn) this.search(place, `${text}\n${JSON.stringify([...response.headers])}`);
    const json: unknown = text.startsWith('{') ? JSON.parse(text) : {};
    return { status: response.status, text, json: z.record(z.string(), z.unknown()).parse(json) };
  }

  compute(method: string, path: string, body?: unknown, who: Who = 'ann'): Promise<SearchedReply> {
    return this.ask(who, method, `${this.urls.compute}/compute${path}`, body);
  }

  /** A command of the operator, whose output is searched. */
  async operator(words: readonly string[], input = ''): Promise<Finished> {
    const ran = await troupe([...words, '--data', this.data], { env: this.#env, input });
    this.search(`troupe ${words.join(' ')}`, ran.stdout + ran.stderr);
    return ran;
  }

  /** A command of ann, whose output is searched. */
  async command(words: readonly string[], input = ''): Promise<Finished> {
    const env = { XDG_CONFIG_HOME: join(this.folder, 'client'), TROUPE_URL: '', TROUPE_TOKEN: '', NO_COLOR: '1' };
    const ran = await troupe(words, { env, input });
    this.search(`troupe ${words.join(' ')} of ann`, ran.stdout + ran.stderr);
    return ran;
  }

  async key(who: Who = 'ann'): Promise<unknown> {
    const { json } = await this.compute('POST', '/ssh-keys', { name: 'laptop', public_key: publicKey() }, who);
    return json.id;
  }

  /** Waits until a container of ann is as wanted. */
  async until(id: string, what: string, isSo: (view: Record<string, unknown>) => boolean): Promise<void> {
    let last = '';
    await until(
      async () => {
        const { json, text } = await this.compute('GET', `/containers/${id}`);
        last = text;
        return isSo(json);
      },
      { what, timeoutMs: 60_000, everyMs: 100 },
    ).catch((cause: unknown) => {
      throw new Error(`${what}: ${last}`, { cause });
    });
  }

  runs(id: string): Promise<void> {
    return this.until(id, 'it runs', ({ status, next_image }) => status === 'running' && next_image === undefined);
  }

  /** A folder with these files, for `troupe deploy`. */
  async app(files: Readonly<Record<string, string>>): Promise<string> {
    const folder = join(this.folder, 'shop');
    await mkdir(folder, { recursive: true });
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    return folder;
  }
}
