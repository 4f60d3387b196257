/** `troupe deploy` of a folder, on a real cluster: its release command runs in the container, as on Docker. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { appImageIn, DEPLOY_PROGRAMS } from '../support/engine/app-image.ts';
import { kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { clusterDomain } from '../support/kubernetes/cluster-names.ts';
import { kubeconfigOf } from '../support/kubernetes/manifests.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { testStorageClass } from '../support/kubernetes/volumes.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { inReverse } from '../support/suite.ts';
import { tempDir } from '../support/temp.ts';

const skip = tinyImageMissing() ?? (skipWithoutKubernetes() || skipWithout(...DEPLOY_PROGRAMS));
const ADMIN_PASSWORD = 'the admin of this test';

describe('a folder that is deployed to a cluster', { skip, timeout: 900_000 }, () => {
  test('is an app whose release command sees its secrets, and which stays as it is when that fails', async (t) => {
    const ends = inReverse(t);
    const under = await kubernetesUnderTest({ names: true });
    ends.after(() => under.end());
    const folder = await tempDir(ends);
    const database = await testDatabase();
    ends.after(() => database.close());
    const image = await appImageIn(under.cluster.docker?.client ?? assert.fail('a cluster without a node'));
    const data = join(folder, 'data');
    const env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD, XDG_CONFIG_HOME: folder },
      ...{ COMPUTE_ENGINE: 'kubernetes', KUBECONFIG: await kubeconfigOf(under.cluster, 'troupe-core') },
      ...{ KUBERNETES_ARCHITECTURE: 'any', KUBERNETES_CLUSTER_DOMAIN: clusterDomain },
      KUBERNETES_STORAGE_CLASS: testStorageClass,
    };
    const platform = await startPlatform({ data, env });
    ends.after(() => platform.stop());
    const token = await logIn(platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
    const body = { name: 'k', public_key: publicKey() };
    await request('POST', `${platform.ready.urls.compute}/compute/ssh-keys`, { token, body });
    const run = (words: readonly string[], input = '') => troupe(words, { env, input });
    const ok = async (words: readonly string[], input = ''): Promise<string> => {
      const { code, stdout, stderr } = await run(words, input);
      assert.equal(code, 0, `${words.join(' ')}\n${stdout}${stderr}`);
      return stdout + stderr;
    };
    await ok(['login', '--data', data, '--user', 'admin', '--password-stdin'], `${ADMIN_PASSWORD}\n`);
    const shop = join(folder, 'shop');
    await mkdir(shop);
    await writeFile(join(shop, 'index.html'), 'one\n');
    const serve = ['--start', 'exec busybox httpd -f -p $PORT -h .', '--build', '', '--grace', '20'];
    await ok(['run', 'shop']);
    await ok(['deploy', shop, ...serve]);
    await ok(['env', 'secret', 'shop', 'KEY'], 'hunter2-canary\n');
    await writeFile(join(shop, 'index.html'), 'two\n');
    await ok(['deploy', shop, ...serve, '--release', 'test "$KEY" = hunter2-canary && echo made > /root/made']);
    const failing = await run(['deploy', shop, ...serve, '--release', 'echo "with $KEY"; exit 3']);
    assert.equal(failing.code, 1, failing.stderr);
    assert.match(await ok(['exec', 'shop', 'cat', '/root/made', '/root/app/current/app/index.html']), /made\s+two/);
    await ok(['rollback', 'shop']);
    assert.match(await ok(['exec', 'shop', 'cat', '/root/app/current/app/index.html']), /one/);
  });
});
