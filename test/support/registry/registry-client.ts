/** A client of an image registry behind the gateway: it pushes and pulls as the programs for images do. */
import { createHash, randomBytes } from 'node:crypto';
import { Agent, request } from 'node:https';
import { z } from 'zod';

/** Where it goes, and as whom. */
export interface RegistryAccess {
  readonly port: number;
  readonly host: string;
  /** The authority of its certificate. */
  readonly ca: string;
  readonly token: () => Promise<string>;
}

interface RegistryReply {
  readonly status: number;
  readonly location: string;
  readonly type: string;
  readonly body: Buffer;
}

/** Answered by another status than a push expects. */
export class RefusedPush extends Error {
  readonly status: number;

  constructor(what: string, { status, body }: RegistryReply) {
    super(`${what}: ${status} ${body.toString().slice(0, 300)}`);
    this.status = status;
  }
}

const SCHEMA2 = 'application/vnd.docker.distribution.manifest.v2+json';
const OCI = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const LIST = 'application/vnd.docker.distribution.manifest.list.v2+json';
const ACCEPT = [SCHEMA2, OCI, INDEX, LIST].join(', ');

/** A manifest, and what has to be there before it. */
export interface TrialImage {
  readonly type: string;
  readonly text: string;
  readonly digest: string;
  readonly blobs: readonly Buffer[];
  readonly children: readonly TrialImage[];
}

export const digestOf = (content: Buffer | string): string =>
  `sha256:${createHash('sha256').update(content).digest('hex')}`;

/** An image for one kind of machine; its configuration tells images apart. */
export function plainImage(layers: readonly Buffer[], form: 'docker' | 'oci'): TrialImage {
  const type = form === 'docker' ? SCHEMA2 : OCI;
  const config = Buffer.from(JSON.stringify({ architecture: 'amd64', made: randomBytes(8).toString('hex') }));
  const describe = (mediaType: string, blob: Buffer) => ({ mediaType, size: blob.length, digest: digestOf(blob) });
  const [configType, layerType] =
    form === 'docker'
      ? ['application/vnd.docker.container.image.v1+json', 'application/vnd.docker.image.rootfs.diff.tar.gzip']
      : ['application/vnd.oci.image.config.v1+json', 'application/vnd.oci.image.layer.v1.tar+gzip'];
  const text = JSON.stringify({
    schemaVersion: 2,
    mediaType: type,
    config: describe(configType, config),
    layers: layers.map((layer) => describe(layerType, layer)),
  });
  return { type, text, digest: digestOf(text), blobs: [config, ...layers], children: [] };
}

/** An image for several kinds of machines. */
export function imageOfMany(children: readonly TrialImage[], form: 'docker' | 'oci'): TrialImage {
  const type = form === 'docker' ? LIST : INDEX;
  const manifests = children.map(({ type: mediaType, digest, text }, i) => {
    const platform = { architecture: i === 0 ? 'amd64' : 'arm64', os: 'linux' };
    return { mediaType, digest, size: Buffer.byteLength(text), platform };
  });
  const text = JSON.stringify({ schemaVersion: 2, mediaType: type, manifests });
  return { type, text, digest: digestOf(text), blobs: [], children };
}

/** See above. */
export class RegistryClient {
  readonly #access: RegistryAccess;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 8 });

  constructor(access: RegistryAccess) {
    this.#access = access;
  }

  close(): void {
    this.#agent.destroy();
  }

  /** One request. Rejects when the connection breaks. */
  async ask(method: string, path: string, body?: Buffer | string, type?: string): Promise<RegistryReply> {
    const { port, host, ca, token } = this.#access;
    const authorization = `Bearer ${await token()}`;
    const content = body === undefined ? Buffer.alloc(0) : Buffer.from(body);
    return new Promise((resolve, reject) => {
      const asked = request(
        {
          agent: this.#agent,
          ca,
          port,
          method,
          path,
          host: '127.0.0.1',
          servername: host,
          headers: {
            host,
            authorization,
            accept: ACCEPT,
            'content-length': content.length,
            'content-type': type ?? 'application/octet-stream',
          },
        },
        (response) => {
          const parts: Buffer[] = [];
          response.on('data', (part: Buffer) => parts.push(part));
          response.once('error', reject);
          response.once('end', () => {
            const { location = '', 'content-type': answered = '' } = response.headers;
            resolve({ status: response.statusCode ?? 0, location, type: answered, body: Buffer.concat(parts) });
          });
        },
      );
      asked.once('error', reject);
      asked.end(content);
    });
  }

