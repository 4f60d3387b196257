import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { CLUSTER_LAYOUT } from '../../proto/monitor/cluster.ts';
import { projectRoot } from '../support/project.ts';

test('the layouts of cluster.proto and of the code are the same', async () => {
  const documented = await protobuf.load(join(projectRoot, 'proto/monitor/cluster.proto'));
  const used = protobuf.Root.fromJSON(CLUSTER_LAYOUT);
  for (const name of Object.keys(CLUSTER_LAYOUT.nested.troupe.nested)) {
    const fields = (root: protobuf.Root) =>
      root.lookupType(`troupe.${name}`).fieldsArray.map((field) => [field.id, field.name, field.type, field.repeated]);
    assert.deepEqual(fields(used), fields(documented), name);
  }
});
