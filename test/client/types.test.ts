/** The compiler is what tests here: each `@ts-expect-error` is an error of its own once the line below it compiles. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { CallInput, CallName, CallReply, TroupeClient } from '../../client/index.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { ContainerStatus } from '../../proto/compute/fields.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { projectRoot } from '../support/project.ts';

const run = promisify(execFile);

/** Never run. */
export async function calls(client: TroupeClient): Promise<unknown> {
  const { containers } = await client.call('listContainers');
  const statuses: ContainerStatus[] = containers.map(({ status }) => status);
  const made = await client.call('createContainer', { body: { name: 'x', ssh_key_ids: [1] } });
  await client.call('startContainer', { params: { id: made.id } });
  await client.call('startContainer', { params: { id: made.id }, query: { discard: 'true' } });
  const none: undefined = await client.call('disconnectDomain', { params: { id: made.id } });

  // @ts-expect-error a body with a wrong field
  await client.call('createContainer', { body: { name: 1, ssh_key_ids: [1] } });
  // @ts-expect-error a body without a field that it must have
  await client.call('createContainer', { body: { name: 'x' } });
  // @ts-expect-error a body with a field that nobody knows
  await client.call('createContainer', { body: { name: 'x', ssh_key_ids: [1], privileged: true } });
  // @ts-expect-error no body
  await client.call('createContainer');
  // @ts-expect-error a path without its parameter
  await client.call('getContainer', {});
  // @ts-expect-error a parameter of a wrong type
  await client.call('getContainer', { params: { id: 1 } });
  // @ts-expect-error a query with a value that does not exist
  await client.call('startContainer', { params: { id: made.id }, query: { discard: 'maybe' } });
  // @ts-expect-error an endpoint that does not exist
  await client.call('dropContainer', {});
  // @ts-expect-error no JSON: client.readLog()
  await client.call('readLogs', { params: { id: made.id } });
  // @ts-expect-error no JSON: client.transfer('GET', path)
  await client.call('readFiles', { params: { id: made.id }, query: { path: '/x' } });
  // @ts-expect-error no JSON: client.transfer('PUT', path, { body })
  await client.call('writeFiles', { params: { id: made.id }, query: { path: '/x' } });
  // @ts-expect-error no JSON: a client of the Model Context Protocol
  await client.call('useTools');
  await client.call('removeFiles', { params: { id: made.id }, query: { path: '/x' } });
  await client.call('createContainer', { body: { name: 'x', ssh_key_ids: [1] } }, { idempotencyKey: 'x' });
  // @ts-expect-error a socket, which is followed
  await client.call('logs', { params: { id: made.id } });
  // @ts-expect-error a reply read as something else
  const id: number = made.id;
  // @ts-expect-error a field that the reply does not have
  const owner = made.owner;
  return [statuses, none, id, owner];
}

/** True only of types that are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

test('no input and no reply of any endpoint is without a type', () => {
  type Untyped = {
    [N in CallName]: Same<CallReply<N>, unknown> extends true ? N : 0 extends 1 & CallReply<N> ? N : never;
  };
  type NoInput = { [N in CallName]: 0 extends 1 & CallInput<N> ? N : never };
  const replies: Same<Untyped[CallName], never> = true;
  const inputs: Same<NoInput[CallName], never> = true;
  assert.ok(replies && inputs);
});

test('each endpoint of bytes that cannot be called names what to use instead', () => {
  const bytes = [...computeEndpoints, ...networkEndpoints].filter((endpoint) => endpoint.bytes === true);
  // One that takes and answers JSON, or nothing, can be called; NoJson of client/types.ts has the others.
  assert.deepEqual(bytes.map(({ name }) => name).sort(), [
    'readFiles',
    'readLogs',
    'removeFiles',
    'useTools',
    'writeFiles',
  ]);
  type Said = Parameters<typeof TroupeClient.prototype.call<'readLogs'>>[1];
  const said: Same<Said, { readonly useInstead: 'client.readLog()' }> = true;
  assert.ok(said);
});

test('the generated table is that of the endpoints', async () => {
  const script = join(projectRoot, 'scripts/client-endpoints.mjs');
  await run(process.execPath, ['--import', 'tsx', script, '--check'], { cwd: projectRoot });
});
