/** `--log-service`: lines arrive at a receiver that speaks OTLP over gRPC, and a receiver that is away costs nothing but lines. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { z } from 'zod';
import { openLog } from '../../cmd/log.ts';
import { logShipper } from '../../transports/otlp/logs.ts';
import { projectRoot } from '../kit/project.ts';
import { type Cleanup, freePort } from '../kit/temp.ts';
import { until } from '../kit/until.ts';

/** The fields of opentelemetry/proto/collector/logs/v1 that the tests read. */
const layout = protobuf
  .parse(`syntax = "proto3";
message Request { repeated ResourceLogs resource_logs = 1; }
message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; }
message Resource { repeated KeyValue attributes = 1; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { string string_value = 1; }
message ScopeLogs { repeated LogRecord log_records = 2; }
message LogRecord { fixed64 time_unix_nano = 1; int32 severity_number = 2; string severity_text = 3; AnyValue body = 5; repeated KeyValue attributes = 6; }`)
  .root.lookupType('Request');

const pair = z.object({ key: z.string(), value: z.object({ stringValue: z.string().default('') }) });
const request = z.object({
  resourceLogs: z.array(
    z.object({
      resource: z.object({ attributes: z.array(pair) }),
      scopeLogs: z.array(
        z.object({
          logRecords: z.array(
            z.object({
              severityText: z.string(),
              body: z.object({ stringValue: z.string() }),
              attributes: z.array(pair).default([]),
            }),
          ),
        }),
      ),
    }),
  ),
});

/** A receiver; what it got, by message text. */
async function receiver(t: Cleanup, port = 0) {
  const got: { source: string; level: string; text: string; fields: Record<string, string> }[] = [];
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  server.on('stream', (stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      assert.equal(headers[':path'], '/opentelemetry.proto.collector.logs.v1.LogsService/Export');
      // One message: a byte that says "not compressed", its length, itself.
      const message = layout.toObject(layout.decode(Buffer.concat(chunks).subarray(5)));
      for (const { resource, scopeLogs } of request.parse(message).resourceLogs) {
        const source = resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue ?? '';
        for (const { body, severityText, attributes } of scopeLogs.flatMap(({ logRecords }) => logRecords)) {
          const fields = Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]));
          got.push({ source, level: severityText, text: body.stringValue, fields });
        }
      }
      stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.end(Buffer.alloc(5));
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    for (const session of sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  return { got, port: (server.address() as AddressInfo).port };
}

test('log lines arrive with their level, fields and source, and without secrets', async (t) => {
  const { got, port } = await receiver(t);
  const shipper = logShipper({ address: `127.0.0.1:${port}`, source: 'cluster-monitor' });
  const log = openLog('info', { write: (line) => shipper.write(line) });
  log.info({ container: 'abc', count: 3, password: 'do not tell' }, 'first');
  log.warn({ nested: { a: 1 } }, 'second');
  log.debug({}, 'below the level');
  await until(() => got.length === 2, { what: 'both lines arrive' });
  assert.deepEqual(got[0], {
    ...{ source: 'cluster-monitor', level: 'info', text: 'first' },
    fields: { container: 'abc', count: '3', password: '[Redacted]' },
  });
  assert.deepEqual([got[1]?.level, got[1]?.text, got[1]?.fields.nested], ['warn', 'second', '{"a":1}']);
  log.info({}, 'last');
  await shipper.close(5000);
  assert.equal(got.at(-1)?.text, 'last');
  assert.deepEqual(shipper.numbers(), { shipped: 3, dropped: 0, waiting: 0 });
});

test('while the receiver is away the newest lines wait, the oldest are dropped and counted', async (t) => {
  const port = await freePort();
  const shipper = logShipper({
    ...{ address: `127.0.0.1:${port}`, source: 'test', capacity: 100, retryMs: 100, timeoutMs: 500 },
  });
  t.after(() => shipper.close(0));
  const log = openLog('info', { write: (line) => shipper.write(line) });
  for (let line = 0; line < 1000; line++) log.info({}, String(line));
  await until(() => shipper.numbers().dropped === 900, { what: 'what does not fit is dropped' });
  const { got } = await receiver(t, port);
  await until(() => shipper.numbers().shipped === 100, { timeoutMs: 30_000, what: 'the rest is shipped' });
  assert.deepEqual([got[0]?.text, got.at(-1)?.text, got.length], ['900', '999', 100]);
});

test('the Grafana dashboard asks only for numbers that there are', async () => {
  const text = await readFile(join(projectRoot, 'deploy/grafana/troupe.json'), 'utf8');
  const asked = new Set(text.match(/troupe_[a-z_]+/g));
  const sources = await Promise.all(
    ['pages', 'monitor-metrics', 'gateway-metrics'].map((file) =>
      readFile(join(projectRoot, `cmd/${file}.ts`), 'utf8'),
    ),
  );
  const known = sources.join('\n');
  assert.ok(asked.size > 8);
  for (const name of asked) {
    const last = name.replace(/^troupe_(actors_|notify_|monitor_|gateway_)?/, '').replace(/_bucket$/, '');
    assert.ok(known.includes(last), name);
  }
});
