/** The command line makes no second container of a name, unless it is told to. The API does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, askByKey, requestsTo } from '../support/client/account-command.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

/** A platform with two containers, and what it was asked to make and change. */
function platform() {
  const changes: string[] = [];
  const containers = [
    { id: 'aaaaaaaaaaa1', name: 'shop', status: 'running' },
    { id: 'bbbbbbbbbbb2', name: 'site', status: 'running' },
  ];
  const transport = requestsTo((method, path, sent) => {
    if (method !== 'GET') changes.push(`${method} ${JSON.parse(sent).name}`);
    if (path.endsWith('/ssh-keys')) return answer(200, { ssh_keys: [{ id: 1, name: 'laptop' }] });
    if (method === 'GET') return answer(200, { containers });
    return answer(200, { ...containers[1], ...JSON.parse(sent) });
  });
  return { changes, ask: (command: string) => askByKey(transport, command) };
}

test('a name that a container has is refused, before anything is made', async () => {
  const { changes, ask } = platform();
  for (const command of ['run shop --no-wait', 'update site --name shop', 'run shop --no-wait --json']) {
    const { code, said } = await ask(command);
    assert.equal(code, 6, said);
    assert.match(said, /You have a container shop \(aaaaaaaaaaa1\): take another name\. With --same-name /);
  }
  assert.deepEqual(changes, []);
});

test('with --same-name there are two, and other names are free', async () => {
  const { changes, ask } = platform();
  for (const command of [
    'run shop --no-wait --same-name',
    'run sho --no-wait',
    'update site --name shop --same-name',
    'update site --name site',
  ])
    assert.equal((await ask(command)).code, 0, command);
  assert.deepEqual(changes, ['POST shop', 'POST sho', 'PATCH shop', 'PATCH site']);
});
