/** Numbers in the queries of all endpoints. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { runtimeEndpoints } from '../../proto/auth/actors.ts';
import { platformEndpoints } from '../../proto/auth/admin.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { platformFactsEndpoints } from '../../proto/auth/platform.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { notifyEndpoints } from '../../proto/notify/endpoints.ts';

const endpoints: readonly AnyEndpoint[] = [
  ...[...authEndpoints, ...runtimeEndpoints, ...platformEndpoints, ...platformFactsEndpoints],
  ...[...computeEndpoints, ...monitorEndpoints, ...networkEndpoints, ...notifyEndpoints],
];

/** The fields of a query that are read as numbers, by the endpoint's and their own name. */
function numbersOf({ name, query }: AnyEndpoint): [string, z.core.$ZodType][] {
  if (!(query instanceof z.ZodObject)) return [];
  return Object.entries(query.shape).flatMap(([field, schema]): [string, z.core.$ZodType][] => {
    const read = z.safeParse(schema, '5');
    return typeof read.data === 'number' ? [[`${name} ${field}`, schema]] : [];
  });
}

test('what is no whole number is told as that, and a whole number that is out of bounds by the bound', () => {
  const numbers = endpoints.flatMap(numbersOf);
  const names = numbers.map(([name]) => name);
  for (const known of ['createContainer timeout', 'execContainer cols', 'logs tail', 'listNotifications limit'])
    assert.ok(names.includes(known), known);
  for (const [name, schema] of numbers) {
    const sentences = (text: string) => z.safeParse(schema, text).error?.issues.map(({ message }) => message);
    for (const text of ['', 'x', '1.5', '1e3', ' 1', '0x1', '--1', '1;2', 'NaN'])
      assert.match(sentences(text)?.join() ?? '', /^must be (all, or )?a whole number[^,]*$/, `${name}=${text}`);
    for (const digits of [16, 40, 400])
      assert.match(
        sentences('9'.repeat(digits))?.join() ?? '',
        /(at most|up to) \d{1,15}$/,
        `${name}: ${digits} digits`,
      );
    assert.match(sentences('-5')?.join() ?? '', /^must be (at least [01]|all, or a whole number up to \d+)$/, name);
  }
  const timeout = numbers.find(([name]) => name === 'createContainer timeout')?.[1] ?? z.never();
  const sentences = ['120', '51', '50', '0'].map((text) => z.safeParse(timeout, text).error?.issues[0]?.message);
  assert.deepEqual(sentences, ['must be at most 50', 'must be at most 50', undefined, 'must be at least 1']);
});
