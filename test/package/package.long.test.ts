import assert from 'node:assert/strict';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { addPackages, compile, projectWithPackage, runNode } from '../support/package.ts';

const MANIFEST = { name: 'app', private: true, type: 'module' };
const COMPILER = {
  ...{ target: 'ES2023', module: 'NodeNext', types: ['node'], strict: true, exactOptionalPropertyTypes: true },
  ...{ outDir: 'built', rootDir: '.' },
};

const folder = await projectWithPackage({ after });
await writeFile(join(folder, 'package.json'), JSON.stringify(MANIFEST));
await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: COMPILER, include: ['*.ts'] }));

test('every entry loads where no dependency is installed, and holds nothing else to import', async () => {
  assert.deepEqual(await readdir(join(folder, 'node_modules')), ['troupe']);
  for (const entry of ['actors', 'actors/cluster', 'actors/testing', 'nact', 'client', 'client/node']) {
    const { code, stderr } = await runNode(folder, ['-e', `import('troupe/${entry}')`]);
    assert.equal(code, 0, stderr);
  }
  const required = await runNode(folder, ['-e', "console.log(typeof require('troupe/nact').spawnPersistent)"]);
  assert.equal(required.stdout, 'function\n', required.stderr);
  for (const inner of ['', '/supervision/index.js', '/dist/supervision/index.js', '/actors/index.js']) {
    const { stderr } = await runNode(folder, ['-e', `import('troupe${inner}')`]);
    assert.match(stderr, /ERR_PACKAGE_PATH_NOT_EXPORTED/);
  }
});

test('its declarations are complete, and a message of the wrong type does not compile', async () => {
  await addPackages(folder, ['@types/node', 'undici-types']);
  const source = `
    import { dispatch, query, type Ref, spawn, start, stop, stopped } from 'troupe/actors';
    import { Cluster, jsonCodec } from 'troupe/actors/cluster';
    import * as nact from 'troupe/nact';
    type Message = { readonly add: number } | { readonly replyTo: Ref<number> };
    const system = start({ name: 'app' });
    const counter = spawn(
      system,
      (count: number, message: Message) => {
        if ('add' in message) return count + message.add;
        dispatch(message.replyTo, count);
        return count;
      },
      { initialState: 40 },
    );
    dispatch(counter, { add: 2 });
    console.log(await query(counter, (replyTo: Ref<number>) => ({ replyTo }), 1000), typeof Cluster, typeof jsonCodec);
    stop(system);
    await stopped(system);

    const root = nact.start();
    const greeter = nact.spawn(
      root,
      (greeted: number, { name }: { readonly name: string }, ctx) => {
        nact.dispatch(ctx.sender, \`hello \${name}, number \${greeted + 1}\`);
        return greeted + 1;
      },
      'greeter',
      { initialState: 0, onCrash: (_message, _error, { reset }) => reset },
    );
    console.log(await nact.query(greeter, { name: 'ann' }, nact.second));
    nact.stop(root);
  `;
  await writeFile(join(folder, 'right.ts'), source);
  const right = await compile(folder);
  assert.equal(right.code, 0, right.stdout);
  assert.equal((await runNode(folder, ['built/right.js'])).stdout, '42 function function\nhello ann, number 1\n');

  await writeFile(join(folder, 'wrong.ts'), source.replace('{ add: 2 }', "{ add: 'two' }"));
  const wrong = await compile(folder);
  assert.match(wrong.stdout, /^wrong\.ts\(\d+,\d+\): error TS2322/);
});

test('the client library is typed by the endpoints, in the package as in the sources', async () => {
  await addPackages(folder, ['zod', 'protobufjs', 'long', '@types/ws']);
  const source = `
    import { TroupeClient } from 'troupe/client';
    import { nodeTransport } from 'troupe/client/node';
    const client = new TroupeClient({ url: 'http://127.0.0.1:1', transport: nodeTransport() });
    const made = client.call('createContainer', { body: { name: 'x', ssh_key_ids: [1] } });
    const status = made.then((container) => container.status, (error: Error) => error.message);
    console.log(await status);
  `;
  await rm(join(folder, 'wrong.ts'), { force: true });
  await writeFile(join(folder, 'client.ts'), source);
  const right = await compile(folder);
  assert.equal(right.code, 0, right.stdout);
  const said = '127.0.0.1:1 cannot be reached: nothing listens there.\n';
  assert.equal((await runNode(folder, ['built/client.js'])).stdout, said);

  const mistakes = [
    ["name: 'x'", 'name: 1'],
    ["'createContainer'", "'createContainers'"],
    ['container.status', 'container.stat'],
  ] as const;
  for (const [right, wrong] of mistakes) {
    await writeFile(join(folder, 'client.ts'), source.replace(right, wrong));
    assert.match((await compile(folder)).stdout, /^client\.ts\(\d+,\d+\): error TS/, wrong);
  }
});
