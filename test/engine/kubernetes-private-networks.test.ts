/** Private networks on a cluster with a DNS. It has no network plugin: who is kept out is read from the policies. */
import { after, before, describe } from 'node:test';
import { networksConformance } from '../support/engine/conformance-networks.ts';
import { joinedSuccessorsConformance } from '../support/engine/conformance-successors.ts';
import { Suite } from '../support/engine/conformance-suite.ts';
import { type KubernetesUnderTest, kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';

describe('private networks of a cluster', { skip: tinyImageMissing() ?? skipWithoutKubernetes() }, () => {
  let under: KubernetesUnderTest;
  let suite: Suite;
  before(async () => {
    under = await kubernetesUnderTest({ names: true });
    suite = new Suite(under);
  });
  after(() => under?.end());

  networksConformance(() => suite);
  joinedSuccessorsConformance(() => suite);
});
