/** A container of ann's beside an open console, made and used past the browser. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { commandOutcome, execSocket } from '../clients/exec.ts';
import { logIn, request } from '../cluster/platform.ts';
import { publicKey } from '../ssh/public-key.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { PASSWORD, type ServedConsole } from './served-console.ts';

/** A running container. */
export interface OwnContainer {
  readonly id: string;
  /** A session of ann's that the browser does not have. */
  readonly token: string;
  /** `http://...` of the container in the API of compute. */
  readonly url: string;
  /** Runs a line of sh in it, and resolves with its output. Rejects unless it ends with 0. */
  sh(line: string): Promise<string>;
}

/** Makes a container with this name and waits until it runs. */
export async function makeContainer(
  t: Cleanup,
  { platform }: Pick<ServedConsole, 'platform'>,
  name: string,
): Promise<OwnContainer> {
  const { auth, compute } = platform.ready.urls;
  const token = await logIn(auth, 'ann', PASSWORD);
  const ask = async (method: string, path: string, body?: unknown) => {
    const { status, json } = await request(method, `${compute}${path}`, { token, body });
    assert.equal(status, 200, JSON.stringify(json));
    return json;
  };
  const key = await ask('POST', '/compute/ssh-keys', { name: `key of ${name}`, public_key: publicKey() });
  const made = await ask('POST', '/compute/containers', { name, ssh_key_ids: [key.id] });
  const id = z.string().parse(made.id);
  const path = `/compute/containers/${id}`;
  await until(async () => (await ask('GET', path)).status === 'running', { what: `${name} runs`, timeoutMs: 120_000 });
  const url = `${compute}${path}`;
  return {
    id,
    token,
    url,
    sh: async (line) => {
      const socket = await execSocket(t, `${url.replace('http', 'ws')}/exec`, token, ['sh', '-c', line]);
      const { out, err, exit } = await commandOutcome(socket);
      assert.equal(exit, 0, `${line}: ${err}`);
      return out;
    },
  };
}
