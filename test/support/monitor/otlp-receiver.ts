/** A receiver of logs that speaks OTLP over gRPC: HTTP/2 and protobuf of its own, none of the exporter's code. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import protobuf from 'protobufjs';
import { z } from 'zod';
import type { Cleanup } from '../temp.ts';

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

/** Opens one, closed with `t`; what it got, in the order of arrival. */
export async function receiver(t: Cleanup, port = 0) {
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
