/** The platform of the trial of power cuts, with what its steps change and how that is looked at. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { registryFiles } from '../../../cmd/node/registry/files.ts';
import { logIn, type RunningPlatform, request, startPlatform, troupe, troupeCommand } from '../cluster/platform.ts';
import { appImage } from '../engine/app-image.ts';
import { docker, inDocker } from '../engine/docker-client.ts';
import { publicKey } from '../ssh/public-key.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';

const ADMIN_PASSWORD = 'the admin of this trial';

/** A platform on a folder of its own, which can be started again and again. */
export class Plant {
  readonly folder: string;
  readonly data: string;
  readonly #env: Record<string, string>;
  /** Of the trial's own, in Docker. */
  readonly images: string[] = [];
  #platform: RunningPlatform | undefined;
  token = '';

  private constructor(folder: string, image: string) {
    this.folder = folder;
    this.data = join(folder, 'data');
    this.#env = { DEFAULT_IMAGE: image, ADMIN_PASSWORD, REGISTRY: 'auto' };
  }

  static async open(t: Cleanup): Promise<Plant> {
    const plant = new Plant(await tempDir(t), await appImage());
    await plant.start();
    t.after(async () => {
      await plant.#platform?.stop();
    });
    return plant;
  }

  get platform(): RunningPlatform {
    assert.ok(this.#platform);
    return this.#platform;
  }

  get domain(): string {
    return this.platform.ready.domain;
  }

  async start(): Promise<void> {
    this.#platform = await startPlatform({ data: this.data, env: this.#env });
    this.token = await logIn(this.platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
    const words = ['login', '--data', this.data, '--user', 'admin', '--password-stdin'];
    assert.equal((await troupe(words, { env: this.#client, input: `${ADMIN_PASSWORD}\n` })).code, 0);
  }

  /** It was killed: nobody is to be told. */
  async fell(): Promise<void> {
    await this.platform.kill();
  }

  get #client(): Record<string, string> {
    return { XDG_CONFIG_HOME: join(this.folder, 'client'), TROUPE_URL: '', TROUPE_TOKEN: '', NO_COLOR: '1' };
  }

  async command(...words: string[]): Promise<string> {
    const { code, stdout, stderr } = await troupe(words, { env: this.#client });
    assert.equal(code, 0, `troupe ${words.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Begins a command, which a power cut ends. */
  begin(words: readonly string[]): ChildProcess {
    const [program = '', ...args] = troupeCommand(words);
    return spawn(program, args, { env: { ...process.env, ...this.#client }, stdio: 'ignore' });
  }

  compute(method: string, path: string, body?: unknown) {
    const url = `${this.platform.ready.urls.compute}/compute${path}`;
    return request(method, url, { token: this.token, ...(body === undefined ? {} : { body }) });
  }

  async make(body: object): Promise<string> {
    const key = await this.compute('POST', '/ssh-keys', { name: 'laptop', public_key: publicKey() });
    const { json } = await this.compute('POST', '/containers', { ...body, ssh_key_ids: [key.json.id] });
    return z.string({ error: JSON.stringify(json) }).parse(json.id);
  }

  /** Waits until the row and Docker have one running container, without a change that waits. Returns where it is. */
  async settled(id: string): Promise<{ address: string; image: unknown }> {
    let seen = '';
    return until(
      async () => {
        const [{ json }, found] = [await this.compute('GET', `/containers/${id}`), await inDocker(id)];
        seen = JSON.stringify([json.status, json.status_reason, json.next_image, json.health, found]);
        assert.notEqual(json.status, 'failed', seen);
        const isSo = json.status === 'running' && json.next_image === undefined && json.health !== 'starting';
        const [one] = found;
        if (!isSo || one === undefined || found.length !== 1 || one.state !== 'running') return undefined;
        return { address: one.address, image: json.image };
      },
      { what: 'it is settled', timeoutMs: 90_000, everyMs: 100 },
    ).catch((cause: unknown) => {
      throw new Error(`not settled: ${seen}`, { cause });
    });
  }

  /** A page of a container, once there is one. */
  async page(id: string, path: string): Promise<string> {
    const { address } = await this.settled(id);
    return until(
      async () => {
        const reply = await fetch(`http://${address}:8080${path}`, { signal: AbortSignal.timeout(2000) }).catch(
          () => {},
        );
        return reply?.ok === true ? (await reply.text()).trim() : undefined;
      },
      { what: `${path} is answered`, timeoutMs: 60_000, everyMs: 100 },
    );
  }

  async write(folder: string, files: Readonly<Record<string, string>>): Promise<string> {
    const path = join(this.folder, folder);
    await mkdir(path, { recursive: true });
    for (const [name, text] of Object.entries(files)) await writeFile(join(path, name), text);
    return path;
  }

  /** An image as `docker save` writes it. */
  async archive(image: string): Promise<string> {
    this.images.push(image);
    const file = join(this.folder, `${createHash('sha256').update(image).digest('hex').slice(0, 12)}.tar`);
    await writeFile(
      file,
      await docker().call('GET', `/images/${image}/get`, { maxBytes: 1024 ** 3, timeoutMs: 60_000 }),
    );
    return file;
  }

  /** The digest that a tag of the administrator's leads to, after all that it is made of was read and is whole. */
  async pulled(name: string, tag: string): Promise<string | undefined> {
    const scope = encodeURIComponent(`repository:admin/${name}:pull`);
    const url = `${this.platform.ready.urls.auth}/api/registry/token?scope=${scope}`;
    const given = await request('GET', url, { token: this.token });
    const headers = {
      authorization: `Bearer ${z.string().parse(given.json.token)}`,
      accept: [
        ...['application/vnd.docker.distribution.manifest.v2+json', 'application/vnd.oci.image.manifest.v1+json'],
      ].join(', '),
    };
    const [, port] = /addr: 127\.0\.0\.1:(\d+)/.exec(await readFile(registryFiles(this.data).config, 'utf8')) ?? [];
    const read = async (path: string): Promise<Buffer | undefined> => {
      const reply = await fetch(`http://127.0.0.1:${port}/v2/admin/${name}/${path}`, { headers });
      const bytes = Buffer.from(await reply.arrayBuffer());
      if (reply.status === 404) return undefined;
      assert.equal(reply.status, 200, bytes.toString());
      return bytes;
    };
    const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    const manifest = await until(
      async () => {
        try {
          return { bytes: await read(`manifests/${tag}`) };
        } catch {
          return undefined;
        }
      },
      { what: 'the registry answers', everyMs: 200 },
    );
    if (manifest.bytes === undefined) return undefined;
    const part = z.object({ digest: z.string() });
    const { config, layers } = z
      .object({ config: part, layers: z.array(part) })
      .parse(JSON.parse(manifest.bytes.toString()));
    for (const { digest } of [config, ...layers]) {
      const bytes = await read(`blobs/${digest}`);
      assert.equal(bytes === undefined ? 'missing' : digestOf(bytes), digest);
    }
    return digestOf(manifest.bytes);
  }
}
