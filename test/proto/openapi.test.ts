/** What a developer reads of an endpoint besides its path. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { openapi } from '../../proto/openapi.ts';

const operation = z.object({
  description: z.string().optional(),
  security: z.array(z.record(z.string(), z.array(z.string()))),
  responses: z.record(z.string(), z.object({ content: z.record(z.string(), z.unknown()).optional() })),
});
const read = (document: Record<string, unknown>) =>
  z.object({ paths: z.record(z.string(), z.record(z.string(), operation)) }).parse(document).paths;
const ways = (found: z.output<typeof operation> | undefined) => found?.security.flatMap((way) => Object.keys(way));

test('the document names the scope that an API token needs, and who else may not call', () => {
  const paths = read(openapi('t', '1', [...computeEndpoints, ...monitorEndpoints]));
  assert.equal(
    paths['/compute/containers/{id}/start']?.post?.description,
    'An API token needs the scope `compute.<uid>.containers.<id>`, or a broader one, with `start`.',
  );
  assert.match(paths['/compute/admin/containers']?.get?.description ?? '', /login of the administrator/);
});

test('the document tells where a token may be put: in the query of streams, in the cookie of services that take one', () => {
  const paths = read(openapi('t', '1', [...computeEndpoints, ...monitorEndpoints]));
  assert.deepEqual(ways(paths['/compute/containers']?.get), ['bearer']);
  assert.deepEqual(ways(paths['/compute/containers/{id}/terminal']?.get), ['bearer', 'query']);
  assert.deepEqual(ways(paths['/sse/pod-metrics']?.get), ['bearer', 'query']);
  const network = read(openapi('t', '1', networkEndpoints, [], { isPlain: true, cookie: 'token' }));
  assert.deepEqual(ways(network['/api/domains']?.get), ['bearer', 'cookie']);
});

test('a path with a socket and a plain form is one operation that tells of both', () => {
  const log = read(openapi('t', '1', computeEndpoints))['/compute/containers/{id}/logs']?.get;
  const replies = Object.keys(log?.responses ?? {});
  for (const status of ['101', '200', '409']) assert.ok(replies.includes(status), status);
  assert.ok(!replies.includes('426'));
  assert.deepEqual(ways(log), ['bearer', 'query']);
});

test('refusals of a service that answers in plain text are documented as that, and as JSON for who asks', () => {
  const network = read(openapi('t', '1', networkEndpoints, [], { isPlain: true }));
  const kinds = Object.entries(network['/api/domains']?.post?.responses ?? {}).map(([status, { content = {} }]) => [
    status,
    ...Object.keys(content),
  ]);
  assert.ok(kinds.length > 3);
  for (const [status, ...types] of kinds)
    assert.deepEqual(types, status === '201' ? ['application/json'] : ['text/plain', 'application/json'], status);
});

test('a page documents each of its replies', () => {
  const replies = { '200': { description: 'well', schema: {} }, '503': { description: 'ill', schema: {} } };
  const page = { path: '/healthz', summary: 'Health', contentType: 'application/json', replies };
  assert.deepEqual(Object.keys(read(openapi('t', '1', [], [page]))['/healthz']?.get?.responses ?? {}), ['200', '503']);
});

test('schemas hold no bounds that every integer has, and no pattern beside a format', () => {
  const text = JSON.stringify(openapi('t', '1', [...computeEndpoints, ...monitorEndpoints, ...networkEndpoints]));
  assert.doesNotMatch(text, /9007199254740991/);
  assert.doesNotMatch(text, /"format":"date-time","pattern"/);
  assert.match(text, /"minimum":128/);
});
