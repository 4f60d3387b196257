/** `troupe mcp` on a real platform with real containers, used by the protocol's own client. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { z } from 'zod';
import { startBox } from '../support/clients/container.ts';
import { containerOf, done, ends, refused, refusesAllBut, startMcpPlatform } from '../support/clients/mcp.ts';
import { troupe, troupeCommand } from '../support/cluster/platform.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { until } from '../support/until.ts';

describe('the MCP server', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  let platform: Awaited<ReturnType<typeof startMcpPlatform>>;
  /** Of the administrator. */
  let client: Client;

  before(async () => {
    platform = await startMcpPlatform();
    client = await overStdio(platform.token);
  });
  after(async () => {
    await client.close();
    await platform.end();
  });

  const environment = (own: string) => ({
    XDG_CONFIG_HOME: '/nowhere',
    TROUPE_URL: platform.urls.https,
    TROUPE_TOKEN: own,
    TROUPE_CA: join(platform.data, 'ca.pem'),
  });

  /** A client of `troupe mcp`, which has listed the tools. */
  async function overStdio(own: string): Promise<Client> {
    const [command = '', ...args] = troupeCommand(['mcp']);
    const client = new Client({ name: 'test', version: '1' });
    const env = { PATH: process.env.PATH ?? '', ...environment(own) };
    await client.connect(new StdioClientTransport({ command, args, env }));
    await client.listTools();
    return client;
  }

  /** A page through the gateway. */
  async function page(host: string): Promise<string> {
    const { port } = new URL(platform.urls.http);
    const asked = httpRequest({ host: '127.0.0.1', port, headers: { host }, agent: false }).end();
    const [answer] = await once(asked, 'response');
    return text(answer);
  }

  test('a program makes a container, writes a file, runs it, and reads its output, log and page', async () => {
    const missing = await refused(client, 'create_container', { name: 'made' });
    assert.deepEqual([missing.code, /needs an SSH key/.test(missing.error)], ['conflict', true]);
    const key = await startBox(platform.urls.compute, platform.token, platform.data);
    const made = containerOf.parse(await done(client, 'create_container', { name: 'made', instance_type: 'mini' }));
    assert.equal(made.container.status, 'running');
    const container = made.container.id;
    const { containers } = await done(client, 'list_containers');
    assert.deepEqual(z.array(z.object({ id: z.string() })).parse(containers).length, 2);

    const script =
      '#!/bin/sh\necho "to you: $(cat)"; echo bad >&2; echo first >/proc/1/fd/1; echo logged >/proc/1/fd/1; exit 3\n';
    await done(client, 'write_file', { container: 'made', path: '/root/a b/run', content: script, mode: '755' });
    const read = await done(client, 'read_file', { container, path: '/root/a b/run' });
    assert.deepEqual([read.content, read.more], [script, false]);
    const part = await done(client, 'read_file', { container, path: '/root/a b/run', offset: 2, max_bytes: 7 });
    assert.deepEqual([part.content, part.bytes, part.more], ['/bin/sh', 7, true]);
    const end = await done(client, 'read_file', { container, path: '/root/a b/run', offset: script.length });
    assert.deepEqual([end.content, end.more], ['', false]);
    const listed = await done(client, 'list_files', { container, path: '/root/a b' });
    const [entry] = z.array(z.looseObject({})).parse(listed.entries);
    assert.deepEqual(
      { ...entry, modified_at: '' },
      { name: 'run', type: 'file', size: script.length, mode: '755', modified_at: '' },
    );

    const ran = await done(client, 'run_command', { container, command: ['sh', '/root/a b/run'], stdin: 'hello' });
    assert.deepEqual([ran.exit_code, ran.stdout, ran.stderr, ran.truncated], [3, 'to you: hello\n', 'bad\n', false]);
    const { lines } = await done(client, 'read_logs', { container });
    assert.ok(
      z
        .array(z.object({ text: z.string() }))
        .parse(lines)
        .some((line) => line.text === 'logged'),
    );

    const serve = 'mkdir -p /srv && echo a page >/srv/index.html && httpd -p 8080 -h /srv';
    assert.equal((await done(client, 'run_command', { container, command: [serve] })).exit_code, 0);
    const opened = await done(client, 'open_port', { container, port: 80, target_port: 8080 });
    const { url } = z.looseObject({ url: z.string() }).parse(opened.port);
    const { host } = new URL(url);
    assert.equal(new URL(url).port, new URL(platform.urls.http).port);
    await until(async () => (await page(host)) === 'a page\n', { what: 'the page is there', timeoutMs: 60_000 });
    const named = containerOf.parse(await done(client, 'set_address_name', { container, address_name: 'my-page' }));
    assert.equal(named.container.id, container);
    const { ports } = await done(client, 'list_ports', { container });
    const [{ url: readable } = { url: '' }] = z.array(z.looseObject({ url: z.string() })).parse(ports);
    assert.ok(new URL(readable).host.startsWith('my-page.'), readable);
    await until(async () => (await page(new URL(readable).host)) === 'a page\n', { what: 'it is there by its name' });
    assert.equal(
      (await refused(client, 'set_address_name', { container, address_name: 'www' })).code,
      'invalid_request',
    );
    await done(client, 'close_port', { container, port: 80 });
    assert.deepEqual((await done(client, 'list_ports', { container })).ports, []);

    const stopped = containerOf.parse(await done(client, 'stop_container', { container }));
    assert.equal(stopped.container.status, 'stopped');
    assert.equal((await refused(client, 'run_command', { container, command: ['true'] })).code, 'not_running');
    const kept = z.looseObject({ lines: z.array(z.looseObject({ text: z.string() })), truncated: z.boolean() });
    const newest = kept.parse(await done(client, 'read_logs', { container, lines: 1 }));
    assert.deepEqual([newest.lines.length, newest.truncated], [1, true]);
    assert.equal(containerOf.parse(await done(client, 'start_container', { container })).container.status, 'running');
    assert.deepEqual(await done(client, 'delete_container', { container: 'made' }), { deleted: container });
    assert.equal((await refused(client, 'get_container', { container: 'made' })).code, 'not_found');
    assert.equal(containerOf.parse(await done(client, 'get_container', { container: 'box' })).container.id, key.id);
  });

  test('outputs, times and arguments are bounded, and an unknown tool is an error of the protocol', async () => {
    const container = 'box';
    const flood = {
      container,
      command: ['i=0; while [ $i -lt 9000 ]; do echo "é$i"; i=$((i+1)); done'],
      max_bytes: 101,
    };
    const { stdout, ...rest } = await done(client, 'run_command', flood);
    assert.deepEqual([rest.truncated, rest.exit_code], [true, 0]);
    assert.match(z.string().parse(stdout), /^[^\uFFFD]*é8999\n$/u);
    assert.ok(Buffer.byteLength(z.string().parse(stdout)) <= 101);
    const slow = await done(client, 'run_command', { container, command: ['sleep', '600'], timeout_seconds: 1 });
    assert.deepEqual([slow.exit_code, slow.timed_out], [null, true]);
    await ends(client, 'sleep 600');
    const wrong = await refused(client, 'run_command', { container, command: [], more: 1 });
    assert.equal(wrong.code, 'invalid_request');
    assert.match(wrong.error, /command must have at least 1 entries/);
    assert.equal((await refused(client, 'read_file', { container, path: '/none' })).code, 'not_found');
    assert.equal((await refused(client, 'list_files', { container, path: '/none' })).code, 'not_found');
    assert.equal((await refused(client, 'open_port', { container, port: 9999 })).code, 'invalid_request');
    await assert.rejects(client.callTool({ name: 'no_such_tool' }), /There is no tool no_such_tool/);
  });

  test('hostnames are mapped, listed and given up', async () => {
    const { hostname } = await done(client, 'add_hostname', { container: 'box', hostname: 'www.example.com' });
    const { status, verify_name } = z.looseObject({}).parse(hostname);
    assert.deepEqual([status, verify_name], ['pending', '_svc-verify.www.example.com']);
    const { hostnames } = await done(client, 'list_hostnames');
    const [{ id } = { id: '' }] = z.array(z.object({ id: z.string() })).parse(hostnames);
    assert.deepEqual(await done(client, 'remove_hostname', { hostname: 'www.example.com' }), { removed: id });
  });

  test('what destroys is marked, and what reads', async () => {
    const { tools } = await client.listTools();
    const named = (has: (hints: NonNullable<(typeof tools)[number]['annotations']>) => boolean) =>
      tools.flatMap(({ name, annotations }) => (annotations !== undefined && has(annotations) ? name : [])).sort();
    assert.deepEqual(
      named((hints) => hints.readOnlyHint === true),
      [
        'get_container',
        'list_containers',
        'list_files',
        'list_hostnames',
        'list_images',
        'list_ports',
        'read_file',
        'read_logs',
      ],
    );
    assert.deepEqual(
      named((hints) => hints.destructiveHint === true),
      ['close_port', 'delete_container', 'remove_hostname', 'run_command', 'stop_container', 'write_file'],
    );
    assert.ok(tools.every(({ outputSchema, title, description }) => outputSchema && title && description));
  });

  test('a token that may only read a container reads none of its files', async (t) => {
    const { container } = containerOf.parse(await done(client, 'get_container', { container: 'box' }));
    const reader = await overStdio(await platform.tokenOf(container.id, ['read']));
    t.after(() => reader.close());
    assert.equal(
      (await refused(reader, 'read_file', { container: container.id, path: '/etc/passwd' })).code,
      'missing_scope',
    );
    const kept = await refused(client, 'read_file', { container: container.id, path: '/etc/troupe/authorized_keys' });
    assert.equal(kept.code, 'forbidden');
  });

  test('a token of one container opens that one and nothing else', async (t) => {
    const { container } = containerOf.parse(await done(client, 'get_container', { container: 'box' }));
    const own = container.id;
    const limited = await overStdio(await platform.tokenOf(own));
    t.after(() => limited.close());
    assert.equal(containerOf.parse(await done(limited, 'get_container', { container: own })).container.id, own);
    assert.equal((await done(limited, 'run_command', { container: own, command: ['echo', 'in'] })).stdout, 'in\n');
    await refusesAllBut(limited, own);
  });

  test('without a login the command says what to do', async () => {
    const { code, stdout, stderr } = await troupe(['mcp'], { env: { XDG_CONFIG_HOME: '/nowhere', TROUPE_TOKEN: '' } });
    assert.deepEqual([code, stdout], [3, '']);
    assert.match(stderr, /troupe login/);
  });
});
