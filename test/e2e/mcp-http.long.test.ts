/** `/mcp` of a real platform with a real container, used by the protocol's own client through the gateway. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { z } from 'zod';
import { startBox } from '../support/clients/container.ts';
import { containerOf, done, ends, refusesAllBut, runs, startMcpPlatform } from '../support/clients/mcp.ts';
import { request, troupe, troupeCommand } from '../support/cluster/platform.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { projectRoot } from '../support/project.ts';
import { shellBlocks } from '../support/readme/blocks.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const quoted = (word: string) => `'${word}'`;
const jsonBlocks = (markdown: string) =>
  [...markdown.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text);
const entrySchema = z.object({
  mcpServers: z.object({
    troupe: z.union([
      z.object({ type: z.literal('http'), url: z.url(), headers: z.object({ Authorization: z.string() }) }),
      z.object({ command: z.string(), args: z.array(z.string()), env: z.record(z.string(), z.string()) }),
    ]),
  }),
});

describe('the MCP server over HTTP', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  let platform: Awaited<ReturnType<typeof startMcpPlatform>>;
  let token = '';

  before(async () => {
    platform = await startMcpPlatform();
    ({ token } = platform);
  });
  after(() => platform.end());

  /** A request to the gateway, whose certificate is checked, from an address of this machine. */
  async function send(input: string | URL, init: RequestInit = {}, localAddress = '127.0.0.1'): Promise<Response> {
    const { hostname, port, host, pathname } = new URL(input);
    const ca = await readFile(join(platform.data, 'ca.pem'), 'utf8');
    const agent = new Agent({ ca, servername: hostname });
    const headers = { host, ...Object.fromEntries(new Headers(init.headers)) };
    const { method = 'GET', signal } = init;
    const options = { host: '127.0.0.1', port, path: pathname, method, headers, agent, localAddress };
    const asked = httpsRequest(signal == null ? options : { ...options, signal });
    asked.end(init.body);
    const [answer]: [IncomingMessage] = z.tuple([z.custom<IncomingMessage>()]).parse(await once(asked, 'response'));
    const { statusCode: status = 0 } = answer;
    const fields = Object.entries(answer.headers).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, String(value)]],
    );
    const bytes = Readable.toWeb(answer);
    return new Response([204, 205, 304].includes(status) ? null : z.custom<ReadableStream>().parse(bytes), {
      status,
      headers: fields,
    });
  }

  const toolsUrl = () => new URL('/mcp', platform.urls.https);

  /** A client of the platform's own server. */
  async function overHttp(t: Cleanup, own: string, address?: string): Promise<Client> {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${own}` } };
    const transport = new StreamableHTTPClientTransport(toolsUrl(), {
      requestInit,
      fetch: (input, init) => send(input, init, address),
    });
    // Its members may be undefined, which those of the interface may not.
    await client.connect(z.custom<Transport>().parse(transport));
    t.after(() => client.close());
    await client.listTools();
    return client;
  }

  test('a program works in a container with the token of the request, and a token of one sees one', async (t) => {
    const { id: own } = await startBox(platform.urls.compute, token, platform.data);
    const secret = await platform.tokenOf(own);
    const client = await overHttp(t, secret);
    assert.equal(containerOf.parse(await done(client, 'get_container', { container: own })).container.id, own);
    await done(client, 'write_file', { container: own, path: '/root/n', content: 'by http' });
    const command = { container: own, command: ['cat /root/n; cat'], stdin: ', and stdin' };
    assert.equal((await done(client, 'run_command', command)).stdout, 'by http, and stdin');
    await refusesAllBut(client, own);
    const all = await overHttp(t, token);
    const { containers } = await done(all, 'list_containers');
    assert.deepEqual(
      z
        .array(z.looseObject({ id: z.string() }))
        .parse(containers)
        .map(({ id }) => id),
      [own],
    );
    for (const [port, own] of [
      [443, platform.urls.https],
      [80, platform.urls.http],
    ] as const) {
      const opened = await done(all, 'open_port', { container: 'box', port, target_port: 8443 });
      const { url } = z.looseObject({ url: z.string() }).parse(opened.port);
      assert.equal(new URL(url).port, new URL(own).port);
      await done(all, 'close_port', { container: 'box', port });
    }

    // The trail has the client's address, not that of the service that called for it.
    await done(await overHttp(t, token, '127.0.0.9'), 'write_file', { container: own, path: '/root/n', content: '' });
    const trail = await troupe(['audit', '--json', '--data', platform.data]);
    const written = trail.stdout.split('\n').filter((line) => line.includes('container.write_files'));
    assert.match(written.find((line) => line.includes('127.0.0.9')) ?? trail.stderr, /write_files/);

    const listed = await request('GET', `${platform.urls.auth}/api/tokens`, { token });
    for (const { id } of z.array(z.object({ id: z.string() })).parse(listed.json.list))
      await request('DELETE', `${platform.urls.auth}/api/tokens/${id}`, { token });
    await assert.rejects(client.callTool({ name: 'list_containers' }), /401|unauthorized/i);
  });

  test('a command ends when whoever waits for it leaves, or has sent its last byte', async (t) => {
    const all = await overHttp(t, token);
    const { containers } = await done(all, 'list_containers');
    const [box] = z.array(z.looseObject({ id: z.string() })).parse(containers);
    const { hostname, host, port } = toolsUrl();
    const ca = await readFile(join(platform.data, 'ca.pem'), 'utf8');
    for (const [at, leave] of (['destroy', 'end'] as const).entries()) {
      const command = `sleep ${87_001 + at}`;
      const params = {
        name: 'run_command',
        arguments: { container: box?.id, command: [command], timeout_seconds: 600 },
      };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
      const fields = [`Host: ${host}`, `Authorization: Bearer ${token}`, 'Content-Type: application/json'];
      const head = ['POST /mcp HTTP/1.1', ...fields, `Content-Length: ${Buffer.byteLength(body)}`, '', ''];
      const socket = connect({ host: '127.0.0.1', port: Number(port), ca, servername: hostname });
      t.after(() => void socket.destroy());
      socket.on('error', () => {}).resume();
      socket.write(head.join('\r\n') + body);
      await until(() => runs(all, command), { what: `${command} runs`, timeoutMs: 60_000 });
      socket[leave]();
      await ends(all, command);
    }
  });

  test('the entries of the guide are as programs take them', async (t) => {
    const page = await readFile(join(projectRoot, 'docs/guide/mcp.md'), 'utf8');
    const { containers } = await done(await overHttp(t, token), 'list_containers');
    const [box] = z.array(z.looseObject({ id: z.string() })).parse(containers);
    const folder = await tempDir(t);
    const environment = {
      TROUPE_URL: platform.urls.https,
      TROUPE_TOKEN: token,
      TROUPE_CA: join(platform.data, 'ca.pem'),
    };
    const secrets: string[] = [];
    // `troupe` is this tree's, wherever a shell looks for it.
    await writeFile(join(folder, 'troupe'), `#!/bin/sh\nexec ${troupeCommand([]).map(quoted).join(' ')} "$@"\n`, {
      mode: 0o755,
    });
    const PATH = `${folder}:${process.env.PATH}`;
    for (const block of shellBlocks(page)) {
      const { stdout } = await run('bash', ['-ec', block.replace('.ID:', `.${box?.id}:`)], {
        env: { ...process.env, ...environment, XDG_CONFIG_HOME: folder, PATH },
      });
      secrets.push(stdout.trim());
    }
    assert.equal(secrets.length, 2);
    const entries = jsonBlocks(page).map((block) =>
      entrySchema.parse(
        JSON.parse(
          block
            .replaceAll('https://cloud.example.com', new URL(platform.urls.https).origin)
            .replaceAll('/home/ann/ca.pem', environment.TROUPE_CA),
        ),
      ),
    );
    const [byAddress, byCommand] = entries.map(({ mcpServers }) => mcpServers.troupe);
    for (const secret of secrets) {
      assert.match(secret, /^svc_/);
      assert.ok(byAddress !== undefined && 'url' in byAddress);
      const headers = { authorization: byAddress.headers.Authorization.replace('svc_...', secret) };
      const client = new Client({ name: 'test', version: '1' });
      const transport = new StreamableHTTPClientTransport(new URL(byAddress.url), {
        requestInit: { headers },
        fetch: send,
      });
      await client.connect(z.custom<Transport>().parse(transport));
      t.after(() => client.close());
      assert.equal(
        containerOf.parse(await done(client, 'get_container', { container: box?.id })).container.id,
        box?.id,
      );

      assert.ok(byCommand !== undefined && 'command' in byCommand);
      const env = { ...byCommand.env, TROUPE_TOKEN: secret, XDG_CONFIG_HOME: folder, PATH };
      const local = new Client({ name: 'test', version: '1' });
      await local.connect(new StdioClientTransport({ command: byCommand.command, args: byCommand.args, env }));
      t.after(() => local.close());
      assert.equal(containerOf.parse(await done(local, 'get_container', { container: box?.id })).container.id, box?.id);
    }
  });

  test('a message comes with a bearer, alone, bounded, and gets no session', async () => {
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const post = (body: unknown, headers: Record<string, string> = {}) =>
      send(toolsUrl(), { method: 'POST', body: JSON.stringify(body), headers });
    const bearer = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await post(ping, bearer);
    assert.deepEqual([answer.status, answer.headers.get('mcp-session-id')], [200, null]);
    assert.match(await answer.text(), /"id":1/);
    for (const cookie of [`token=${token}`, `__Host-token=${token}`, `__Host-troupe=${token}`]) {
      const { origin } = toolsUrl();
      const headers = { cookie, origin, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };
      assert.equal((await post(ping, headers)).status, 401, cookie);
    }
    assert.equal((await post(ping, { 'content-type': 'application/json' })).status, 401);
    assert.equal((await post(ping, { ...bearer, authorization: 'Bearer svc_none' })).status, 401);
    assert.equal((await post([ping, ping], bearer)).status, 400);
    const large = { ...ping, params: { x: 'x'.repeat(2 * 1024 * 1024) } };
    assert.equal((await post(large, bearer)).status, 413);
    for (const method of ['GET', 'DELETE']) assert.equal((await send(toolsUrl(), { method })).status, 405);
  });
});