  /** Pushes all parts and the manifest, with the tag if there is one. Rejects with RefusedPush. */
  async push(name: string, image: TrialImage, tag?: string): Promise<void> {
    for (const blob of image.blobs) await this.#pushBlob(name, blob);
    for (const child of image.children) {
      // As clients do: what is there is not pushed again.
      const there = await this.ask('HEAD', `/v2/${name}/manifests/${child.digest}`);
      if (there.status !== 200) await this.push(name, child);
    }
    const put = await this.ask('PUT', `/v2/${name}/manifests/${tag ?? image.digest}`, image.text, image.type);
    if (put.status !== 201) throw new RefusedPush('manifest', put);
  }

  async #pushBlob(name: string, blob: Buffer): Promise<void> {
    const digest = digestOf(blob);
    if ((await this.ask('HEAD', `/v2/${name}/blobs/${digest}`)).status === 200) return;
    let location = await this.beginUpload(name);
    const isChunked = Math.random() < 0.5;
    if (isChunked) {
      const middle = Math.floor(blob.length / 2);
      for (const part of [blob.subarray(0, middle), blob.subarray(middle)])
        location = await this.append(location, part);
    }
    await this.finishUpload(location, digest, isChunked ? undefined : blob);
  }

  /** Resolves with where the bytes go. */
  async beginUpload(name: string): Promise<string> {
    const begun = await this.ask('POST', `/v2/${name}/blobs/uploads/`);
    if (begun.status !== 202) throw new RefusedPush('upload', begun);
    return pathOf(begun.location);
  }

  /** Resolves with where the next bytes go. */
  async append(location: string, part: Buffer): Promise<string> {
    const patched = await this.ask('PATCH', location, part);
    if (patched.status !== 202) throw new RefusedPush('part', patched);
    return pathOf(patched.location);
  }

  async finishUpload(location: string, digest: string, rest?: Buffer): Promise<void> {
    const joint = location.includes('?') ? '&' : '?';
    const put = await this.ask('PUT', `${location}${joint}digest=${encodeURIComponent(digest)}`, rest);
    if (put.status !== 201) throw new RefusedPush('layer', put);
  }

  /** Pulls a manifest and all that it is made of. Resolves with what is missing or wrong. */
  async wrongIn(name: string, digest: string): Promise<string[]> {
    const { status, body } = await this.ask('GET', `/v2/${name}/manifests/${digest}`);
    if (status !== 200 || digestOf(body) !== digest) return [`manifest ${digest}: ${status}`];
    const { manifests = [], config, layers = [] } = manifestSchema.parse(JSON.parse(body.toString()));
    const wrong: string[] = [];
    for (const child of manifests) wrong.push(...(await this.wrongIn(name, child.digest)));
    for (const part of config === undefined ? layers : [config, ...layers]) {
      const blob = await this.ask('GET', `/v2/${name}/blobs/${part.digest}`).catch(() => undefined);
      if (blob?.status !== 200 || digestOf(blob.body) !== part.digest)
        wrong.push(`part ${part.digest}: ${blob?.status ?? 'broken off'}`);
    }
    return wrong;
  }
}

const described = z.object({ digest: z.string() });
const manifestSchema = z.object({
  manifests: z.array(described).optional(),
  config: described.optional(),
  layers: z.array(described).optional(),
});

function pathOf(location: string): string {
  const { pathname, search } = new URL(location, 'https://registry.invalid');
  return `${pathname}${search}`;
}
