/** A database of the catalog on a cluster: built as an operator does it, sent to a registry, and pulled by the node. */
import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { ContainerSpec } from '../../proto/ports/engine.ts';
import { catalogAt } from '../../transports/engines/docker/image/sent-images.ts';
import { findProgram } from '../../transports/engines/docker/run.ts';
import { troupe } from '../support/cluster/platform.ts';
import { realRequired } from '../support/engine/docker-under-test.ts';
import { kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { startRegistry } from '../support/engine/troupe-registry.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { testStorageClass } from '../support/kubernetes/volumes.ts';
import { skipWithout } from '../support/require.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

/** How long a machine may take to write a new database to a busy disk, ms. */
const INIT_MS = 240_000;
const DUMP = '/root/postgres/dump.sql.gz';

function skip(): string | false {
  if (!realRequired && process.env.TROUPE_TEST_SLOW !== '1') return 'builds Debian systems: set TROUPE_TEST_SLOW=1';
  if (findProgram('mmdebstrap') === undefined) return 'missing: mmdebstrap';
  return skipWithoutKubernetes() || skipWithout('docker-registry');
}

test('postgres-15 keeps its data over stop and start, in the image that it was made of', {
  skip: skip(),
  timeout: 1_200_000,
}, async (t) => {
  const registry = await startRegistry(t, { port: await freePort() });
  const place = `${registry.host}/library/`;
  const env = { XDG_CONFIG_HOME: await tempDir(t) };
  const sent = await troupe(['image', 'catalog', 'postgres-15', '--to', place], { env });
  assert.equal(sent.code, 0, sent.stderr);
  assert.match(sent.stderr, /\nThe platform finds them with CATALOG_IMAGES=127\.0\.0\.1:\d+\/library\/\.\n$/);
  const again = await troupe(['image', 'catalog', 'postgres-15', '--to', place], { env });
  assert.match(again.stderr, /postgres-15:[0-9a-f]{16} is there already/);

  const under = await kubernetesUnderTest();
  t.after(() => under.end());
  const catalog = await catalogAt(place);
  const { reference = '' } = catalog.find(({ name }) => name === 'postgres-15') ?? {};
  const engine = under.open({ catalog, settings: { storageClass: testStorageClass, catalogImages: place } });
  t.after(() => engine.close());
  const spec: ContainerSpec = {
    ...{ id: 'db', userId: 'u1', hostname: 'db', image: reference, cpus: 1, memoryMb: 512, storageGb: 2 },
    ...{ mountPaths: ['/root'], authorizedKeys: [], isConfigured: true },
  };
  const env1 = { POSTGRES_PASSWORD: 'one of this test', POSTGRES_DB: 'shop' };
  const run = async (script: string): Promise<string> => {
    const command = await engine.run('db', ['/bin/bash', '-c', script], AbortSignal.timeout(60_000));
    command.stdin.end();
    const [out, err, { code }] = await Promise.all([text(command.stdout), text(command.stderr), command.ended]);
    assert.equal(code, 0, `${script}: ${err}`);
    return out.trim();
  };
  const start = async (image: string): Promise<void> => {
    await engine.create({ ...spec, image });
    await engine.start('db', [], { env: env1 });
    const answers = async () =>
      (await run('psql -U postgres -At -d shop -c "select 1" 2>&1 || true')) === '1' ? true : undefined;
    await until(answers, { timeoutMs: INIT_MS, everyMs: 1000, what: 'the database answers' });
    (await engine.dial('db', 5432, { timeoutMs: 5000 })).destroy();
    (await engine.dial('db', 22, { timeoutMs: 5000 })).destroy();
  };
  await start(reference);
  await run('psql -U postgres -d shop -c "create table kept as select 42 as answer"');
  await run('/usr/local/lib/troupe/before-snapshot');
  assert.match(await run(`zcat ${DUMP}`), /CREATE TABLE public\.kept/);
  await engine.stop('db', 30);
  // The platform has another recipe since.
  await start(`troupe.invalid/postgres-15:${'f'.repeat(16)}`);
  assert.equal(await run('psql -U postgres -At -d shop -c "select answer from kept"'), '42');
  await run('/usr/local/lib/troupe/after-snapshot');
  assert.equal(await run(`[ ! -e ${DUMP} ] && echo gone`), 'gone');
  await engine.remove('db');
});
