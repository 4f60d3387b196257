/** `--image` takes each name that `troupe image ls` and `troupe image push` print. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, askByKey, requestsTo } from '../support/client/account-command.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const HOST = 'registry.x.test';
const entry = (name: string) => ({ name, source: 'registry', image: `${HOST}/${name}` });
const IMAGES = [
  { name: 'node', source: 'builtin', image: 'troupe.invalid/node:1' },
  ...['ann/img:1', 'ann/img:latest', 'ann/both:1', 'library/both:1', 'ann/node:latest'].map(entry),
];

/** What the platform is asked for, and how the command ends. `status`: of the list of images. */
async function asked(words: string, status = 200) {
  const container = { id: 'abcdefghijk1', name: 'shop', status: 'stopped' };
  let image: unknown;
  const transport = requestsTo((method, path, sent) => {
    if (path.endsWith('/ssh-keys')) return answer(200, { ssh_keys: [{ id: 1, name: 'laptop' }] });
    if (path.endsWith('/images')) return answer(status, status === 200 ? IMAGES : { error: 'no', code: 'forbidden' });
    if (method === 'GET') return answer(200, { containers: [container] });
    ({ image } = JSON.parse(sent));
    return answer(200, container);
  });
  const { code, said } = await askByKey(transport, words);
  return { image, code, said };
}

test('short names become those that the platform takes', async () => {
  for (const [text, image] of [
    ['img:1', `${HOST}/ann/img:1`],
    ['ann/img:1', `${HOST}/ann/img:1`],
    ['img', `${HOST}/ann/img:latest`],
    ['library/both:1', `${HOST}/library/both:1`],
    [`${HOST}/ann/img:1`, `${HOST}/ann/img:1`],
    ['node', 'node'],
    ['troupe.invalid/node:1', 'troupe.invalid/node:1'],
    ['nginx:latest', 'nginx:latest'],
    ['default', 'default'],
  ] as const) {
    assert.equal((await asked(`run web --no-wait --image ${text}`)).image, image, text);
    if (text !== 'default') assert.equal((await asked(`update shop --image ${text}`)).image, image, text);
  }
  assert.equal((await asked('update shop --image default')).image, null);
});

test('a name of several is asked for, and a token that sees no images hands it on', async () => {
  const { code, said, image } = await asked('run web --no-wait --image both:1');
  assert.deepEqual([code, image], [2, undefined]);
  assert.match(said, /both:1 may be ann\/both:1, library\/both:1: say which\./);
  assert.equal((await asked('run web --no-wait --image img:1', 403)).image, 'img:1');
});
