/** A platform for the MCP server's tests, and the protocol's own client. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { deleteAll, logIn, request, startPlatform } from '../cluster/platform.ts';
import { tinyImage } from '../engine/docker-client.ts';
import { until } from '../until.ts';

const failureSchema = z.object({ error: z.string(), code: z.string() });
export const containerOf = z.object({ container: z.looseObject({ id: z.string(), status: z.string() }) });

/** Calls a tool. The SDK's client checks a result by the tool's output schema once the tools are listed. */
async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const result = CallToolResultSchema.parse(await client.callTool({ name, arguments: args }));
  const [content] = result.content;
  assert.equal(content?.type, 'text');
  return { isError: result.isError === true, value: z.looseObject({}).parse(JSON.parse(content.text)), result };
}

export async function done(client: Client, name: string, args: Record<string, unknown> = {}) {
  const { isError, value, result } = await call(client, name, args);
  assert.ok(!isError, `${name}: ${JSON.stringify(value)}`);
  assert.deepEqual(result.structuredContent, value);
  return value;
}

export async function refused(client: Client, name: string, args: Record<string, unknown> = {}) {
  const { isError, value } = await call(client, name, args);
  assert.ok(isError, `${name} was not refused: ${JSON.stringify(value)}`);
  return failureSchema.parse(value);
}

/** Whether a command runs in the container. */
export async function runs(client: Client, command: string): Promise<boolean> {
  const list = { container: 'box', command: ['cat /proc/[0-9]*/cmdline | tr "\\000" " "'] };
  return z
    .string()
    .parse((await done(client, 'run_command', list)).stdout)
    .includes(command);
}

export async function ends(client: Client, command: string): Promise<void> {
  await until(async () => !(await runs(client, command)), { what: `${command} ends`, timeoutMs: 60_000 });
}

const OTHER = 'a00000000000';

/** Tries every tool on what a token of one container does not open. */
export async function refusesAllBut(client: Client, own: string): Promise<void> {
  const tries: [string, Record<string, unknown>][] = [
    ['list_containers', {}],
    ['list_hostnames', {}],
    ['get_container', { container: OTHER }],
    ['get_container', { container: 'box' }],
    ['create_container', { name: 'more', ssh_key_ids: [1] }],
    ['create_container', { name: 'more' }],
    ['stop_container', { container: own }],
    ['start_container', { container: own }],
    ['delete_container', { container: own }],
    ['run_command', { container: OTHER, command: ['true'] }],
    ['read_file', { container: OTHER, path: '/etc/passwd' }],
    ['write_file', { container: OTHER, path: '/x', content: '' }],
    ['list_files', { container: OTHER, path: '/' }],
    ['read_logs', { container: OTHER }],
    ['list_ports', { container: OTHER }],
    ['open_port', { container: OTHER, port: 80 }],
    ['set_address_name', { container: OTHER, address_name: 'other-box' }],
    ['set_port_cache', { container: OTHER, port: 80, cache: 'off' }],
    ['close_port', { container: OTHER, port: 80 }],
    ['add_hostname', { container: own, hostname: 'x.example.com' }],
    ['set_hostname_cache', { hostname: OTHER, cache: 'off' }],
    ['remove_hostname', { hostname: OTHER }],
  ];
  for (const [name, args] of tries) {
    const { code, error } = await refused(client, name, args);
    assert.equal(code, 'missing_scope', name);
    assert.match(error, /missing \S+ scope/, name);
  }
}

/** A platform with its administrator logged in. */
export async function startMcpPlatform() {
  const data = await mkdtemp(join(tmpdir(), 'troupe-test-'));
  const platform = await startPlatform({ data, env: { DEFAULT_IMAGE: await tinyImage() } });
  const { urls, admin } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  const session = await request('GET', `${urls.auth}/api/session`, { token });
  const userId = z.string().parse(session.json.user_id);
  return {
    data,
    urls,
    token,
    /** A token that may read and update one container, or what `actions` name. */
    async tokenOf(container: string, actions: readonly string[] = ['read', 'update']): Promise<string> {
      const scopes = { [`compute.${userId}.containers.${container}`]: actions };
      const body = { name: `of-${container}-${actions.length}`, scopes, expires_in: '30d' };
      const { status, json } = await request('POST', `${urls.auth}/api/tokens`, { token, body });
      assert.ok(status < 300, JSON.stringify(json));
      return z.string().parse(json.token);
    },
    async end(): Promise<void> {
      try {
        await deleteAll(urls.compute, token);
      } finally {
        await platform.stop();
        await rm(data, { recursive: true, force: true });
      }
    },
  };
}
