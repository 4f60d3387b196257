/** A container of a running platform, as benchmarks and long trials use one. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { request } from '../cluster/platform.ts';
import { inDocker } from '../engine/docker-client.ts';
import { until } from '../until.ts';

const run = promisify(execFile);

/** A running container. */
export interface Box {
  readonly id: string;
  /** Docker's own id of it, and where this machine reaches it. */
  readonly dockerId: string;
  readonly address: string;
  /** Private key that its sshd lets in. */
  readonly keyFile: string;
  /** `ws://...` of its streams: append `/terminal` or `/logs`. */
  readonly ws: string;
}

/** Creates a container with a key of its own (in `folder`) and waits until it runs. Throws with its view when it fails. */
export async function startBox(computeUrl: string, token: string, folder: string): Promise<Box> {
  const keyFile = join(folder, `key-${randomUUID()}`);
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile]);
  const public_key = await readFile(`${keyFile}.pub`, 'utf8');
  const key = await request('POST', `${computeUrl}/compute/ssh-keys`, { token, body: { name: 'box', public_key } });
  const body = { name: 'box', ssh_key_ids: [key.json.id], instance_type: 'mini', ssh_enabled: true };
  const created = await request('POST', `${computeUrl}/compute/containers`, { token, body });
  const id = z.string().parse(created.json.id);
  const url = `${computeUrl}/compute/containers/${id}`;
  await until(
    async () => {
      const { json } = await request('GET', url, { token });
      if (json.status === 'failed') throw new Error(JSON.stringify(json));
      return json.status === 'running';
    },
    { timeoutMs: 60_000, everyMs: 100, what: 'the container runs' },
  );
  const [found] = await inDocker(id);
  if (found === undefined) throw new Error(`Docker does not know ${id}.`);
  return { id, dockerId: found.id, address: found.address, keyFile, ws: url.replace('http', 'ws') };
}
